"""One cluster with real nodes for all tests of this folder, an operator in it, and a namespace for each test.

The fixtures have the names of those for simulated nodes, and mean the same.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator

import pytest

from tests.e2e.api_server import GPUPOOLS, NAMESPACES, ApiServer
from tests.e2e.chart import install_chart
from tests.e2e.cluster import Cluster, eventually
from tests.e2e.node import devices, needs
from tests.e2e.node.cluster import real_cluster
from tests.e2e.node.training import Trainers
from tests.e2e.operator_process import OperatorProcess, operator_kubeconfig
from tests.ports import free_port

_numbers = itertools.count(1)
_LABELS = {"amd": "product-name", "nvidia": "product"}


@pytest.fixture(scope="package")
def cluster() -> Iterator[Cluster]:
    """Real nodes with the chart installed."""
    if why := needs.missing():
        assert os.environ.get("REAL_NODES") != "required", why
        pytest.skip(why)
    with real_cluster() as made:
        install_chart(made)
        yield made


@pytest.fixture(scope="package")
def api(cluster: Cluster) -> Iterator[ApiServer]:
    """Calls to the API server."""
    server = ApiServer(cluster)
    yield server
    server.close()


@pytest.fixture(scope="package")
def resident(cluster: Cluster, api: ApiServer) -> Iterator[OperatorProcess]:
    """The process behind `operator`; not for tests."""
    kubeconfig = operator_kubeconfig(api, cluster.dir / "operator.kubeconfig")
    process = OperatorProcess(cluster, api, kubeconfig, "main").brisk()
    process.settings |= {"GPUJOB_SCRAPE_SECONDS": "2", "GPUJOB_METRICS_PORT": str(free_port())}
    process.start_without_waiting_for_the_lease()
    yield process
    process.stop()


@pytest.fixture
def operator(resident: OperatorProcess) -> Iterator[OperatorProcess]:
    """The operator, leading; what it logs as errors fails the test."""
    before = len(resident.errors())
    yield resident
    assert resident.errors()[before:] == []


@pytest.fixture
def team(api: ApiServer) -> Iterator[Trainers]:
    """A namespace that enforces the Pod Security level "restricted"; emptied at the end."""
    name = f"team-{next(_numbers)}"
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    api.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
    # Pods are refused before the namespace has its service account.
    eventually(lambda: api.find(f"{NAMESPACES}/{name}/serviceaccounts", "default"), 30, what="the service account")
    one = Trainers(api, name)
    yield one
    one.clear()
    api.delete(NAMESPACES, name)


@pytest.fixture
def pools(api: ApiServer) -> Iterator[Callable[..., None]]:
    """Makes GPUPools of the nodes of one vendor, for example pools("amd", supplementalGroups=[44])."""
    made = []

    def make(vendor: str, **spec: object) -> None:
        selector = {"matchExpressions": [{"key": f"{vendor}.com/gpu.{_LABELS[vendor]}", "operator": "Exists"}]}
        body = {"apiVersion": "gpujob.dev/v1alpha1", "kind": "GPUPool", "metadata": {"name": f"all-{vendor}"}}
        api.create(GPUPOOLS, {**body, "spec": {"nodeSelector": selector, **spec}})
        made.append(f"all-{vendor}")

    yield make
    for name in made:
        api.delete(GPUPOOLS, name)


@pytest.fixture
def amd_group(pools: Callable[..., None]) -> None:
    """The admin says which group owns the devices of the AMD nodes."""
    pools("amd", supplementalGroups=[devices.RENDER_GROUP])
