"""Whose variable wins, what only the operator sets, and what a program learns of its peers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from samples import H100, MI300X, choice_of, job_of

from gpujob.api.kinds.gpujob import GPUJob
from gpujob.placement.scoring.candidate import Choice
from gpujob.render.children import render
from gpujob.render.pod import folders
from gpujob.render.pod.environment import ON_MENTION

INDEX = {"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}


def variables(job: GPUJob, choice: Choice) -> dict[str, Any]:
    env = render(job, choice, 1).job["spec"]["template"]["spec"]["containers"][0]["env"]
    names = [entry["name"] for entry in env]
    assert len(names) == len(set(names))
    return {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in env}


def names_in_order(job: GPUJob, choice: Choice) -> list[str]:
    return list(variables(job, choice))


def test_the_backends_own_value_wins_over_the_jobs_and_this_over_the_pools() -> None:
    pool = replace(MI300X, env=({"name": "A", "value": "pool"}, {"name": "B", "value": "pool"}, {"name": "C"}))
    job = job_of(
        env=[{"name": "B", "value": "job"}, {"name": "C", "value": "job"}],
        envByBackend={"rocm": [{"name": "C", "value": "rocm"}], "cuda": [{"name": "A", "value": "cuda"}]},
    )
    found = variables(job, choice_of(pool, "n"))
    assert (found["A"], found["B"], found["C"]) == ("pool", "job", "rocm")


@pytest.mark.parametrize("name", ["HOME", "HF_HOME", "OMP_NUM_THREADS", "MASTER_PORT", "HSA_NO_SCRATCH_RECLAIM"])
def test_the_user_wins_over_defaults(name: str) -> None:
    job = job_of(gpusPerNode=2, env=[{"name": name, "value": "7"}])
    assert variables(job, choice_of(MI300X, "n"))[name] == "7"


def test_a_job_may_keep_the_reporter_out_of_its_optimizer() -> None:
    job = job_of(env=[{"name": "GPUJOB_REPORT_OPTIMIZER", "value": "Off"}])
    assert variables(job, choice_of(H100, "n"))["GPUJOB_REPORT_OPTIMIZER"] == "Off"


@pytest.mark.parametrize("name", ["PET_NNODES", "GPUJOB_NAME"])
def test_nobody_overrides_what_the_operator_says(name: str) -> None:
    # The API refuses it from users; a pool's variables are an admin's and are not looked at there.
    pool = replace(H100, env=({"name": name, "value": "wrong"}, {"name": "GPUJOB_OTHER", "value": "wrong"}))
    found = variables(job_of(), choice_of(pool, "n"))
    assert "wrong" not in found.values()


@pytest.mark.parametrize("gpus", [1, 8])
def test_keys_of_a_configmap_lose_against_what_the_operator_says(gpus: int) -> None:
    """Kubernetes prefers `env` to `envFrom`: so what must not come from there is in `env`, with a value."""
    job = job_of(gpusPerNode=gpus, envFrom=[{"configMapRef": {"name": "of-anybody"}}])
    found = variables(job, choice_of(MI300X, "n"))
    assert found["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert {"GPUJOB_NAME", "GPUJOB_ATTEMPT", "GPUJOB_NODES", "GPUJOB_GPUS_PER_NODE", "GPUJOB_BACKEND"} <= found.keys()
    assert all(found.values())


def test_pythonpath_is_left_to_the_user() -> None:
    assert variables(job_of(env=[{"name": "PYTHONPATH", "value": "src"}]), choice_of(H100, "n"))["PYTHONPATH"] == "src"
    assert "PYTHONPATH" not in variables(job_of(), choice_of(H100, "n"))


def test_nvidia_devices_are_hidden_on_amd_and_left_to_the_device_plugin_on_nvidia() -> None:
    job = job_of(env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "0"}])
    assert variables(job, choice_of(MI300X, "n"))["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert "NVIDIA_VISIBLE_DEVICES" not in variables(job, choice_of(H100, "n"))


@pytest.mark.parametrize("pool", [MI300X, H100])
def test_devices_are_never_filtered_and_the_network_never_tuned(pool: Any) -> None:
    found = variables(job_of(nodes=2, gpusPerNode=8), choice_of(pool, "n", "m", gpus=8))
    assert not [name for name in found if name.startswith(("NCCL_", "RCCL_")) or (name.endswith("VISIBLE_DEVICES")
                and found[name] != "void")]  # fmt: skip


def test_a_value_that_refers_to_another_comes_after_it() -> None:
    pool = replace(H100, env=({"name": "CACHE", "value": "/pool"},))
    job = job_of(env=[{"name": "ROOT", "value": "/data"}, {"name": "CACHE", "value": "$(ROOT)/cache"},
                      {"name": "HF_HOME", "value": "$(CACHE)/hf"}])  # fmt: skip
    names = names_in_order(job, choice_of(pool, "n"))
    assert names.index("ROOT") < names.index("CACHE") < names.index("HF_HOME")


def test_a_plain_value_stays_where_others_may_refer_to_it() -> None:
    job = job_of(
        env=[{"name": "MODE", "value": "slow"}, {"name": "RUN", "value": "$(MODE)-1"}],
        envByBackend={"cuda": [{"name": "MODE", "value": "fast"}]},
    )
    choice = choice_of(H100, "n")
    names = names_in_order(job, choice)
    assert names.index("MODE") < names.index("RUN")
    assert variables(job, choice)["MODE"] == "fast"


def test_threads_share_the_pods_cpu() -> None:
    assert variables(job_of(), choice_of(H100, "n"))["OMP_NUM_THREADS"] == "12"
    assert variables(job_of(gpusPerNode=8), choice_of(H100, "n", gpus=8))["OMP_NUM_THREADS"] == "1"


def test_mi300_keeps_scratch_memory_only_where_gpus_talk() -> None:
    assert "HSA_NO_SCRATCH_RECLAIM" not in variables(job_of(), choice_of(MI300X, "n"))
    assert variables(job_of(nodes=2), choice_of(MI300X, "n", "m"))["HSA_NO_SCRATCH_RECLAIM"] == "1"
    assert "HSA_NO_SCRATCH_RECLAIM" not in variables(job_of(nodes=2), choice_of(H100, "n", "m"))


def test_a_gang_meets_at_the_full_name_of_pod_0_in_the_order_of_their_index() -> None:
    found = variables(job_of(nodes=2, gpusPerNode=8), choice_of(H100, "n", "m", gpus=8))
    child = "llama-848554a7-1"
    master = f"{child}-0.{child}.research.svc"
    assert {name: value for name, value in found.items() if name.startswith("PET_")} == {
        "PET_NNODES": "2",
        "PET_NPROC_PER_NODE": "8",
        "PET_NODE_RANK": INDEX,
        "PET_RDZV_BACKEND": "static",
        "PET_MASTER_ADDR": master,
        "PET_MASTER_PORT": "29500",
    }
    assert (found["MASTER_ADDR"], found["MASTER_PORT"], found["NODE_RANK"]) == (master, "29500", INDEX)


@pytest.mark.parametrize("pool", [H100, MI300X])
def test_a_single_pod_meets_itself_by_torchruns_own_defaults(pool: Any) -> None:
    found = variables(job_of(gpusPerNode=8), choice_of(pool, "n", gpus=8))
    of_torchrun = {name: value for name, value in found.items() if name.startswith("PET_")}
    assert of_torchrun == {"PET_NNODES": "1", "PET_NPROC_PER_NODE": "8", "PET_MASTER_PORT": "29500"}
    others = {name: found[name] for name in ("MASTER_ADDR", "MASTER_PORT", "NODE_RANK")}
    assert others == {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500", "NODE_RANK": "0"}


ADDRESS = {"MASTER_ADDR", "MASTER_PORT"}
MEETING = {"PET_NNODES", "PET_NPROC_PER_NODE", "PET_MASTER_PORT", "NODE_RANK"}


@pytest.mark.parametrize(
    "spec",
    [{}, {"nodes": 1, "gpusPerNode": 1}, {"shapes": [{}, {"accelerator": "MI300X", "nodes": 1}]},
     {"model": {"parameters": "1B"}, "gpusPerNode": 1}],
)  # fmt: skip
def test_one_process_on_one_gpu_needs_no_rendezvous(spec: dict[str, Any]) -> None:
    found = variables(job_of(**spec), choice_of(H100, "n"))
    assert not MEETING & found.keys()
    # a process group of one, which PyTorch has no default address for
    assert (found["MASTER_ADDR"], found["MASTER_PORT"]) == ("127.0.0.1", "29500")


@pytest.mark.parametrize(
    "spec", [{"shapes": [{}, {"nodes": 2}]}, {"shapes": [{}, {"gpusPerNode": 8}]}, {"model": {"parameters": "1B"}}]
)
def test_a_job_that_may_get_several_gpus_sees_the_same_variables_on_one(spec: dict[str, Any]) -> None:
    assert variables(job_of(**spec), choice_of(H100, "n")).keys() >= MEETING | ADDRESS


SPELLINGS = [
    lambda name: {"command": ["sh", "-c", f"echo ${name}"]},
    lambda name: {"args": [f"--which=$({name})"]},
    lambda name: {"env": [{"name": "A", "value": f"$({name})-x"}]},
    lambda name: {"envByBackend": {"cuda": [{"name": "A", "value": f"$({name})"}]}},
]


@pytest.mark.parametrize("name", sorted(MEETING | ON_MENTION))
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_variable_that_the_job_names_is_there(name: str, spelling: Callable[[str], dict[str, Any]]) -> None:
    found = variables(job_of(**spelling(name)), choice_of(H100, "n"))
    assert found.keys() & (MEETING | ON_MENTION) == {name}
    whole = variables(job_of(gpusPerNode=2, **spelling(name)), choice_of(H100, "n", gpus=2))
    assert name in whole


def test_a_variable_that_the_pool_or_the_shape_names_is_there() -> None:
    pool = replace(H100, env=({"name": "WHERE", "value": "$(GPUJOB_POOL)"},))
    assert variables(job_of(), choice_of(pool, "n"))["GPUJOB_POOL"] == H100.name
    entry = {"args": ["$(NODE_RANK)"], "env": [{"name": "ON", "value": "$(GPUJOB_ACCELERATOR)"}]}
    choice = choice_of(H100, "n")
    gang = replace(choice.candidate.gang, entry=0)
    found = variables(job_of(shapes=[entry]), replace(choice, candidate=choice.candidate._replace(gang=gang)))
    assert found.keys() & (MEETING | ON_MENTION) == {"NODE_RANK", "GPUJOB_ACCELERATOR"}


@pytest.mark.parametrize("pool", [H100, MI300X])
def test_caches_are_left_to_home_and_to_the_image(pool: Any) -> None:
    # Each variable is compared at every write of the pod and of its Job; all libraries keep their caches below HOME by default.
    found = variables(job_of(), choice_of(pool, "n"))
    assert (found["HOME"], found["USER"]) == ("/gpujob/home", "gpujob")
    assert not folders.CACHES & found.keys()
    # With MASTER_ADDR and MASTER_PORT, and on AMD the variable that hides NVIDIA devices.
    assert len(found) <= 11, found


def test_one_process_for_each_pod_gets_its_rank() -> None:
    found = variables(job_of(nodes=3), choice_of(H100, "n", "m", "o"))
    ranks = {"RANK": INDEX, "WORLD_SIZE": "3", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
    assert {name: found.get(name) for name in ranks} == ranks


@pytest.mark.parametrize(("nodes", "gpus"), [(1, 1), (1, 8), (2, 8)])
def test_ranks_are_left_to_a_launcher_and_to_programs_that_start_workers(nodes: int, gpus: int) -> None:
    found = variables(job_of(nodes=nodes, gpusPerNode=gpus), choice_of(H100, *("n", "m")[:nodes], gpus=gpus))
    assert not {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"} & set(found)
