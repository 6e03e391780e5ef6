"""One cluster for all contract tests that ask a real API server, and the chart in it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.chart_in_cluster import (
    POLICY,
    allow,
    ensure_namespace,
    gpujob,
    helm,
    install,
    jobs_only,
    kubeconfig_of,
    names,
    submit,
)
from tests.contract.image_registry import Registry, started
from tests.contract.test_chart_rendering import NAMESPACE
from tests.e2e.api_server import ApiServer
from tests.e2e.chart import let_children_go
from tests.e2e.cluster import Cluster, down, eventually, up


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A control plane without nodes, ended after the last test."""
    made = up(tmp_path_factory.mktemp("cluster") / "of contract tests")
    yield made
    down(made.dir)


@pytest.fixture(scope="session")
def api(cluster: Cluster) -> Iterator[ApiServer]:
    """Calls to the API server on one connection."""
    server = ApiServer(cluster)
    yield server
    server.close()


@pytest.fixture(scope="package")
def installed(cluster: Cluster) -> Iterator[None]:
    """The chart in the cluster, with its policy in force."""
    ensure_namespace(cluster, NAMESPACE)
    install(cluster)
    namespace = ensure_namespace(cluster, next(names))
    allow(cluster, namespace, "prober", "gpujob-viewer")
    jobs_only(cluster, namespace, "prober")
    attempt = gpujob("probe", namespace)
    # The API server notices a new policy after a moment.
    eventually(lambda: POLICY in submit(cluster, attempt, "prober").stderr, what="policy in force")
    let_children_go(cluster)
    yield
    helm(cluster, "uninstall", "--wait")


@pytest.fixture
def namespace(cluster: Cluster, installed: None) -> str:
    """A namespace of the test's own."""
    return ensure_namespace(cluster, next(names))


@pytest.fixture(scope="module")
def as_operator(cluster: Cluster, installed: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A kubeconfig with a token of the chart's ServiceAccount, as an operator outside a pod uses it."""
    return kubeconfig_of(cluster, "gpujob-operator", NAMESPACE, tmp_path_factory.mktemp("operator"))


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """A registry with TLS and a login, for the tests of one file."""
    with started(tmp_path_factory.mktemp("registry")) as running:
        yield running
