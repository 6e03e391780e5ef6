"""The chart as an admin installs it for tests of the operator, which runs as a process of its own."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import yaml

from gpujob.render.runner_files import load_runner
from tests.e2e.cluster import Cluster, look_for_kinds, until_collected
from tests.e2e.operator_process import NAMESPACE, ROOT

CHART = ROOT / "charts" / "gpujob-operator"
RELEASE = "gpujob-operator"
HOST_ACCESS = ("--set=admission.hostDevices=true", "--set=admission.hostNetwork=true")
"""For tests of GPUPools that give these; tests/contract/test_what_attacks_get.py has the defaults."""
PLAN = {"apiVersion": "gpujob.dev/v1alpha1", "kind": "GPUJob", "spec": {"command": ["true"], "suspend": True}}


def install_chart(cluster: Cluster) -> None:
    """CRDs, roles and the admission policy, without a Deployment's pods."""
    crds = {path.name for path in (ROOT / "crds").glob("*.yaml")}
    assert crds, "crds/ is empty: run `make generate`"
    assert {path.name for path in (CHART / "files" / "crds").glob("*.yaml")} == crds, "run `make generate`"
    assert (CHART / "files" / "runner-name").read_text().strip() == load_runner().name, "run `make generate`"
    command = [cluster.tool("helm"), "upgrade", "--install", RELEASE, str(CHART), f"--namespace={NAMESPACE}"]
    done = subprocess.run(
        [*command, "--create-namespace", "--set=replicaCount=0", "--take-ownership", *HOST_ACCESS],
        env=cluster.environment(), capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    let_children_go(cluster)


def set_values(cluster: Cluster, **values: Any) -> None:
    """Upgrades the release to these values, each as JSON; all others stay."""
    command = [cluster.tool("helm"), "upgrade", RELEASE, str(CHART), f"--namespace={NAMESPACE}", "--reuse-values"]
    changed = [f"--set-json={name}={json.dumps(value)}" for name, value in values.items()]
    # A test before may have changed the role with kubectl.
    done = subprocess.run(
        [*command, *changed, "--force-conflicts"],
        env=cluster.environment(), capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def hooks(cluster: Cluster) -> list[dict[str, Any]]:
    """The objects of `helm test`."""
    image = "--set=image.repository=registry.example/gpujob-operator"
    command = [cluster.tool("helm"), "template", RELEASE, str(CHART), f"--namespace={NAMESPACE}", image]
    done = subprocess.run(command, env=cluster.environment(), capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    objects = [each for each in yaml.safe_load_all(done.stdout) if each]
    return [each for each in objects if each["metadata"].get("annotations", {}).get("helm.sh/hook") == "test"]


def let_children_go(cluster: Cluster) -> None:
    """Returns when the garbage collector knows GPUJobs: from then on what one owns goes with it at once."""
    look_for_kinds(cluster)
    until_collected(cluster, PLAN)
