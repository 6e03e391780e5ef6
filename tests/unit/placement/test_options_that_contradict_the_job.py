"""A command line or an environment that names other nodes or GPUs than the job: it wins, so the plan and the status warn."""

from __future__ import annotations

from typing import Any

import pytest
from builders import pod
from test_what_helps import ANY_IMAGES, decision, machine

from gpujob.placement.report.summary import of_status, summary
from gpujob.placement.request.launch import chosen, launches
from gpujob.values.vocabulary import Reason

REMOVE = "; remove the option, the operator sets the number"
OF_TWO = f" on the command line, and the job has 2 GPUs a node{REMOVE}"


def warnings(**spec: Any) -> list[str]:
    found = decision(machine("a"), machine("b"), catalog=ANY_IMAGES, **spec)
    assert found.choice is not None
    return [each.message for each in found.choice.candidate.warnings if each.reason is Reason.LAUNCH_DIFFERS]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["torchrun", "--nproc_per_node=8", "t.py"], [f"--nproc_per_node=8{OF_TWO}"]),
        (["torchrun", "--nproc-per-node", "8", "t.py"], [f"--nproc-per-node=8{OF_TWO}"]),
        (["python", "-m", "torch.distributed.run", "--nnodes=2", "t.py"],
         [f"--nnodes=2 on the command line, and the job has 1 node{REMOVE}"]),
        (["bash", "-c", "cd /code && /opt/bin/torchrun --nnodes=2 --nproc_per_node=2 t.py"],
         [f"--nnodes=2 on the command line, and the job has 1 node{REMOVE}"]),
        (["torchrun", "--nnodes=2:4", "t.py"], [f"--nnodes=2:4 on the command line, and the job has 1 node{REMOVE}"]),
        (["torchrun", "--nnodes=1:4", "--nproc_per_node=2", "t.py"], []),
        (["torchrun", "--nproc_per_node=gpu", "t.py"], []),
        (["torchrun", "--nproc_per_node"], []),
        (["torchrun", "t.py"], []),
        (["python", "t.py", "--nnodes=2"], []),
    ],
)  # fmt: skip
@pytest.mark.parametrize("field", ["command", "args"])
def test_options_of_torchrun_that_differ_from_the_job(words: list[str], says: list[str], field: str) -> None:
    assert warnings(gpusPerNode=2, **{field: words}) == says


@pytest.mark.parametrize(
    ("value", "gpus", "says"),
    [
        ("0,1", 1, "CUDA_VISIBLE_DEVICES=0,1 in env, and a pod's GPUs are numbered 0; remove the variable"),
        ("4,5", 2, "CUDA_VISIBLE_DEVICES=4,5 in env, and a pod's GPUs are numbered 0 to 1; remove the variable"),
        ("0", 2, "CUDA_VISIBLE_DEVICES=0 in env, and a pod's GPUs are numbered 0 to 1; remove the variable"),
        ("", 1, "CUDA_VISIBLE_DEVICES= in env, and a pod's GPUs are numbered 0; remove the variable"),
        ("0", 1, None),
        ("1, 0", 2, None),
        ("GPU-8932f937", 1, None),
    ],
)
def test_variables_that_choose_other_gpus_than_the_pods(value: str, gpus: int, says: str | None) -> None:
    env = [{"name": "CUDA_VISIBLE_DEVICES", "value": value}]
    assert warnings(gpusPerNode=gpus, command=["t"], env=env) == ([says] if says else [])


@pytest.mark.parametrize("name", ["HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"])
def test_the_variables_of_amds_stack_choose_too(name: str) -> None:
    (said,) = warnings(gpusPerNode=1, command=["t"], env=[{"name": name, "value": "0,1"}])
    assert said.startswith(f"{name}=0,1 in env")
    assert warnings(gpusPerNode=1, command=["t"], env=[{"name": "OTHER", "value": "0,1"}]) == []


def test_the_sentence_of_a_status_says_it_too() -> None:
    """Whether the job is placed or waits; a plan has it among its warnings."""
    spec = {"gpusPerNode": 2, "command": ["torchrun", "--nproc_per_node=8", "t.py"]}
    placed = decision(machine("a"), catalog=ANY_IMAGES, **spec)
    assert of_status(placed) == f"{summary(placed)}; --nproc_per_node=8{OF_TWO}"
    waits = decision(machine("a"), pod("p", "a", {"nvidia.com/gpu": 8}), catalog=ANY_IMAGES, **spec)
    assert waits.choice is None
    assert of_status(waits).endswith(f"; --nproc_per_node=8{OF_TWO}")
    alike = decision(machine("a"), catalog=ANY_IMAGES, **{**spec, "command": ["torchrun", "t.py"]})
    assert of_status(alike) == summary(alike)


def test_no_line_of_a_script_is_read_for_long() -> None:
    """A script of its own in one word, and numbers that no GPU has."""
    assert list(launches(["torchrun", "--nnodes=2 " * 1000])) == []
    assert list(launches(["torchrun", "--nnodes=12345678"])) == []
    assert chosen("0\n") is None
    assert chosen("-1") == {-1}
