"""One cluster for all tests of the running operator, the operator itself, and for each test a namespace and nodes of its own.

CLUSTER=existing or a CLUSTER_DIR that holds a cluster is used as it is; otherwise one is brought up and taken down.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.api_server import NODES, ApiServer, AuditLog
from tests.e2e.chart import install_chart
from tests.e2e.cluster import Cluster, down, eventually, pretended_nodes, up
from tests.e2e.cluster.state import load
from tests.e2e.operator_process import OperatorProcess, operator_kubeconfig
from tests.e2e.rights import assert_granted
from tests.e2e.team import Team, new_team

_numbers = itertools.count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests with the mark `last` come after all others, in the order of their number."""
    items.sort(key=lambda item: mark.args[0] if (mark := item.get_closest_marker("last")) else 0)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster with the chart installed, but no operator and no nodes."""
    named = os.environ.get("CLUSTER_DIR")
    mine = not named or load(Path(named).expanduser().absolute()) is None
    folder = Path(named) if named else tmp_path_factory.mktemp("cluster") / "of the operator"
    try:
        made = up(folder.expanduser().absolute())
        install_chart(made)
        yield made
    finally:
        if mine:
            down(folder.expanduser().absolute())


@pytest.fixture(scope="session")
def api(cluster: Cluster) -> Iterator[ApiServer]:
    """Calls to the API server; at the end no operator has called what the chart does not grant."""
    server = ApiServer(cluster)
    yield server
    if cluster.audit_log is not None and cluster.audit_log.exists():
        assert_granted(server, AuditLog(cluster.audit_log))
    server.close()


@pytest.fixture(scope="session")
def audit(cluster: Cluster) -> AuditLog:
    """The operator's requests; only the cluster that is made of plain processes logs them."""
    if cluster.audit_log is None:
        pytest.skip("this cluster has no audit log that tests can read")
    return AuditLog(cluster.audit_log, cluster.dir)


Operators = Callable[[str], OperatorProcess]


@pytest.fixture(scope="session")
def operators(cluster: Cluster, api: ApiServer) -> Iterator[Operators]:
    """Makes operator processes by name, not started; all of them end with the session."""
    made: list[OperatorProcess] = []

    def make(name: str) -> OperatorProcess:
        kubeconfig = operator_kubeconfig(api, cluster.dir / f"operator-{name}.kubeconfig")
        made.append(OperatorProcess(cluster, api, kubeconfig, name))
        return made[-1]

    yield make
    for process in made:
        process.stop()


@pytest.fixture(scope="session")
def resident(operators: Operators) -> OperatorProcess:
    """The process behind `operator`; not for tests."""
    return operators("main")


@pytest.fixture
def operator(resident: OperatorProcess) -> Iterator[OperatorProcess]:
    """The operator, leading; the same process for all tests that let it live."""
    if not resident.alive:
        resident.start_without_waiting_for_the_lease()
    before = len(resident.errors())
    resident.may_fail_on = ""
    yield resident
    assert [line for line in resident.errors()[before:] if not blamed(line, resident.may_fail_on)] == []


def blamed(line: str, job: str) -> bool:
    """Whether a line of the log is about a job that a test made to fail."""
    return bool(job) and f"/{job}" in line


@pytest.fixture
def no_operator(resident: OperatorProcess) -> None:
    """No operator runs; the test starts its own."""
    resident.stop()


@pytest.fixture
def hasty(no_operator: None, operators: Operators) -> Iterator[OperatorProcess]:
    """Another operator in its place, whose minutes take seconds and which reads reporters every second."""
    process = operators("hasty-main").in_haste()
    process.settings["GPUJOB_SCRAPE_SECONDS"] = "1"
    process.start_without_waiting_for_the_lease()
    yield process
    process.stop()
    assert process.errors() == []


Fleet = Callable[..., list[str]]
MADE_BY = "made-by-test"


@pytest.fixture
def fleet(cluster: Cluster, api: ApiServer) -> Iterator[Fleet]:
    """Makes pretended nodes that are ready, for example fleet(h100=2); gives their names. They go with the test."""
    prefix = f"test{next(_numbers)}-"

    def make(**pools: int) -> list[str]:
        names = []
        for node in pretended_nodes(pools):
            metadata = node["metadata"]
            metadata["labels"][MADE_BY] = prefix.rstrip("-")
            metadata["name"] = metadata["labels"]["kubernetes.io/hostname"] = prefix + metadata["name"]
            api.create(NODES, node)
            names.append(metadata["name"])
        eventually(lambda: set(names) <= ready_nodes(api), 60, what="nodes that are ready", every=0.1)
        return names

    yield make
    api.delete(f"{NODES}?labelSelector={MADE_BY}={prefix.rstrip('-')}")


def ready_nodes(api: ApiServer) -> set[str]:
    """Names of the nodes that are ready and have lost the taint that every new node has."""
    return {
        node["metadata"]["name"]
        for node in api.items(NODES)
        if any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions", []))
        and not any(taint["key"].startswith("node.kubernetes.io/") for taint in node["spec"].get("taints", []))
    }


@pytest.fixture
def team(api: ApiServer, fleet: Fleet) -> Iterator[Team]:
    """A namespace with helpers for the jobs in it; emptied before the nodes go, so that pods end on their nodes."""
    with new_team(api, f"team-{os.getpid()}-{next(_numbers)}") as one:
        yield one
