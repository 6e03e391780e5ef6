"""The previous chart with its operator, upgraded to this one while a job runs: what people made and what runs stay as they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from tests.e2e.api_server import GPUPOOLS, ApiServer
from tests.e2e.chart import RELEASE, install_chart
from tests.e2e.cluster import Cluster, eventually
from tests.e2e.node import operator_image
from tests.e2e.node.cluster import MACHINES
from tests.e2e.node.installed import Installed, put_image_on_nodes
from tests.e2e.node.training import Trainers
from tests.e2e.operator_process import ROOT, OperatorProcess, operator_kubeconfig

pytestmark = [pytest.mark.e2e, pytest.mark.node]

GPURUNTIMES = "/apis/gpujob.dev/v1alpha1/gpuruntimes"


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the previous version."""
    return operator_image.previous(tmp_path_factory.mktemp("previous"))


@pytest.fixture
def installed(cluster: Cluster, api: ApiServer, resident: OperatorProcess, earlier: Path) -> Iterator[Installed]:
    """Two replicas of the previous version, by its own chart; afterwards the process of other tests is back."""
    nodes = tuple(each.name for each in MACHINES)
    put_image_on_nodes(cluster, nodes, operator_image.build(earlier, operator_image.PREVIOUS_REFERENCE))
    put_image_on_nodes(cluster, nodes, operator_image.build())
    resident.stop()
    release = Installed(cluster, api)
    release.helm("uninstall", RELEASE, "--wait")
    try:
        release.install(
            "--set=replicaCount=2", "--take-ownership", "--force-conflicts",
            chart=earlier / "charts" / "gpujob-operator", reference=operator_image.PREVIOUS_REFERENCE,
        )  # fmt: skip
        yield release
    finally:
        install_chart(cluster)
        eventually(lambda: not release.pods(), 60, what="operators that are gone")
        operator_kubeconfig(api, cluster.dir / "operator.kubeconfig")
        resident.start_without_waiting_for_the_lease()


def served(api: ApiServer) -> dict[str, object]:
    """The schema of each CRD as the API server has it."""
    crds = api.items("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
    return {each["metadata"]["name"]: each["spec"]["versions"][0]["schema"] for each in crds}


def test_objects_and_a_running_job_come_through_the_upgrade(
    installed: Installed, api: ApiServer, team: Trainers, pools: Callable[..., None], earlier: Path
) -> None:
    pools("nvidia", price={"perGPUHour": "1.25"})
    runtime = {"apiVersion": "gpujob.dev/v1alpha1", "kind": "GPURuntime", "metadata": {"name": "ours"}, "spec": {
        "image": "registry.example.com/ours:1", "backend": "CUDA", "backendVersion": "13.0",
        "framework": {"name": "pytorch", "version": "2.14.1"}, "architectures": ["9.0"]}}  # fmt: skip
    api.create(GPURUNTIMES, runtime)
    try:
        ended = team.run("ended", "python3", "-c", "print('ran')")
        assert team.result("ended", ended) == ("Succeeded", ["ran\n"])
        running = team.run_on("runs-on")
        (pod,) = [each["metadata"]["uid"] for each in team.pods(running)]
        team.run("suspended", "python3", "-c", "print('later')", suspend=True)
        team.until("suspended", "Suspended")
        before = {
            "pool": api.get(GPUPOOLS, "all-nvidia")["metadata"]["uid"],
            "runtime": api.get(GPURUNTIMES, "ours"),
            "ended": api.get(team.path, "ended"),
        }
        old = {path.name: path.read_text() for path in (earlier / "crds").glob("*.yaml")}
        new = {path.name: path.read_text() for path in (ROOT / "crds").glob("*.yaml")}
        assert old != new, "the previous version has the CRDs of this one: take an earlier commit"

        # Helm 4 takes over what an earlier manager of a field wrote, as the README says of an upgrade.
        installed.install("--reset-then-reuse-values")

        wanted = {
            each["metadata"]["name"]: each["spec"]["versions"][0]["schema"]
            for each in map(yaml.safe_load, new.values())
        }
        assert {name: schema for name, schema in served(api).items() if name in wanted} == wanted
        leader = installed.leader()
        for each in installed.pods():
            assert each["spec"]["containers"][0]["image"] == operator_image.REFERENCE
        assert '"level": "error"' not in installed.log(leader)
        # The same pod of the same attempt goes on to its end, and the new operator reports it.
        team.end(running)
        assert team.result("runs-on", running) == ("Succeeded", ["ran\n"])
        assert [each["metadata"]["uid"] for each in team.pods(running)] == [pod]
        assert len(team.jobs(running)) == 1
        assert api.get(GPUPOOLS, "all-nvidia")["metadata"]["uid"] == before["pool"]
        assert api.get(GPUPOOLS, "all-nvidia")["spec"]["price"] == {"perGPUHour": "1.25"}
        assert api.get(GPURUNTIMES, "ours")["spec"] == before["runtime"]["spec"]
        assert api.get(GPURUNTIMES, "ours")["metadata"]["uid"] == before["runtime"]["metadata"]["uid"]
        after = api.get(team.path, "ended")
        assert (after["metadata"]["uid"], after["spec"]) == (
            before["ended"]["metadata"]["uid"],
            before["ended"]["spec"],
        )
        assert after["status"]["state"] == "Succeeded"
        # What waited, and what comes new, runs under the new operator.
        api.patch(team.path, "suspended", {"spec": {"suspend": False}})
        assert team.until("suspended", "Succeeded", timeout=60)
        uid = team.run("new", "python3", "-c", "print('ran')")
        assert team.result("new", uid) == ("Succeeded", ["ran\n"])
    finally:
        api.delete(GPURUNTIMES, "ours")
