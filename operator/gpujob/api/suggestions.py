"""What an unknown field most likely means: the closest existing field, or the place of a usual word in a GPUJob."""

from __future__ import annotations

import difflib
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, get_args, get_origin

from pydantic import BaseModel

from gpujob.api.validation.rule import EVERY_FIELD


def _by_word(words_of: Mapping[str, str]) -> dict[str, str]:
    """What each word means, of the words for each meaning with blanks between."""
    return {word: meaning for meaning, words in words_of.items() for word in words.split()}


USUAL_WORDS: Final = _by_word({
    "spec.gpusPerNode":
        "gpu gpus gpucount numgpus gpuspernodes nvidia.com/gpu amd.com/gpu devices nproc nprocpernode procpernode slots "
        "gres ntasks-per-node gpus-per-node gpus-per-task",
    "spec.nodes": "workers numworkers numnodes nnodes worldsize minavailable",
    "spec.images.cuda.image and spec.images.rocm.image": "image containerimage",
    "spec.gpusPerNode for GPUs and spec.resources.cpu and memory": "limits requests",
    "spec.gpuMemory": "vram memorypergpu gpumem minmemory minvram",
    "spec.resources.sharedMemory": "shm shmsize sharedmem",
    "spec.resources.ephemeralStorage": "disk storage ephemeral-storage",
    "spec.resources.cpu": "cpu cpus",
    "spec.resources.memory (of the host) or spec.gpuMemory (of each GPU)": "memory mem ram",
    "spec.placement.vendors": "vendor vendors gpuvendor",
    "spec.placement.accelerators.allow": "accelerator accelerators gputype gpumodel gpuproduct",
    "spec.placement.accelerators, or spec.placement.pools for the nodes of a pool": "nodeselector affinity",
    "spec.placement.pools.allow": "pool pools nodepool nodename partition partitions zone zones region regions",
    "spec.placement.capacityTypes": "spot preemptible capacitytype usespot",
    "spec.placement.maxPricePerHour": "maxprice pricecap maxpriceperhour",
    "spec.placement.budget": "budget maxcost costlimit maxbudget",
    "spec.activeDeadlineSeconds": "deadline activedeadlineseconds timeout timelimit maxruntime walltime time",
    "spec.ttlSecondsAfterFinished": "ttl ttlseconds cleanup",
    "spec.placement.objective": "objective strategy",
    "spec.command": "entrypoint cmd run",
    "spec.args": "arguments argv",
    "spec.workingDir": "workdir cwd",
    "spec.env": "environment envs envvars variables",
    "spec.podMetadata": "labels annotations",
    "spec.securityContext.runAsUser": "runasuser user",
    "spec.framework.python": "python pythonversion",
    "spec.framework.version": "pytorch torch frameworkversion pytorchversion",
    "spec.requires": "features capabilities",
    "spec.command, spec.args, spec.env and spec.volumes, which stand in spec itself":
        "template containers container spec pod",
})  # fmt: skip
"""Words from other kinds and tools, in small letters, and the field of a GPUJob that they mean."""

NOT_OFFERED: Final = _by_word({
    "retries: {user: 1, infrastructure: 5} sets how often a job is tried again":
        "maxretries backofflimit maxrestarts restartpolicy",
    "GPU taints are tolerated without it; other tolerations are an admin's, in a GPUPool": "toleration tolerations",
    "host access is not offered; fabric.hostNetwork of a GPUPool is an admin's":
        "hostnetwork hostpid hostipc hostport hostusers",
    "folders of the host are not offered; use a persistentVolumeClaim": "hostpath",
    "network and cloud disks are mounted by a persistentVolumeClaim, whose PersistentVolume names them":
        "nfs iscsi cephfs glusterfs azuredisk azurefile gcepersistentdisk awselasticblockstore",
    "there is one queue; priorityClassName orders the jobs in it": "queue queuename localqueue clusterqueue",
    "a pod has one container of yours; do it in command, before the program starts": "initcontainers initcontainer sidecars sidecar",
    "one GPUJob is one run; make one GPUJob for each value of an array or sweep, and spec.nodes for the nodes of a gang":
        "array jobarray sweep completions parallelism completionmode",
    "one GPUJob is one run; make one GPUJob for each copy of a server, and spec.nodes for the nodes of a gang": "replicas",
    "a Service of yours finds the pods by the label gpujob.dev/job: NAME": "ports containerport service expose ingress",
    "the handler of containers is an admin's: runtimeClassName of a GPUPool": "runtimeclassname runtimeclass",
    "priorityClassName orders the jobs": "qos qosclass",
    "kube-scheduler binds the pods to the nodes that the operator chooses": "schedulername",
    "there are no interactive jobs; start `sleep infinity` and use `kubectl exec`": "stdin tty stdinonce interactive",
    "spec.stall says when a job that makes no steps is tried again": "livenessprobe readinessprobe startupprobe healthcheck",
    "the cluster's own DNS is used": "dnspolicy dnsconfig hostaliases",
    "the program catches SIGTERM itself, and spec.checkpoint gives it time to save": "lifecycle prestop poststart",
    "jobs do not wait for each other; `kubectl gpujob wait NAME` does so in a script": "dependson dependencies after",
})  # fmt: skip
"""Words without a field of a GPUJob, in small letters, and what to use instead."""

WORDS_MEANT: Final = _by_word({
    "NVIDIA": "cuda geforce tesla",
    "AMD": "rocm hip radeon instinct",
    "Partition": "mig slice cpx nps4 vgpu",
    "Shared": "timeslicing timesliced mps",
    "Integrated": "apu unified",
    "Spot": "preemptible interruptible lowpriority",
    "Reserved": "reservation commitment committed",
    "Cost": "cheapest price cheap",
    "Speed": "fastest performance throughput time",
    "Disabled": "off never none skip",
    "BF16": "bfloat16 bf16mixed",
    "FP16": "float16 half",
    "FP32": "float32 float",
    "FP8": "float8 fp8ocp fp8fnuz e4m3",
    "ZeRO3": "deepspeed3 stage3",
    "Full": "training pretrain pretraining finetune finetuning sft",
    "Inference": "serving serve generate generation",
})  # fmt: skip
"""Synonyms of list words, in small letters without hyphens; used only if the list contains the target."""


MEANT: Final = "; did you mean "


def meant(given: str, words: Sequence[str]) -> str:
    """The end of a sentence about a word that is not in `words`: the most likely one; empty without one."""
    plain = {_plain(word): word for word in reversed(words)}
    asked = _plain(given)
    found = plain.get(asked) or (WORDS_MEANT[asked] if WORDS_MEANT.get(asked) in words else None)
    near = [] if found else difflib.get_close_matches(asked, plain, cutoff=0.7)
    word = found or (plain[near[0]] if near else None)
    return f"{MEANT}{word}?" if word else ""


def _plain(word: str) -> str:
    return "".join(c for c in word.lower() if c.isalnum())


def choices(kind: type[BaseModel], path: tuple[Any, ...]) -> tuple[str, ...]:
    """The words that the entries of a list may be; empty where they are free or no words."""
    model: Any = kind
    for part in path[:-1]:
        if isinstance(part, str) and model is not None:
            model = _model_of(model, part)
    fields = model.model_fields.items() if model is not None else ()
    found = next((info.annotation for name, info in fields if (info.alias or name) == path[-1]), None)
    return tuple(_literals(found))


def _literals(annotation: Any) -> Iterator[str]:
    if get_origin(annotation) is Literal:
        yield from (word for word in get_args(annotation) if isinstance(word, str))
        return
    for part in get_args(annotation):
        yield from _literals(part)


def closest_word(given: str, words: Sequence[str]) -> str:
    """The one of `words` that is most likely meant; what was given without such a one."""
    return meant(given, words).removeprefix(MEANT).removesuffix("?") or given


def hint(kind: type[BaseModel], path: tuple[Any, ...]) -> str:
    """The end of a sentence about an unknown field: what to write instead."""
    model = _table_of(kind, path)
    if model is None:
        return ""
    word = str(path[-1])
    if near := _near(kind, model, path):
        return f"; did you mean {near}?"
    if elsewhere := _elsewhere(kind, path):
        return elsewhere
    if _is_selector(model):
        return f"; labels of nodes and namespaces stand below matchLabels: write matchLabels: {{{word[:80]}: VALUE}}"
    return f"; known here are {', '.join(sorted(_fields_of(model))[:40])}"


def may_be(kind: type[BaseModel], path: tuple[Any, ...]) -> Container[str]:
    """The fields of its table that an unknown field may be: the closest one, else none of the spec, and any of a table below it, where
    few fields mean similar things.
    """
    model = _table_of(kind, path)
    if model is None:
        return EVERY_FIELD
    if near := _near(kind, model, path):
        return (near,)
    return () if len(path) <= len(("spec", "field")) else EVERY_FIELD


def _table_of(kind: type[BaseModel], path: tuple[Any, ...]) -> type[BaseModel] | None:
    """The model of the table in which a field is written; None if that is of no model."""
    model: type[BaseModel] | None = kind
    for part in path[:-1]:
        if isinstance(part, str) and model is not None:
            model = _model_of(model, part)
    return model


def _usual(kind: type[BaseModel], path: tuple[Any, ...]) -> str:
    """An unknown field as the tables of usual words write it; empty of another kind than GPUJob."""
    return str(path[-1]).lower().replace("_", "") if kind.__name__ == "GPUJob" else ""


def _near(kind: type[BaseModel], model: type[BaseModel], path: tuple[Any, ...]) -> str:
    """The field of the same table that an unknown one most likely means; empty if it is one of another table or unknown."""
    names, word, usual = _fields_of(model), str(path[-1]), _usual(kind, path)
    if usual in NOT_OFFERED:
        return ""
    meaning = USUAL_WORDS.get(usual, "")
    if meaning and any(isinstance(part, int) for part in path):
        # An entry of a list may have a field of that name of its own.
        return next((name for part in reversed(meaning.split(".")) for name in _close(part, names, 0.9)), "")
    parent, _, last = meaning.rpartition(".")
    if (meaning and parent != ".".join(map(str, path[:-1]))) or _elsewhere(kind, path):
        return ""
    asked = last or word
    return next((name for name in names if _plain(name) == _plain(asked)), next(iter(_close(asked, names, 0.6)), ""))


def _elsewhere(kind: type[BaseModel], path: tuple[Any, ...]) -> str:
    """The end of a sentence about a field that this table does not have: where it is written, or what replaces it; else empty."""
    usual = _usual(kind, path)
    if usual in NOT_OFFERED:
        return f"; {NOT_OFFERED[usual]}"
    meaning = USUAL_WORDS.get(usual, "")
    if meaning and meaning.rpartition(".")[0] != ".".join(map(str, path[:-1])):
        return f"; write {meaning}"
    return hint_of_spec(kind, str(path[-1])) if len(path) == 1 else _exact_place(kind, path)


def _close(word: str, names: Sequence[str], cutoff: float) -> list[str]:
    return difflib.get_close_matches(word, names, n=1, cutoff=cutoff)


def _fields_of(model: type[BaseModel]) -> list[str]:
    return [info.alias or name for name, info in model.model_fields.items()]


def _is_selector(model: type[BaseModel]) -> bool:
    """Whether a table selects by labels: Kubernetes has plain maps of labels in its place elsewhere."""
    return "matchLabels" in _fields_of(model)


def field_of_choice(kind: type[BaseModel], path: tuple[Any, ...], word: str) -> str:
    """How to write a word in place of a table that takes it in one field and requires no other, for example stall: {action: Restart};
    empty otherwise.
    """
    model = _table_of(kind, (*path, ""))
    if model is None or isinstance(path[-1], int) or any(info.is_required() for info in model.model_fields.values()):
        return ""
    takes = {
        alias: get_origin(info.annotation) is tuple
        for name, info in model.model_fields.items()
        if word in choices(kind, (*path, alias := info.alias or name))
    }
    if len(takes) != 1:
        return ""
    ((name, several),) = takes.items()
    return f"{path[-1]}: {{{name}: {f'[{word}]' if several else word}}}"


def hint_of_spec(kind: type[BaseModel], word: str) -> str:
    """The end of a sentence about a field beside spec that stands in spec; empty for another word."""
    usual = word.lower().replace("_", "") if kind.__name__ == "GPUJob" else ""
    if meaning := USUAL_WORDS.get(usual):
        return f"; write {meaning}"
    spec = _model_of(kind, "spec")
    names = [info.alias or name for name, info in spec.model_fields.items()] if spec else []
    near = difflib.get_close_matches(word, names, cutoff=0.8)
    return f"; write spec.{near[0]}" if near else ""


def _exact_place(kind: type[BaseModel], path: tuple[Any, ...]) -> str:
    """The end of a sentence about a field of a spec that stands in spec itself or in one other table; empty without that one.

    Fields in entries of lists (name, path, key) mean other things there, so that they end the search.
    """
    if any(isinstance(part, int) for part in path):
        return ""
    places = list(_places(kind, str(path[-1]), ()))
    first = next((place for place in places if len(place) == 2), None) or (places[0] if len(places) == 1 else None)
    return f"; write {'.'.join(first)}" if first and LISTED not in first else ""


LISTED: Final = "[]"
"""Stands in a path for the entries of a list."""


def _places(model: type[BaseModel], word: str, above: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The paths of the fields of a name in the spec of a kind."""
    for name, info in model.model_fields.items():
        alias = info.alias or name
        if not above and alias != "spec":
            continue
        if above and alias == word:
            yield (*above, alias)
        if inner := _first_model(info.annotation):
            entries = (LISTED,) if get_origin(info.annotation) is tuple else ()
            yield from _places(inner, word, (*above, alias, *entries))


def _model_of(model: type[BaseModel], alias: str) -> type[BaseModel] | None:
    for name, info in model.model_fields.items():
        if (info.alias or name) == alias:
            return _first_model(info.annotation)
    return None


def _first_model(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((m for part in getattr(annotation, "__args__", ()) if (m := _first_model(part)) is not None), None)
