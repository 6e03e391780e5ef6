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
from tests.e2e.cluster import Cluster, down, eventually, simulated_nodes, up
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
    return AuditLog(cluster.audit_log)


class Operators:
    """Makes operator processes by name, not started."""

    def __init__(self, cluster: Cluster, api: ApiServer) -> None:
        self._cluster, self._api, self._made = cluster, api, list[OperatorProcess]()

    def __call__(self, name: str) -> OperatorProcess:
        kubeconfig = operator_kubeconfig(self._api, self._cluster.dir / f"operator-{name}.kubeconfig")
        self._made.append(OperatorProcess(self._cluster, self._api, kubeconfig, name))
        return self._made[-1]

    def stop(self, but: OperatorProcess | None = None) -> None:
        """Ends all, or all but one: also those that a test that failed left."""
        for process in self._made:
            if process is not but:
                process.stop()


@pytest.fixture(scope="session")
def operators(cluster: Cluster, api: ApiServer) -> Iterator[Operators]:
    """All operators of the session; they end with it."""
    made = Operators(cluster, api)
    yield made
    made.stop()


class Leaders:
    """The operators that tests share. One of them leads, and goes on until a test needs another one or none."""

    def __init__(self, operators: Operators) -> None:
        self._operators, self._shared = operators, dict[str, OperatorProcess]()

    def lead(self, name: str) -> OperatorProcess:
        """The operator of that name, leading; no other one runs."""
        if name not in self._shared:
            self._shared[name] = self._new(name)
        process = self._shared[name]
        self._operators.stop(but=process)
        if not process.alive:
            process.start_without_waiting_for_the_lease()
        return process

    def stop(self) -> None:
        """No operator runs."""
        self._operators.stop()

    def _new(self, name: str) -> OperatorProcess:
        process = self._operators(name)
        if name == "main":
            return process.brisk()
        process.settings["GPUJOB_SCRAPE_SECONDS"] = "1"
        return process.in_haste() if name == "hasty-main" else process


@pytest.fixture(scope="session")
def leaders(operators: Operators) -> Leaders:
    """What is behind `operator`, `hasty` and `attentive`; not for tests."""
    return Leaders(operators)


def watched(process: OperatorProcess) -> Iterator[OperatorProcess]:
    """The process for one test; what it logs as errors meanwhile fails the test."""
    before = len(process.errors())
    process.may_fail_on = ""
    yield process
    assert [line for line in process.errors()[before:] if not blamed(line, process.may_fail_on)] == []


@pytest.fixture
def operator(leaders: Leaders) -> Iterator[OperatorProcess]:
    """The operator, leading; the same process for all tests that let it live."""
    yield from watched(leaders.lead("main"))


def blamed(line: str, job: str) -> bool:
    """Whether a line of the log is about a job that a test made to fail."""
    return bool(job) and f"/{job}" in line


@pytest.fixture
def no_operator(leaders: Leaders) -> None:
    """No operator runs; the test starts its own."""
    leaders.stop()


@pytest.fixture
def hasty(leaders: Leaders) -> Iterator[OperatorProcess]:
    """Another operator in its place, whose minutes take seconds and which reads reporters every second."""
    yield from watched(leaders.lead("hasty-main"))


@pytest.fixture
def attentive(leaders: Leaders) -> Iterator[OperatorProcess]:
    """An operator with its usual times that reads reporters every second."""
    yield from watched(leaders.lead("attentive"))


Fleet = Callable[..., list[str]]
MADE_BY = "made-by-test"


@pytest.fixture
def fleet(cluster: Cluster, api: ApiServer) -> Iterator[Fleet]:
    """Makes simulated nodes that are ready, for example fleet(h100=2); gives their names. They go with the test."""
    prefix = f"test{next(_numbers)}-"

    def make(**pools: int) -> list[str]:
        names = []
        for node in simulated_nodes(pools):
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
