"""One cluster for all contract tests that ask a real API server."""

from collections.abc import Iterator

import pytest

from tests.e2e.cluster import Cluster, down, up


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A control plane without nodes, ended after the last test."""
    made = up(tmp_path_factory.mktemp("cluster") / "of contract tests")
    yield made
    down(made.dir)
