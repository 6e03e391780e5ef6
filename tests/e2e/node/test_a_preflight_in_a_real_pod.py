"""The preflight in pods that really run, as uid 1000 in a restricted namespace: what it finds, and how soon it is reported."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from tests.e2e.api_server import CONFIG_MAPS, Object
from tests.e2e.node import store
from tests.e2e.node.devices import RENDER_GROUP
from tests.e2e.node.training import Trainers
from tests.e2e.operator_process import OperatorProcess

pytestmark = [pytest.mark.e2e, pytest.mark.node]

COMPUTES = """
class _Properties:
    name = "AMD Instinct MI210"
class _Tensor:
    def __matmul__(self, other): return self
    def __eq__(self, other): return self
    def all(self): return self
    def item(self): return True
class cuda:
    device_count = staticmethod(lambda: 1)
    is_available = staticmethod(lambda: True)
    mem_get_info = staticmethod(lambda index: (60 << 30, 64 << 30))
    get_device_properties = staticmethod(lambda index: _Properties)
def ones(*size, device): return _Tensor()
"""
"""A torch that computes: the simulated devices of these nodes do not."""

AMD = {"vendors": ["AMD"]}


def with_torch(team: Trainers, *, hip: str | None = None, cuda: str | None = None) -> dict[str, Any]:
    """Parts of a job whose Python finds a simulated torch, built for one of the two backends."""
    version = f"__version__ = '2.9.1'\nhip = {hip!r}\ncuda = {cuda!r}\n"
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "torch"}}
    team.api.create(CONFIG_MAPS.format(team.namespace), {**body, "data": {"version": version, "init": COMPUTES}})
    items = [{"key": "version", "path": "torch/version.py"}, {"key": "init", "path": "torch/__init__.py"}]
    return {
        "volumes": [{"name": "torch", "configMap": {"name": "torch", "items": items}}],
        "volumeMounts": [{"name": "torch", "mountPath": "/libraries"}],
        "env": [{"name": "PYTHONPATH", "value": "/libraries"}],
        "preflight": "Required",
        "placement": AMD,
    }


def ended(team: Trainers, name: str, uid: str) -> tuple[str, Object, list[str]]:
    """A job's last state, its condition PreflightPassed and what its pods printed."""
    state, printed = team.result(name, uid, timeout=90)
    return state, team.condition(name, "PreflightPassed"), printed


def test_the_right_image_passes_and_its_program_runs_as_it_was_written(
    operator: OperatorProcess, team: Trainers, amd_group: None
) -> None:
    look = "import os, sys; print(sys.argv[1:], os.environ['PYTHONPATH'].split(':')[-1], 'torch' in sys.modules)"
    parts = with_torch(team, hip="7.2")
    uid = team.run("right", "python3", "-c", look, "a", "b", gpuMemory="60Gi", **parts)
    state, passed, printed = ended(team, "right", uid)
    assert (state, passed["status"], passed["reason"]) == ("Succeeded", "True", "PreflightPassed"), passed
    assert "torch 2.9.1 (ROCm 7.2) computes on 1 AMD Instinct MI210 with 60Gi free; checked in " in passed["message"]
    assert printed == ["['a', 'b'] /libraries False\n"]


def test_an_image_for_the_other_backend_is_told_within_a_minute(
    operator: OperatorProcess, team: Trainers, amd_group: None
) -> None:
    uid = team.run("wrong", "python3", "-c", "print('ran')", **with_torch(team, cuda="12.8"))
    status = team.until("wrong", "Failed", timeout=90)
    (pod,) = team.pods(uid)
    failed, passed = team.condition("wrong", "Failed"), team.condition("wrong", "PreflightPassed")
    assert (failed["reason"], passed["status"], passed["reason"]) == ("ImageBackendMismatch", "False", failed["reason"])
    assert passed["message"] == (
        f"pod {pod['metadata']['name']} on node {pod['spec']['nodeName']}: the image's torch 2.9.1 is built for CUDA 12.8, "
        "the chosen devices need ROCm; name an image with a ROCm build of torch in spec.images"
    )
    assert "ran" not in team.printed(pod)
    started, told = (datetime.fromisoformat(t) for t in (pod["status"]["startTime"], passed["lastTransitionTime"]))
    assert (told - started).total_seconds() < 60
    assert (status["state"], status["attempt"]) == ("Failed", 1)


def test_without_the_pools_group_the_closed_device_is_named(operator: OperatorProcess, team: Trainers) -> None:
    uid = team.run("closed", "python3", "-c", "print('ran')", preflight="Required", placement=AMD)
    state, passed, _ = ended(team, "closed", uid)
    assert (state, passed["status"], passed["reason"]) == ("Failed", "False", "DevicePermission")
    assert (
        f"/dev/kfd belongs to group {RENDER_GROUP} with mode 0660, and uid 1000 is in 1000; an admin adds {RENDER_GROUP} to "
        "spec.supplementalGroups of the GPUPool"
    ) in passed["message"]


def test_a_warning_lets_the_program_run(operator: OperatorProcess, team: Trainers) -> None:
    uid = team.run("warned", "python3", "-c", "print('ran')", preflight="Warn", placement=AMD)
    state, passed, printed = ended(team, "warned", uid)
    assert (state, passed["status"], passed["reason"]) == ("Succeeded", "False", "DevicePermission")
    assert printed == ["ran\n"]


@pytest.mark.parametrize("vendor", ["AMD", "NVIDIA"])
def test_an_image_without_torch_is_checked_for_devices_only(
    operator: OperatorProcess, team: Trainers, amd_group: None, vendor: str
) -> None:
    uid = team.run("plain", "python3", "-c", "print('ran')", preflight="Required", placement={"vendors": [vendor]})
    state, passed, printed = ended(team, "plain", uid)
    assert (state, passed["status"], printed) == ("Succeeded", "True", ["ran\n"])
    assert "torch is not in the image: devices only, opened the device nodes of 1 GPU; checked in " in passed["message"]


@pytest.mark.parametrize(
    ("image", "command"),
    [(store.SHELL, ["/bin/sh", "-c", "echo ran"]), (store.DNS, ["/dns", "-h"])],
    ids=["shell", "bare"],
)
def test_an_image_without_python_or_shell_gets_one_attempt_without_the_preflight(
    operator: OperatorProcess, team: Trainers, image: str, command: list[str]
) -> None:
    uid = team.run("bare", *command, image=image, preflight="Required")
    state, passed, printed = ended(team, "bare", uid)
    assert team.status("bare")["attempt"] == 2
    assert (passed["status"], passed["reason"]) == ("Unknown", "NoInterpreter")
    if image == store.SHELL:
        assert (state, printed) == ("Succeeded", ["ran\n"])


def test_a_command_whose_python_is_not_there_is_told_before_it_starts(
    operator: OperatorProcess, team: Trainers
) -> None:
    uid = team.run("lost", "python3.99", "train.py", preflight="Required", placement={"vendors": ["NVIDIA"]})
    state, passed, _ = ended(team, "lost", uid)
    assert (state, passed["reason"]) == ("Failed", "CommandNotFound")
    assert "the command starts python3.99, which is not in the image or may not be executed" in passed["message"]
