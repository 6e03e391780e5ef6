"""The commands that the pages show, as a reader types them: kubectl and the plugin on a real API server with an operator."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.commands_of_pages import CLUSTER, run_in
from tests.e2e.api_server import ApiServer
from tests.e2e.cluster import Cluster
from tests.e2e.conftest import Fleet
from tests.e2e.operator_process import ROOT, OperatorProcess
from tests.e2e.team import Team

pytestmark = pytest.mark.e2e

SAYS = {
    "kubectl apply -f examples/01-hello-gpu.yaml": r"hello-gpu created",
    "kubectl describe gpujob hello-gpu": r"^Name: +hello-gpu$",
    # Attempts that have ended; the first one of this job runs.
    "kubectl get gpujob NAME -o": r"\A\Z",
    "kubectl annotate namespace TEAM": r"annotated",
    "kubectl gpujob cost": r"^namespace,profile,pool,",
    "kubectl get gpujob llama": r'"type":"PreflightPassed"',
    "kubectl gpujob render": r"kind: Job\n",
    "kubectl create configmap my-code": r"configmap/my-code created",
    "kubectl gpujob top": r"^NAMESPACE +JOB .*\n(.*\n)*\S+ +first +Running +h100",
    "kubectl gpujob explain first": r"^Running +first: ",
    "kubectl gpujob plan": r"^Placed  hello-gpu",
    "kubectl gpujob doctor --before-uninstall": r"^Warning +uninstall-running +pods of \d+ GPUJobs go on .*\n +\(\S+/first,",
}
"""What each prints, by the beginning of its command; those that write a file are read below."""


@dataclass
class Shell:
    """A reader's shell: the checkout's programs, his namespace, and the files that the pages speak of."""

    folder: Path
    environment: dict[str, str]
    team: Team

    def __call__(self, command: str) -> str:
        """What a command prints; it must succeed."""
        for word, meant in (("NAME", "first"), ("TEAM", self.team.namespace)):
            command = re.sub(rf"\b{word}\b", meant, command)
        done = subprocess.run(
            ["sh", "-ec", command],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout


@pytest.fixture
def shell(
    cluster: Cluster, api: ApiServer, operator: OperatorProcess, fleet: Fleet, team: Team, tmp_path: Path
) -> Iterator[Shell]:
    """Two jobs that run, in the namespace that the kubeconfig names."""
    fleet(h100=2)
    team.submit("first", gpusPerNode=1, runs_for="600s")
    team.submit("llama", gpusPerNode=1, runs_for="600s")
    team.until_all(["first", "llama"], "Running")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "job.yaml").write_text((ROOT / "examples" / "01-hello-gpu.yaml").read_text())
    (tmp_path / "train.py").write_text("print('ran')\n")
    config = yaml.safe_load(api.kubectl("config", "view", "--raw", "--flatten", "--minify").stdout)
    for each in config["contexts"]:
        each["context"]["namespace"] = team.namespace
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
    programs = f"{Path(sys.executable).parent}:{Path(cluster.tool('kubectl')).parent}:{os.environ['PATH']}"
    yield Shell(tmp_path, {**os.environ, "PATH": programs, "KUBECONFIG": str(tmp_path / "kubeconfig")}, team)
    api.kubectl("annotate", "namespace", team.namespace, "gpujob.dev/monthly-budget-")


def test_every_command_does_what_its_page_says(shell: Shell) -> None:
    commands = run_in(CLUSTER)
    assert len(commands) >= 14
    for command in commands:
        printed = shell(command)
        said = next((pattern for start, pattern in SAYS.items() if command.startswith(start)), None)
        if said is not None:
            assert re.search(said, printed, re.MULTILINE), f"{command}: {printed}"
        else:
            name = command.rpartition("> ")[2]
            saved = list(yaml.safe_load_all((shell.folder / name).read_text()))
            if name == "spending.yaml":
                # There is no such ConfigMap before a job of a namespace with a budget has run in this cluster.
                assert [each["metadata"]["name"] for each in saved] in ([], ["gpujob-spending"]), command
            else:
                assert saved, command
