"""What an unknown field most likely means: the closest existing field, or the place of a usual word in a GPUJob."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any, Final

from pydantic import BaseModel

USUAL_WORDS: Final = {
    **dict.fromkeys(
        ("gpu", "gpus", "gpucount", "numgpus", "gpuspernodes", "nvidia.com/gpu", "amd.com/gpu", "devices"),
        "spec.gpusPerNode",
    ),
    **dict.fromkeys(
        ("replicas", "workers", "numworkers", "numnodes", "nnodes", "parallelism", "completions", "minavailable"),
        "spec.nodes",
    ),
    **dict.fromkeys(("nprocpernode", "procpernode", "slots"), "spec.gpusPerNode"),
    **dict.fromkeys(("image", "containerimage"), "spec.images.cuda.image and spec.images.rocm.image"),
    **dict.fromkeys(("limits", "requests"), "spec.gpusPerNode for GPUs and spec.resources.cpu and memory"),
    **dict.fromkeys(("vram", "memorypergpu", "gpumem", "minmemory", "minvram"), "spec.gpuMemory"),
    **dict.fromkeys(("shm", "shmsize", "sharedmem"), "spec.resources.sharedMemory"),
    **dict.fromkeys(("disk", "storage", "ephemeral-storage"), "spec.resources.ephemeralStorage"),
    **dict.fromkeys(("cpu", "cpus"), "spec.resources.cpu"),
    **dict.fromkeys(("memory", "mem", "ram"), "spec.resources.memory (of the host) or spec.gpuMemory (of each GPU)"),
    **dict.fromkeys(("vendor", "vendors", "gpuvendor"), "spec.placement.vendors"),
    **dict.fromkeys(
        ("accelerator", "accelerators", "gputype", "gpumodel", "gpuproduct"), "spec.placement.accelerators.allow"
    ),
    **dict.fromkeys(
        ("pool", "pools", "nodepool", "nodeselector", "nodename", "affinity"),
        "spec.placement.pools.allow",
    ),
    **dict.fromkeys(("spot", "preemptible", "capacitytype", "usespot"), "spec.placement.capacityTypes"),
    **dict.fromkeys(("maxprice", "pricecap", "maxpriceperhour"), "spec.placement.maxPricePerHour"),
    **dict.fromkeys(("budget", "maxcost", "costlimit", "maxbudget"), "spec.placement.budget"),
    **dict.fromkeys(
        ("deadline", "activedeadlineseconds", "timeout", "timelimit", "maxruntime", "walltime"),
        "spec.activeDeadlineSeconds",
    ),
    **dict.fromkeys(("ttl", "ttlseconds", "cleanup"), "spec.ttlSecondsAfterFinished"),
    **dict.fromkeys(("objective", "strategy"), "spec.placement.objective"),
    **dict.fromkeys(("entrypoint", "cmd", "run"), "spec.command"),
    **dict.fromkeys(("arguments", "argv"), "spec.args"),
    **dict.fromkeys(("workdir", "cwd"), "spec.workingDir"),
    **dict.fromkeys(("environment", "envs", "envvars", "variables"), "spec.env"),
    **dict.fromkeys(("labels", "annotations"), "spec.podMetadata"),
    **dict.fromkeys(("runasuser", "user"), "spec.securityContext.runAsUser"),
    **dict.fromkeys(("python", "pythonversion"), "spec.framework.python"),
    **dict.fromkeys(("pytorch", "torch", "frameworkversion", "pytorchversion"), "spec.framework.version"),
    **dict.fromkeys(("features", "capabilities"), "spec.requires"),
    **dict.fromkeys(
        ("template", "containers", "container", "spec", "pod"),
        "spec.command, spec.args, spec.env and spec.volumes, which stand in spec itself",
    ),
}
"""Words from other kinds and tools, in small letters, and the field of a GPUJob that they mean."""

NOT_OFFERED: Final = {
    **dict.fromkeys(
        ("maxretries", "backofflimit", "maxrestarts", "restartpolicy"),
        "retries: {user: 1, infrastructure: 5} sets how often a job is tried again",
    ),
    **dict.fromkeys(
        ("toleration", "tolerations"),
        "GPU taints are tolerated without it; other tolerations are an admin's, in a GPUPool",
    ),
    **dict.fromkeys(
        ("hostnetwork", "hostpid", "hostipc", "hostport", "hostusers"),
        "host access is not offered; fabric.hostNetwork of a GPUPool is an admin's",
    ),
    "hostpath": "folders of the host are not offered; use a persistentVolumeClaim",
}
"""Words without a field of a GPUJob, in small letters, and what to use instead."""


WORDS_MEANT: Final = {
    **dict.fromkeys(("cuda", "geforce", "tesla"), "NVIDIA"),
    **dict.fromkeys(("rocm", "hip", "radeon", "instinct"), "AMD"),
    **dict.fromkeys(("mig", "slice", "cpx", "nps4", "vgpu"), "Partition"),
    **dict.fromkeys(("timeslicing", "timesliced", "mps"), "Shared"),
    **dict.fromkeys(("apu", "unified"), "Integrated"),
    **dict.fromkeys(("preemptible", "interruptible", "lowpriority"), "Spot"),
    **dict.fromkeys(("reservation", "commitment", "committed"), "Reserved"),
    **dict.fromkeys(("cheapest", "price", "cheap"), "Cost"),
    **dict.fromkeys(("fastest", "performance", "throughput", "time"), "Speed"),
    **dict.fromkeys(("off", "never", "none", "skip"), "Disabled"),
    **dict.fromkeys(("bfloat16", "bf16mixed"), "BF16"),
    **dict.fromkeys(("float16", "half"), "FP16"),
    **dict.fromkeys(("float32", "float"), "FP32"),
    **dict.fromkeys(("float8", "fp8ocp", "fp8fnuz", "e4m3"), "FP8"),
    **dict.fromkeys(("deepspeed3", "stage3"), "ZeRO3"),
    **dict.fromkeys(("training", "pretrain", "pretraining", "finetune", "finetuning", "sft"), "Full"),
    **dict.fromkeys(("serving", "serve", "generate", "generation"), "Inference"),
}
"""Synonyms of list words, in small letters without hyphens; used only if the list contains the target."""


def meant(given: str, words: Sequence[str]) -> str:
    """The end of a sentence about a word that is not in `words`: the most likely one; empty without one."""
    plain = {_plain(word): word for word in reversed(words)}
    asked = _plain(given)
    found = plain.get(asked) or (WORDS_MEANT[asked] if WORDS_MEANT.get(asked) in words else None)
    near = [] if found else difflib.get_close_matches(asked, plain, n=1, cutoff=0.7)
    word = found or (plain[near[0]] if near else None)
    return f"; did you mean {word}?" if word else ""


def _plain(word: str) -> str:
    return "".join(c for c in word.lower() if c.isalnum())


def hint(kind: type[BaseModel], path: tuple[Any, ...]) -> str:
    """The end of a sentence about an unknown field: what to write instead."""
    model: Any = kind
    for part in path[:-1]:
        if isinstance(part, str) and model is not None:
            model = _model_of(model, part)
    if model is None:
        return ""
    names = [info.alias or name for name, info in model.model_fields.items()]
    word, usual = str(path[-1]), str(path[-1]).lower().replace("_", "") if kind.__name__ == "GPUJob" else ""
    if usual in NOT_OFFERED:
        return f"; {NOT_OFFERED[usual]}"
    meant = USUAL_WORDS.get(usual)
    parent, _, last = (meant or "").rpartition(".")
    if meant and parent != ".".join(map(str, path[:-1])):
        return f"; write {meant}"
    near = difflib.get_close_matches(last or word, names, n=1, cutoff=0.6)
    return f"; did you mean {near[0]}?" if near else f"; known here are {', '.join(sorted(names)[:40])}"


def _model_of(model: type[BaseModel], alias: str) -> type[BaseModel] | None:
    for name, info in model.model_fields.items():
        if (info.alias or name) == alias:
            return _first_model(info.annotation)
    return None


def _first_model(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((m for part in getattr(annotation, "__args__", ()) if (m := _first_model(part)) is not None), None)
