"""Installing, upgrading and uninstalling in a cluster of its own, which has no release that other tests use."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from gpujob.render.runner_files import load_runner
from tests.commands_of_pages import CHART as CHART_COMMANDS
from tests.commands_of_pages import run_in
from tests.contract.chart_in_cluster import (
    CRDS,
    IMAGE,
    ensure_namespace,
    everything,
    get,
    gpujob,
    helm,
    install,
    kubectl,
    names,
    run,
)
from tests.contract.test_chart_rendering import CHART, NAMESPACE, RELEASE, SAMPLES, helm_program, with_image
from tests.contract.test_remedies_of_doctor import do, remedies, told_values, upgrade
from tests.e2e.cluster import Cluster, down, eventually, up
from tests.e2e.cluster.binaries import HELM_3, HELM_3_MODULE, build

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A control plane without the chart, before each test and after it."""
    made = up(tmp_path_factory.mktemp("cluster") / "without chart")
    yield made
    down(made.dir)


@pytest.fixture
def without_crds(tmp_path: Path) -> Iterator[Cluster]:
    """A control plane to which no release brought CRDs yet. Where they are deleted and made several times, the API server may take
    minutes to delete them once more.
    """
    made = up(tmp_path / "without CRDs")
    yield made
    down(made.dir)


@pytest.fixture(scope="module", params=["4", "3"])
def program(request: pytest.FixtureRequest) -> str:
    """Helm of either major version."""
    return "helm" if request.param == "4" else str(build(HELM_3, HELM_3_MODULE) / "helm")


def test_install_upgrade_uninstall_leaves_crds_and_jobs_and_nothing_else(cluster: Cluster, program: str) -> None:
    ensure_namespace(cluster, NAMESPACE)
    namespace = ensure_namespace(cluster, next(names))
    before = everything(cluster)
    install(cluster, program=program)
    assert {f"CustomResourceDefinition <none> {name}" for name in CRDS} <= everything(cluster)
    deployment = get(cluster, "deployment", RELEASE, f"-n{NAMESPACE}")
    assert deployment["spec"]["replicas"] == 0

    kubectl(cluster, "create", "-f", "-", stdin=gpujob("kept", namespace, nodes=1))
    uid = get(cluster, "gpujobs", "kept", f"-n{namespace}")["metadata"]["uid"]
    helm(cluster, "upgrade", str(CHART), "--set=replicaCount=0", IMAGE, "--set=logLevel=debug", program=program)
    assert {"name": "GPUJOB_LOG_LEVEL", "value": "debug"} in _environment(cluster)

    helm(cluster, "uninstall", "--wait", program=program)
    kept = {f"CustomResourceDefinition <none> {name}" for name in CRDS}
    # The API server itself adds an APIService for the CRDs' group.
    left = everything(cluster) - before - kept
    assert left <= {f"GPUJob {namespace} kept", "APIService <none> v1alpha1.gpujob.dev"}
    assert kept <= everything(cluster)
    assert get(cluster, "gpujobs", "kept", f"-n{namespace}")["metadata"]["uid"] == uid
    # Nothing of an uninstalled operator holds the namespace.
    kubectl(cluster, "delete", "namespace", namespace, "--timeout=60s")


def test_a_release_of_helm_3_is_upgraded_by_helm_4_and_rolled_back(cluster: Cluster) -> None:
    ensure_namespace(cluster, NAMESPACE)
    three = str(build(HELM_3, HELM_3_MODULE) / "helm")
    install(cluster, program=three)
    helm(cluster, "upgrade", str(CHART), "--reset-then-reuse-values", "--set=logLevel=debug")
    level = {"name": "GPUJOB_LOG_LEVEL", "value": "debug"}
    assert level in _environment(cluster)
    helm(cluster, "rollback", "1")
    assert level not in _environment(cluster)
    helm(cluster, "uninstall", "--wait")


def test_doctor_says_how_missing_crds_come(without_crds: Cluster) -> None:
    """Without a release, with one whose CRDs were deleted, and with CRDs of an earlier version."""
    cluster = without_crds

    def crds() -> list[str]:
        return remedies(cluster, "crds")

    def without(part: str, field: str, manager: str = "helm") -> None:
        """The CRD of GPUJobs as an earlier version of the chart, or kubectl, brought it."""
        crd = get(cluster, "crd", "gpujobs.gpujob.dev")
        crd["metadata"] = {name: crd["metadata"][name] for name in ("name", "labels", "annotations")}
        del (
            crd["status"],
            crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"][part]["properties"][field],
        )
        by_helm = ("apply", "--server-side", f"--field-manager={manager}", "--force-conflicts", "-f", "-")
        kubectl(cluster, *by_helm, stdin=json.dumps(crd))
        eventually(crds, 30, what="a CRD of an earlier version")

    (remedy,) = crds()
    assert remedies(cluster, "operator") == [
        f"{remedy}; where it is in another namespace, name it with --operator-namespace"
    ]
    do(cluster, remedy.replace("YOUR-REGISTRY", "registry.example.com"))
    eventually(lambda: crds() == [], 30, what="the CRDs of an installation")
    kubectl(cluster, "delete", "crd", *CRDS)
    (remedy,) = eventually(crds, 30, what="no CRDs")
    upgrade(cluster, *told_values(remedy))
    eventually(lambda: crds() == [], 30, what="the CRDs of an upgrade")
    without("spec", "ttlSecondsAfterFinished")
    (remedy,) = crds()
    (value,) = re.findall(r"^upgrade the chart with (\S+), or apply this version's crds/ with kubectl$", remedy)
    upgrade(cluster, "--set", value)
    eventually(lambda: crds() == [], 30, what="the CRDs of an upgrade")
    without("status", "attempts")
    assert [each.partition(", or ")[2] for each in crds()] == [remedy.partition(", or ")[2]]
    do(cluster, "kubectl apply --server-side --force-conflicts --filename crds/")
    eventually(lambda: crds() == [], 30, what="the CRDs that are applied")
    without("status", "attempts", manager="kubectl")
    refused = run(
        cluster, "helm", "upgrade", RELEASE, str(CHART), f"--namespace={NAMESPACE}", "--reset-then-reuse-values"
    )
    assert 'conflict with "kubectl"' in refused.stderr
    upgrade(cluster, "--force-conflicts")
    eventually(lambda: crds() == [], 30, what="the CRDs that the release took over")


def test_the_commands_of_the_pages_install_upgrade_and_remove(cluster: Cluster) -> None:
    """As a reader types them, in the order in which he needs them."""
    programs = f"{Path(cluster.tool('helm')).parent}:{os.environ['PATH']}"

    def typed(command: str) -> str:
        command = command.replace("YOUR-REGISTRY", "registry.example.com")
        done = subprocess.run(
            ["sh", "-ec", command], cwd=CHART.parents[1], env={**cluster.environment(), "PATH": programs},
            capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout

    install, upgrade, with_monitoring, delete, token = sorted(run_in(CHART_COMMANDS), key=_step)
    for name in (NAMESPACE, "monitoring"):
        ensure_namespace(cluster, name)
    typed(install)
    assert get(cluster, "deployment", RELEASE, f"-n{NAMESPACE}")["spec"]["replicas"] == 2
    typed(upgrade)
    typed(with_monitoring)
    assert len(get(cluster, "configmaps", "-nmonitoring", "-lgrafana_dashboard=1")["items"]) == 4
    assert typed(token).count(".") == 2
    helm(cluster, "uninstall", "--wait")
    assert len(get(cluster, "crd")["items"]) == len(CRDS)
    typed(delete)
    eventually(lambda: get(cluster, "crd")["items"] == [], 60, what="no CRD")


def _step(command: str) -> int:
    """Where a command comes: an installation, two upgrades, the removal, and what is independent."""
    words = ("helm install", "reset-then-reuse-values$", "monitoring.", "delete crd", "create token")
    return next(number for number, word in enumerate(words) if re.search(word, command))


def _environment(cluster: Cluster) -> list[dict[str, str]]:
    (container,) = get(cluster, "deployment", RELEASE, f"-n{NAMESPACE}")["spec"]["template"]["spec"]["containers"]
    env: list[dict[str, str]] = container["env"]
    return env


@pytest.mark.parametrize("sample", SAMPLES)
def test_both_helms_render_the_same(sample: str) -> None:
    programs = helm_program(), str(build(HELM_3, HELM_3_MODULE) / "helm")
    values = json.dumps(with_image(SAMPLES[sample]))
    # A Helm 3 that is built without its Makefile takes 1.20 for Kubernetes' version where there is no cluster.
    command = ["template", RELEASE, str(CHART), f"--namespace={NAMESPACE}", "--values=-", "--kube-version=1.36.0"]
    texts = [
        subprocess.run([program, *command], input=values, capture_output=True, text=True, check=True).stdout
        for program in programs
    ]
    four, three = (sorted(map(str, yaml.safe_load_all(text))) for text in texts)
    assert four == three


@pytest.fixture
def rights(tmp_path: Path) -> Path:
    """The chart with its rights alone: 22 upgrades of all of it take more than a minute."""
    chart = tmp_path / "gpujob-operator"
    shutil.copytree(CHART, chart, ignore=shutil.ignore_patterns("crds", "monitoring", "tests"))
    for template in (chart / "templates").iterdir():
        if not template.name.startswith("_") and template.name != "rbac.yaml":
            template.unlink()
    return chart


def test_an_upgrade_keeps_the_right_to_remove_the_runners_of_earlier_versions(cluster: Cluster, rights: Path) -> None:
    def granted() -> list[tuple[list[str], list[str]]]:
        rules = get(cluster, "clusterrole", RELEASE)["rules"]
        return [(rule["resourceNames"], rule["verbs"]) for rule in rules if "configmaps" in rule["resources"]]

    def upgrade(*runners: str) -> None:
        for runner in runners:
            (rights / "files" / "runner-name").write_text(f"{runner}\n")
            helm(cluster, "upgrade", str(rights))

    ensure_namespace(cluster, NAMESPACE)
    install(cluster, rights)
    first, second, third = load_runner().name, "gpujob-runner-00000000b2", "gpujob-runner-00000000c3"
    own = ["create", "delete", "list", "patch", "watch"]
    assert granted() == [([first], own)]
    upgrade(second, third)
    assert granted() == [([third], own), ([second, first], ["delete", "get"])]
    upgrade(third, second)
    assert granted() == [([second], own), ([third, first], ["delete", "get"])]
    many = [f"gpujob-runner-{number:010x}" for number in range(18)]
    upgrade(*many)
    assert granted() == [([many[-1]], own), (many[-2:-18:-1], ["delete", "get"])]
    helm(cluster, "uninstall", "--wait")
