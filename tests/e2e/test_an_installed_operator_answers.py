"""What `helm test` runs, with the rights that its hook gives: it ends well with an operator, and ill without one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.e2e.api_server import GPUJOBS, ApiServer
from tests.e2e.chart import hooks
from tests.e2e.cluster import Cluster
from tests.e2e.operator_process import NAMESPACE, ROOT, OperatorProcess

pytestmark = pytest.mark.e2e


@pytest.fixture
def account(cluster: Cluster, api: ApiServer, tmp_path: Path) -> Path:
    """A kubeconfig of the account that the hook makes."""
    objects = [each for each in hooks(cluster) if each["kind"] != "Pod"]
    assert api.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(objects)).returncode == 0
    (name,) = (each["metadata"]["name"] for each in objects if each["kind"] == "ServiceAccount")
    token = api.kubectl("create", "token", name, "--namespace", NAMESPACE).stdout.strip()
    config = json.loads(api.kubectl("config", "view", "--raw", "--flatten", "--minify", "--output=json").stdout)
    config["users"] = [{"name": each["name"], "user": {"token": token}} for each in config["users"]]
    (path := tmp_path / "kubeconfig").write_text(json.dumps(config))
    return path


def answer(kubeconfig: Path, seconds: float = 60) -> subprocess.CompletedProcess[str]:
    settings = {"KUBECONFIG": str(kubeconfig), "GPUJOB_NAMESPACE": NAMESPACE, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "gpujob.cluster.app.installed", str(seconds)]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=120, env={**os.environ, **settings}
    )


def test_with_an_operator_it_prints_the_plan_and_leaves_nothing(
    operator: OperatorProcess, api: ApiServer, account: Path
) -> None:
    done = answer(account)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("the operator planned a job: Suspended: ")
    assert api.items(GPUJOBS.format(NAMESPACE)) == []


def test_without_an_operator_it_says_so_and_leaves_nothing(no_operator: None, api: ApiServer, account: Path) -> None:
    done = answer(account, seconds=3)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "no operator wrote a status within 3 s: look at its log and at /readyz\n"
    assert api.items(GPUJOBS.format(NAMESPACE)) == []


def test_without_rights_it_says_what_is_refused(cluster: Cluster, api: ApiServer, account: Path) -> None:
    (role,) = (each["metadata"]["name"] for each in hooks(cluster) if each["kind"] == "RoleBinding")
    assert api.kubectl("delete", "rolebinding", role, "--namespace", NAMESPACE).returncode == 0
    done = answer(account)
    assert done.returncode == 1
    assert done.stderr.startswith("the job could not be submitted, read or deleted: ")
    assert "Traceback" not in done.stderr
