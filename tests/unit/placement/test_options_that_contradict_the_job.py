"""A command line or an environment that names other nodes or GPUs than the job: it wins, so the plan and the status warn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from builders import MI300X, Object, node, pod
from test_what_helps import ANY_IMAGES, decision, machine

from gpujob.placement.report.summary import of_status, summary
from gpujob.placement.request.launch import chosen, launches
from gpujob.values.vocabulary import Reason

REMOVE = "; remove the option, the operator sets the number"
OF_TWO = f" on the command line, and the job has 2 GPUs a node{REMOVE}"


def warnings(nodes: Sequence[Object] = (machine("a"), machine("b")), /, **spec: Any) -> list[str]:
    found = decision(*nodes, catalog=ANY_IMAGES, **spec)
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
    """On AMD devices alone, where CUDA's variable acts too."""
    amd = [node("a", MI300X, 8, price="1")]
    (said,) = warnings(amd, gpusPerNode=1, command=["t"], env=[{"name": name, "value": "0,1"}])
    assert said.startswith(f"{name}=0,1 in env")
    assert warnings(amd, gpusPerNode=1, command=["t"], env=[{"name": "OTHER", "value": "0,1"}]) == []
    assert warnings(gpusPerNode=1, command=["t"], env=[{"name": name, "value": "0,1"}]) == []
    assert warnings(amd, gpusPerNode=1, command=["t"], env=[{"name": "CUDA_VISIBLE_DEVICES", "value": "0,1"}])


def env(value: str, name: str = "CUDA_VISIBLE_DEVICES") -> list[dict[str, str]]:
    return [{"name": name, "value": value}]


@pytest.mark.parametrize(("spec", "warned"), [
    ({"envByBackend": {"cuda": env("0")}}, True),
    ({"envByBackend": {"rocm": env("0")}}, False),
    ({"envByBackend": {"cuda": env("0,1")}, "env": env("0")}, False),
    ({"envByBackend": {"cuda": env("0")}, "env": env("0,1")}, True),
])  # fmt: skip
def test_the_variables_of_the_software_stack_win(spec: dict[str, Any], warned: bool) -> None:
    assert bool(warnings(gpusPerNode=2, command=["t"], **spec)) == warned


def test_gpus_are_counted_on_each_node() -> None:
    """A gang of 2 nodes with 2 GPUs each: a pod has 2 of them."""
    gang = {"nodes": 2, "gpusPerNode": 2}
    torchrun = ["torchrun", "--nnodes=2", "--nproc_per_node=2", "t.py"]
    assert warnings(**gang, command=torchrun, env=env("0,1")) == []
    assert warnings(**gang, command=["torchrun", "--nproc_per_node=4", "t.py"], env=env("0,1,2,3")) == [
        f"--nproc_per_node=4{OF_TWO}",
        "CUDA_VISIBLE_DEVICES=0,1,2,3 in env, and a pod's GPUs are numbered 0 to 1; remove the variable",
    ]


@pytest.mark.parametrize(("shape", "warned"), [
    ({"args": ["--nproc_per_node=4", "t.py"]}, False),
    ({"args": ["--nproc_per_node=8", "t.py"]}, True),
    ({}, True),
    ({"args": ["t.py"], "env": env("0,1,2,3")}, False),
    ({"args": ["t.py"], "env": env("0,1")}, True),
])  # fmt: skip
def test_arguments_and_variables_of_a_shape_are_its_own(shape: dict[str, Any], warned: bool) -> None:
    shapes = [{"gpusPerNode": 4, **shape}]
    found = warnings(command=["torchrun"], args=["--nproc_per_node=2", "t.py"], env=env("0,1,2,3"), shapes=shapes)
    assert bool(found) == warned


@pytest.mark.parametrize(("words", "says"), [
    (["torchrun", "t.py", "--nnodes", "4"], []),
    (["torchrun", "--nproc_per_node=2", "t.py", "--nproc_per_node", "8"], ["--nproc_per_node=2"]),
    (["torchrun", "-m", "pkg.train", "--nnodes", "4"], []),
    (["torchrun", "--standalone", "t.py", "--nnodes=3"], ["--standalone"]),
    (["torchrun", "--", "t.py", "--nnodes=3"], []),
    (["torchrun", "--max-restarts", "3", "-r3", "--nproc_per_node=8", "t.py"], ["--nproc_per_node=8"]),
    (["torchrun", "--nproc_per_node=8", "--nproc-per-node=2", "t.py"], ["--nproc-per-node=2"]),
    (["env", "A=1", "torchrun", "--nproc_per_node=8", "t.py"], ["--nproc_per_node=8"]),
    (["python", "-mtorch.distributed.run", "--nproc_per_node=8", "t.py"], ["--nproc_per_node=8"]),
    (["python", "t.py", "--text", "use torchrun --nnodes=3"], []),
])  # fmt: skip
def test_only_options_before_the_script_are_torchruns(words: list[str], says: list[str]) -> None:
    assert [each.text for each in launches(words)] == says


@pytest.mark.parametrize(("script", "says"), [
    ("torchrun t.py --nnodes 4", []),
    ("set -e\ntorchrun \\\n --nproc_per_node=8 \\\n t.py", ["--nproc_per_node=8"]),
    ("# torchrun --nproc_per_node=8 t.py\ntorchrun t.py # it's --nnodes=2", []),
    ("echo torchrun --nproc_per_node=8; echo 'torchrun --nnodes=2'", []),
    ('torchrun --nproc_per_node="8" t.py', ["--nproc_per_node=8"]),
    ("cd /w;torchrun --nproc_per_node=8 t.py&&echo", ["--nproc_per_node=8"]),
    ("cd /w&&torchrun --nproc_per_node=8 t.py 2>&1|tee log", ["--nproc_per_node=8"]),
    ("torchrun --nproc_per_node=1 a.py & torchrun --nproc_per_node=1 b.py; wait", []),
    ("if a; then torchrun --nproc_per_node=8 t.py; else torchrun --nproc_per_node=2 t.py; fi", []),
    ("for a in 1 2; do torchrun --nproc_per_node=1 $a.py; done\ntorchrun --nnodes=1 t.py", ["--nnodes=1"]),
    ("torchrun --nproc_per_node=$N t.py", []),
    ("torchrun --nproc_per_node=8 't.py", []),
])  # fmt: skip
@pytest.mark.parametrize("shell", [["bash", "-c"], ["/bin/sh", "-ec"], ["bash", "-eo", "pipefail", "-c"]])
def test_a_shells_script_is_read_command_by_command(script: str, says: list[str], shell: list[str]) -> None:
    assert [each.text for each in launches([*shell, script])] == says


@pytest.mark.parametrize(("words", "warned"), [
    (["env", "CUDA_VISIBLE_DEVICES=1", "python", "t.py"], True),
    (["bash", "-c", "CUDA_VISIBLE_DEVICES=0,1,2,3 python t.py"], True),
    (["bash", "-c", "export CUDA_VISIBLE_DEVICES=2,3\npython t.py"], True),
    (["bash", "-c", "CUDA_VISIBLE_DEVICES=0,1 python t.py"], False),
    (["bash", "-c", "CUDA_VISIBLE_DEVICES=$MINE python t.py"], False),
    (["bash", "-c", "HIP_VISIBLE_DEVICES=0 python t.py"], False),
    (["bash", "-c", "CUDA_VISIBLE_DEVICES=0 python a.py & CUDA_VISIBLE_DEVICES=1 python b.py; wait"], False),
    (["python", "t.py", "CUDA_VISIBLE_DEVICES=0"], False),
])  # fmt: skip
def test_variables_of_a_command_line(words: list[str], warned: bool) -> None:
    found = warnings(gpusPerNode=2, command=words)
    assert [" on the command line, and a pod's GPUs" in each for each in found] == [True] * warned


@pytest.mark.parametrize(("script", "says"), [
    ("CUDA_VISIBLE_DEVICES= python prep.py && torchrun --nproc_per_node=2 t.py", []),
    ("CUDA_VISIBLE_DEVICES=0 python prep.py\ntorchrun t.py", []),
    ("CUDA_VISIBLE_DEVICES=0 python prep.py; python t.py", []),
    ("python prep.py; CUDA_VISIBLE_DEVICES=0 torchrun t.py", ["CUDA_VISIBLE_DEVICES=0"]),
    ("cd /w && pip install x; CUDA_VISIBLE_DEVICES=0 python t.py 2>&1 | tee log", ["CUDA_VISIBLE_DEVICES=0"]),
    ("export CUDA_VISIBLE_DEVICES=0; python prep.py; python t.py > log", ["CUDA_VISIBLE_DEVICES=0"]),
    ("export CUDA_VISIBLE_DEVICES=0; python prep.py; unset CUDA_VISIBLE_DEVICES; torchrun t.py", []),
    ("export CUDA_VISIBLE_DEVICES=0; export CUDA_VISIBLE_DEVICES=$MINE; torchrun t.py", []),
    ("if [ -n \"$ONE\" ]; then export CUDA_VISIBLE_DEVICES=0; fi; torchrun t.py", []),
    ("for a in 1 2; do torchrun $a.py; done; CUDA_VISIBLE_DEVICES=0 python eval.py", []),
    ("CUDA_VISIBLE_DEVICES=0; torchrun t.py", []),
    ("torchrun --nproc_per_node=2 a.py && torchrun --nproc_per_node=1 eval.py", []),
    ("torchrun a.py\ntorchrun --nproc_per_node=8 eval.py", ["--nproc_per_node=8"]),
    ("torchrun --nproc_per_node=1 t.py > log 2>&1", ["--nproc_per_node=1"]),
    ("cat > readme <<EOF\ntorchrun --nproc_per_node=8 t.py\nEOF\ntorchrun t.py", []),
    ("cat > c.yaml <<'EOF' && torchrun --nproc_per_node=8 t.py\na: 'b\n& c\nEOF\n", ["--nproc_per_node=8"]),
    ("cat <<-END > c\n  a\n\tEND\ntorchrun --nproc_per_node=8 t.py", ["--nproc_per_node=8"]),
    ("cat <<EOF\ntorchrun --nproc_per_node=8 t.py", []),
    # The text ends at no other word.
    ("cat <<EOF2\ntorchrun t.py\nEOF\ntorchrun --nproc_per_node=8 t.py", []),
    ("cat <<A <<B\na\nA\nb\nB\ntorchrun --nproc_per_node=8 t.py", []),
    ("python <<< x; torchrun --nproc_per_node=8 t.py", []),
    ("torchrun --nproc_per_node=${NPROC:-8} t.py", ["--nproc_per_node=8"]),
    ("torchrun --nproc_per_node ${NPROC-8} t.py", ["--nproc_per_node=8"]),
    ("torchrun --nproc_per_node=${NPROC:-2} t.py", []),
    ("torchrun --nproc_per_node=${NPROC:=8} t.py", ["--nproc_per_node=8"]),
    ("torchrun --nproc_per_node=${NPROC=8} t.py", ["--nproc_per_node=8"]),
    (": ${NPROC:=8}; torchrun --nproc_per_node=$NPROC t.py", ["--nproc_per_node=8"]),
    (": \"${NPROC:=8}\"\ntorchrun --nproc_per_node \"${NPROC}\" t.py", ["--nproc_per_node=8"]),
    (": ${NPROC:=8}; torchrun --nproc_per_node=$NPROCS t.py", []),
    ("torchrun --nproc_per_node=$NPROC a.py; : ${NPROC:=8}", []),
    (": ${NPROC:=2}; torchrun --nproc_per_node=$NPROC t.py", []),
    ("NPROC=2; : ${NPROC:=8}; torchrun --nproc_per_node=$NPROC t.py", []),
    ("NPROC=4; torchrun --nproc_per_node=${NPROC:-8} t.py", []),
    ("read NPROC < n; torchrun --nproc_per_node=${NPROC:-8} t.py", []),
    ("source env.sh\ntorchrun --nproc_per_node=${NPROC:-8} t.py", []),
    (". ./env.sh && torchrun --nproc_per_node=${NPROC:-8} t.py", []),
    ("eval $(setup); torchrun --nproc_per_node=${NPROC:-8} t.py", []),
    ("export $(cat .env); torchrun --nproc_per_node=${NPROC:-8} t.py", []),
    ("python a.py . ; torchrun --nproc_per_node=${1:-8} t.py", []),
    ("torchrun --nproc_per_node=${PET_NPROC_PER_NODE:-8} t.py", []),
    ("torchrun --nnodes=${WORLD_SIZE:-4} t.py", []),
    ("torchrun --nproc_per_node=${NPROC:+8} t.py", []),
    ("bash -c 'torchrun --nproc_per_node=8 t.py'", ["--nproc_per_node=8"]),
    ("cd /w && exec /bin/bash -lc 'cd x; torchrun --nproc_per_node=${N:-8} t.py'", ["--nproc_per_node=8"]),
    ("N=2 bash -c 'torchrun --nproc_per_node=${N:-8} t.py'", []),
    ("[ -n \"$D\" ] && bash -c 'torchrun --nproc_per_node=8 t.py'", []),
    ("bash -c 'if a; then torchrun --nproc_per_node=8 t.py; fi'", []),
    ("bash run.sh torchrun --nproc_per_node=8", []),
    ("bash -c 'export CUDA_VISIBLE_DEVICES=0; python a.py'; torchrun t.py", []),
    ("bash -c 'export CUDA_VISIBLE_DEVICES=0; torchrun t.py'", ["CUDA_VISIBLE_DEVICES=0"]),
    ("CUDA_VISIBLE_DEVICES=0 bash -c 'torchrun t.py'", ["CUDA_VISIBLE_DEVICES=0"]),
    ('bash -c "bash -c \\"torchrun --nproc_per_node=8 t.py\\""', []),
    ("accelerate launch --num_processes 8 train --lr 1", ["--num_processes=8"]),
    ("accelerate launch --num_processes=8 --no_python ./train.sh", ["--num_processes=8"]),
    ("accelerate launch --multi_gpu train --num_processes 8", []),
    ("accelerate launch train --num_processes 8", []),
    ("accelerate launch --num_processes=8 --multi_gpu train --lr 1", ["--num_processes=8"]),
    ("deepspeed --num_gpus=8 train --lr 1", ["--num_gpus=8"]),
    ("deepspeed --num_gpus=8 --no_python ./train", ["--num_gpus=8"]),
    ("deepspeed --num_gpus=8 --no-local-rank --module pkg.train", ["--num_gpus=8"]),
    ("deepspeed --no_python ./train --num_gpus=8", []),
    ("deepspeed --num_gpus=8 --master_port 29501", []),
    ("N=8; torchrun --nproc_per_node=$N t.py", []),
    ("torchrun --nproc_per_node=$((1 + 7)) t.py", []),
    ("torchrun --nproc_per_node=`nvidia-smi -L | wc -l` t.py", []),
    ("CUDA_VISIBLE_DEVICES=$(seq -s, 0 3) torchrun t.py", []),
    ("X=$(CUDA_VISIBLE_DEVICES=0 python q.py); torchrun t.py --x $X", []),
    ("[ -n \"$D\" ] && export CUDA_VISIBLE_DEVICES=0; python t.py", []),
    ("[ -n \"$D\" ] && torchrun --nproc_per_node=8 t.py || torchrun t.py", []),
    ("grep -q x f && cd /w && torchrun --nproc_per_node=8 t.py", []),
    ("! grep -q x f && torchrun --nproc_per_node=8 t.py", []),
    ("torchrun --nproc_per_node=2 t.py || torchrun --nproc_per_node=8 t.py", []),
    ("test -f d || pip install d; torchrun --nproc_per_node=8 t.py", ["--nproc_per_node=8"]),
    ("cd x && torchrun --nproc_per_node=8 t.py", ["--nproc_per_node=8"]),
    ("(export CUDA_VISIBLE_DEVICES=0; python prep.py); torchrun t.py", []),
    ("dbg() { torchrun --nproc_per_node=8 t.py; }; torchrun t.py", []),
    ("torchrun t.py; exit 0; torchrun --nproc_per_node=8 t.py", []),
    ("if a; then exit 1; fi; torchrun --nproc_per_node=8 t.py", ["--nproc_per_node=8"]),
    ("a || exit 1\ntorchrun --nproc_per_node=8 t.py", ["--nproc_per_node=8"]),
    ("(torchrun --nproc_per_node=1 a.py)& torchrun --nproc_per_node=1 b.py", []),
    ("pip install torchrun --nproc_per_node=8", []),
    ("python launch.py --launcher torchrun --nproc_per_node 8", []),
])  # fmt: skip
def test_one_step_of_several_may_leave_gpus_alone(script: str, says: list[str]) -> None:
    """A variable of one step is none of another, and text is no command."""
    found = warnings(gpusPerNode=2, command=["bash", "-c", script])
    assert [each.split(" on the command line")[0] for each in found] == says


def test_what_a_script_sets_itself_wins_over_the_env() -> None:
    script = ["bash", "-c", "export CUDA_VISIBLE_DEVICES=0,1; torchrun t.py"]
    assert warnings(gpusPerNode=2, command=script, env=env("0")) == []
    other = ["bash", "-c", "CUDA_VISIBLE_DEVICES= python prep.py; torchrun t.py"]
    assert len(warnings(gpusPerNode=2, command=other, env=env("0"))) == 1


COUNTS = "remove the option, the launcher counts the GPUs"


@pytest.mark.parametrize(("line", "says"), [
    ("accelerate launch --num_processes 8 t.py", f"--num_processes=8{OF_TWO}".replace(REMOVE, f"; {COUNTS}")),
    ("accelerate launch --mixed_precision bf16 --multi_gpu --num-processes=8 t.py --x", "--num-processes=8"),
    ("python -m accelerate.commands.launch --num_machines=2 -m pkg", "--num_machines=2 on the command line, and the job has 1 node"),
    ("accelerate launch --num_processes 2 t.py --num_processes 8", None),
    ("accelerate launch t.py --num_machines 2", None),
    ("accelerate launch --cpu --num_processes 8 t.py", None),
    ("accelerate launch --num_processes 8 --num_machines 1 t.py", None),
    ("accelerate launch --num_processes $N t.py", None),
    ("accelerate config --num_processes 8 t.py", None),
    ("deepspeed --num_gpus=8 t.py", "--num_gpus=8"),
    ("deepspeed --num_gpus 1 --master_port 1 t.py", "--num_gpus=1"),
    ("deepspeed --num_nodes 2 t.py", "--num_nodes=2 on the command line, and the job has 1 node; remove the option"),
    ("deepspeed --num_gpus -1 t.py", None),
    ("deepspeed --include localhost:0,1 --num_gpus 8 t.py", None),
    ("deepspeed --exclude localhost:0 t.py", None),
    ("deepspeed t.py --num_gpus 8", None),
    ("pip install deepspeed --num_gpus 8 t.py", None),
    ("python t.py --launcher deepspeed --num_gpus 8 u.py", None),
    ("vllm serve m --tensor-parallel-size 8", f"--tensor-parallel-size=8{OF_TWO}".replace(REMOVE, "; write --tensor-parallel-size=2")),
    ("vllm serve m -tp 4 --port 80", "-tp=4"),
    ("python -m vllm.entrypoints.openai.api_server --model m --tensor_parallel_size=1", "--tensor_parallel_size=1"),
    ("vllm serve m -tp 2", None),
    ("vllm serve m -tp 1 --data-parallel-size 2", None),
    ("vllm serve m -tp=1 -pp=2", None),
    ("vllm serve m --config c.yaml -tp 4", None),
    ("vllm bench serve -tp 4", None),
    ("vllm serve m", f"no --tensor-parallel-size{OF_TWO}".replace(REMOVE, "; the engine uses one, write --tensor-parallel-size=2")),
    ("vllm serve m $OPTIONS", None),
    ("vllm serve m --config c.yaml", None),
    ("vllm serve m -dp 2", None),
    ("vllm run-batch -i x --model m -tp 8", "-tp=8"),
    ("vllm bench throughput --model m", "no --tensor-parallel-size"),
    ("python3 -m sglang.launch_server --model-path m --tp 8", "--tp=8"),
    ("python3 -m sglang.launch_server --model-path m --tp-size 2", None),
    ("python3 -m sglang.launch_server --model-path m", "no --tensor-parallel-size"),
    ("sglang serve --model-path m --dp 2", None),
    ("accelerate launch --gpu_ids 0,1,2,3 t.py",
     "--gpu_ids=0,1,2,3 on the command line, and a pod's GPUs are numbered 0 to 1; remove the option"),
    ("accelerate launch --gpu_ids=0 t.py", "--gpu_ids=0"),
    ("accelerate launch --gpu_ids 0,1 --num_processes 8 t.py", None),
    ("accelerate launch --gpu_ids all t.py", None),
    ("accelerate launch --gpu_ids $IDS t.py", None),
    ("accelerate launch t.py --gpu_ids 7", None),
    ("deepspeed --include localhost:0,1,2,3 t.py", "--include=0,1,2,3"),
    ("deepspeed --include=localhost:0,1 t.py", None),
    ("deepspeed --include worker-0:0,1,2 t.py", None),
    ("nohup torchrun --nproc_per_node=8 t.py", "--nproc_per_node=8"),
    ("numactl --cpunodebind=0 python -u -X dev -m torch.distributed.run --nproc-per-node 8 t.py", "--nproc-per-node=8"),
    ("python /opt/conda/bin/torchrun --nproc_per_node=8 t.py", "--nproc_per_node=8"),
    ("python -m pkg.train --launcher torchrun --nnodes 4", None),
    ("uv run python -m pkg.train --launcher torchrun --nnodes 4", None),
    ("llamafactory-cli train c.yaml --launcher torchrun --nnodes 4", None),
    ("torchrun --nproc_per_node=$(nvidia-smi -L | wc -l) t.py", None),
])  # fmt: skip
def test_options_of_other_launchers(line: str, says: str | None) -> None:
    for words in (line.split(), ["bash", "-c", f"set -e; {line}"]):
        found = warnings(gpusPerNode=2, command=words)
        assert len(found) == (says is not None)
        assert all(each.startswith(says or "") for each in found)


@pytest.mark.parametrize(("line", "warned"), [
    ("torchrun --standalone t.py", True),
    ("accelerate launch --num_processes 2 t.py", False),
    ("accelerate launch --num_processes 4 t.py", True),
    ("accelerate launch --num_processes 4 --num_machines 2 t.py", False),
    ("accelerate launch --num_machines 1 t.py", True),
    ("deepspeed --num_nodes 2 --num_gpus 2 t.py", True),
    ("deepspeed --num_nodes 1 t.py", True),
    ("deepspeed t.py --deepspeed ds.json", True),
    ("deepspeed --hostfile hosts --no_ssh t.py", False),
    ("deepspeed $OPTIONS t.py", False),
    ("vllm serve m -tp 4", False),
    ("vllm serve m", False),
])  # fmt: skip
def test_options_of_launchers_on_two_nodes(line: str, warned: bool) -> None:
    assert bool(warnings(nodes=2, gpusPerNode=2, command=line.split())) is warned


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
    assert [*launches(["torchrun", "--nnodes=2 " * 1000])] == []
    assert [*launches(["torchrun", "--nnodes=12345678"])] == []
    assert chosen("0\n") is None
    assert chosen("-1") == {-1}


@pytest.mark.parametrize(("more", "warned"), [
    ({}, True),
    ({"env": [{"name": "N", "value": "2"}]}, False),
    ({"envByBackend": {"rocm": [{"name": "N", "value": "2"}]}}, False),
    ({"envFrom": [{"configMapRef": {"name": "c"}}]}, False),
    ({"env": [{"name": "M", "value": "2"}]}, True),
])  # fmt: skip
def test_the_default_of_a_variable_counts_where_the_job_does_not_set_it(more: dict[str, Any], warned: bool) -> None:
    found = warnings(gpusPerNode=2, command=["bash", "-c", "torchrun --nproc_per_node=${N:-8} t.py"], **more)
    assert bool(found) is warned


def test_arguments_without_a_program_are_those_of_an_unknown_one() -> None:
    for words in (["--nproc_per_node=8", "t.py"], ["-m", "torch.distributed.run", "--nproc_per_node=8"], ["--tp", "8"]):
        assert warnings(gpusPerNode=2, args=words) == []
