"""The rules of GPUJob."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from pydantic import BaseModel

from gpujob.api.fields.amounts import is_quantity, without_b
from gpujob.api.frozen_spec import FREE, FREE_IN_PLACEMENT
from gpujob.api.kinds.gpujob import (
    CHECKPOINTS,
    AllowDenyAccelerators,
    AllowDenyPools,
    Checkpoint,
    Code,
    CodeClaim,
    Framework,
    GPUJob,
    GPUJobSpec,
    Images,
    Placement,
    Resources,
    Telemetry,
)
from gpujob.api.kinds.model import Model, ModelOverrides
from gpujob.api.validation import pods
from gpujob.api.validation.rule import CONTROL, Rule, of_each, one_of, relative_path
from gpujob.values.quantity import parse_bytes


def is_satisfiable(text: str) -> bool:
    """Whether any released version is in a range such as ">=2.10,<2.15"; also if the text is no range."""
    # late import: most jobs request no version, and the command line pays for every import
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        return not SpecifierSet(text, prereleases=False).is_unsatisfiable()
    except InvalidSpecifier:
        return True


_MEMORY, _SHARED = (without_b(f"string(self.{name})") for name in ("memory", "sharedMemory"))
_NUMBER: Final = "[0-9]+([.][0-9]+)*"
_PART: Final = f" *((==|!=) *{_NUMBER}([.][*])?|(>=|<=|>|<) *{_NUMBER}|~= *[0-9]+([.][0-9]+)+) *"
_RANGE: Final = re.compile(f"^{_PART}(,{_PART})*$")
_RANGE_CEL: Final = "'" + _RANGE.pattern + "'"


_LINE: Final = re.compile("[^/ \t]*[ \t]")
"""A command line in one text: a blank before any slash."""


def _range(field: str, example: str) -> Rule:
    return Rule(Framework, field, f"framework.{field} is not a version range; write for example {example}",
                f"!has(self.{field}) || self.{field}.matches({_RANGE_CEL})",
                lambda value: getattr(value, field) is None or bool(_RANGE.fullmatch(getattr(value, field))))  # fmt: skip


def _admits(field: str) -> Rule:
    """The API server cannot compare versions; the operator and the command line check it."""
    return Rule(Framework, field, f"no version is in framework.{field}: its parts exclude one another; take one out", "",
                lambda value: getattr(value, field) is None or is_satisfiable(getattr(value, field)))  # fmt: skip


def _disjoint(model: type[BaseModel]) -> Rule:
    return of_each(model, "deny", "is allowed and denied; remove it from one list",
                   "!has(self.allow) || !has(self.deny) || self.deny.all(d, !(d in self.allow))",
                   lambda value: ((f"[{at}]", name) for at, name in enumerate(value.deny) if name in value.allow),
                   named="self.deny.filter(d, d in self.allow)[0]")  # fmt: skip


def _shared_fits(value: Resources) -> bool:
    return (
        value.shared_memory is None
        or value.memory is None
        or parse_bytes(value.shared_memory) <= parse_bytes(value.memory)
    )


def _unknown_mounts(value: GPUJobSpec) -> Iterator[tuple[str, str]]:
    names = {volume.name for volume in value.volumes}
    return ((f"[{at}].name", mount.name) for at, mount in enumerate(value.volume_mounts) if mount.name not in names)


def _keeps_checkpoints(value: GPUJobSpec) -> bool:
    if value.checkpoint is None or value.checkpoint.volume is None:
        return True
    named = (volume for volume in value.volumes if volume.name == value.checkpoint.volume)
    sources = (volume.persistent_volume_claim or volume.csi for volume in named)
    return any(source is not None and not source.read_only for source in sources)


def _mounted_twice(value: GPUJobSpec) -> Iterator[tuple[str, str]]:
    paths = {mount.mount_path for mount in value.volume_mounts}
    mounts = enumerate(mount.mount_path for mount in value.volume_mounts)
    return ((f"[{at}].mountPath", path) for at, path in mounts if f"{path}/" in paths)


def _path_is_free(value: GPUJobSpec) -> bool:
    if value.checkpoint is None or value.checkpoint.volume is None:
        return True
    path = (value.checkpoint.path or CHECKPOINTS).removesuffix("/")
    there = (mount for mount in value.volume_mounts if mount.mount_path.removesuffix("/") == path)
    return all(mount.name == value.checkpoint.volume and not mount.read_only for mount in there)


def _measures_its_trials(value: GPUJobSpec) -> bool:
    tries = value.placement is not None and (value.placement.probe or value.placement.exploration) is not None
    return not tries or value.preflight != "Disabled" or value.telemetry is not None


_OWN: Final[tuple[Rule, ...]] = (
    one_of(Code, "code"),
    Rule(GPUJobSpec, "command", "command begins with an empty word; write the program, or remove command to run the image's own",
         "size(self) == 0 || self[0] != ''", lambda value: not value.command or value.command[0] != "", by_itself=True),
    # What no program can be given is found where the job is read: rules over all words would cost the API server too much.
    Rule(GPUJobSpec, "command", "the first word of command, the program, has a control character; take it out", "",
         lambda value: not value.command or CONTROL.search(value.command[0]) is None),
    # A path may have a blank; the API server does not check this: no expression at each status write for a slip of the hand.
    Rule(GPUJobSpec, "command", "the first entry of command is the name of the program alone; write each further word as an entry of "
         "its own, for example command: [python3, train.py]", "",
         lambda value: not value.command or not _LINE.match(value.command[0])),
    Rule(GPUJobSpec, "command", f"a word of command {pods.NO_NUL}", "", lambda value: not any("\0" in word for word in value.command)),
    Rule(GPUJobSpec, "args", f"a word of args {pods.NO_NUL}", "", lambda value: not any("\0" in word for word in value.args)),
    Rule(GPUJobSpec, "workingDir", "workingDir has a control character; take it out", "",
         lambda value: value.working_dir is None or CONTROL.search(value.working_dir) is None),
    Rule(Resources, "sharedMemory", "resources.sharedMemory counts in resources.memory and is larger; lower it or raise memory",
         "!has(self.sharedMemory) || !has(self.memory) || "
         f"!{is_quantity(_SHARED)} || !{is_quantity(_MEMORY)} || !quantity({_SHARED}).isGreaterThan(quantity({_MEMORY}))",
         _shared_fits),
    Rule(Images, "", "images needs cuda, rocm or both; remove it to use the catalog's images",
         "has(self.cuda) || has(self.rocm)", lambda value: value.cuda is not None or value.rocm is not None),
    relative_path(CodeClaim, "subPath"),
    Rule(Telemetry, "port", "29500 is the port of the rendezvous; use another one",
         "!has(self.port) || self.port != 29500", lambda value: value.port != 29500),
    _disjoint(AllowDenyAccelerators),
    _disjoint(AllowDenyPools),
    _range("version", ">=2.10,<2.15"),
    _range("python", ">=3.11 or ==3.12.*"),
    _admits("version"),
    _admits("python"),
    Rule(GPUJobSpec, "workingDir", "workingDir must be an absolute path",
         "self.startsWith('/')", lambda value: value.working_dir is None or value.working_dir.startswith("/"), by_itself=True),
    of_each(GPUJobSpec, "volumeMounts", "is not in spec.volumes; add the volume there, or correct the name",
            "!has(self.volumeMounts) || "
            "self.volumeMounts.all(m, has(self.volumes) && self.volumes.exists(v, v.name == m.name))",
            _unknown_mounts, unnamed="a volume of volumeMounts"),
    of_each(GPUJobSpec, "volumeMounts", "is mounted twice, with and without / at its end; remove one of the two volumeMounts",
            "self.all(m, !self.exists(n, n.mountPath == m.mountPath + '/'))",
            _mounted_twice, unnamed="a path of volumeMounts", by_itself=True),
    Rule(Checkpoint, "path", "checkpoint.path is a folder of checkpoint.volume; name the volume, or remove path",
         "!has(self.path) || has(self.volume)", lambda value: value.path is None or value.volume is not None),
    Rule(Checkpoint, "path", f"checkpoint.path {pods.FREE_PATH}",
         f"!has(self.path) || ({pods.free_path('self.path')})",
         lambda value: value.path is None or pods.is_free_path(value.path)),
    Rule(
        Checkpoint, "path", "checkpoint.path is at or below /proc, /sys or /dev, where the kernel, the device plugin and shared memory "
        f"have their files; use another folder, for example {CHECKPOINTS}",
        f"!has(self.path) || !{pods.kernels_path('self.path')}",
        lambda value: value.path is None or not pods.is_kernels_path(value.path),
    ),
    Rule(GPUJobSpec, "checkpoint", "checkpoint.volume must name an entry of volumes that outlives a pod and can be written: "
         "a persistentVolumeClaim or csi volume without readOnly",
         "!has(self.checkpoint) || !has(self.checkpoint.volume) || (has(self.volumes) && self.volumes.exists(v, "
         "v.name == self.checkpoint.volume && ("
         "(has(v.persistentVolumeClaim) && (!has(v.persistentVolumeClaim.readOnly) || !v.persistentVolumeClaim.readOnly)) || "
         "(has(v.csi) && (!has(v.csi.readOnly) || !v.csi.readOnly)))))", _keeps_checkpoints),
    Rule(GPUJobSpec, "checkpoint", "volumeMounts mounts another volume, or the volume readOnly, at checkpoint.path; "
         "change one of the two paths, or remove readOnly",
         "!has(self.checkpoint) || !has(self.checkpoint.volume) || !has(self.volumeMounts) || self.volumeMounts.all(m, "
         "!(m.mountPath in (has(self.checkpoint.path) ? (self.checkpoint.path.endsWith('/') ? "
         "[self.checkpoint.path, self.checkpoint.path.substring(0, size(self.checkpoint.path) - 1)] : "
         f"[self.checkpoint.path, self.checkpoint.path + '/']) : ['{CHECKPOINTS}', '{CHECKPOINTS}/'])) || "
         "(m.name == self.checkpoint.volume && (!has(m.readOnly) || !m.readOnly)))", _path_is_free),
    Rule(GPUJobSpec, "shapes", "each shape sets its own nodes and gpusPerNode; remove spec.nodes and spec.gpusPerNode, or shapes",
         "!has(self.shapes) || size(self.shapes) == 0 || (!has(self.nodes) && !has(self.gpusPerNode))",
         lambda value: not value.shapes or (value.nodes is None and value.gpus_per_node is None)),
    Rule(GPUJobSpec, "gpuMemory", "gpuMemory and model both set what each GPU needs; remove one of them",
         "!has(self.gpuMemory) || !has(self.model)",
         lambda value: value.gpu_memory is None or value.model is None),
    Rule(GPUJobSpec, "placement", "placement.exploration compares with the runs of a profile; name one in spec.profile",
         "!has(self.placement) || !has(self.placement.exploration) || has(self.profile)",
         lambda value: value.placement is None or value.placement.exploration is None or value.profile is not None),
    Rule(GPUJobSpec, "preflight", "placement.probe and placement.exploration need what a run measures, and nothing is measured with "
         "preflight: Disabled alone; add telemetry: {}, or set another preflight",
         "!has(self.placement) || (!has(self.placement.probe) && !has(self.placement.exploration)) || "
         "!has(self.preflight) || self.preflight != 'Disabled' || has(self.telemetry)", _measures_its_trials),
    Rule(GPUJobSpec, "preflight", "stall acts on what a run reports, and nothing is reported with preflight: Disabled alone; "
         "add telemetry: {}, or set another preflight",
         "!has(self.stall) || !has(self.preflight) || self.preflight != 'Disabled' || has(self.telemetry)",
         lambda value: value.stall is None or value.preflight != "Disabled" or value.telemetry is not None),
    Rule(Model, "", "model needs exactly one of name, parameters",
         "has(self.name) != has(self.parameters)",
         lambda value: (value.name is None) != (value.parameters is None)),
    Rule(ModelOverrides, "activeExperts", "activeExperts is more than experts; lower it, or raise experts",
         "!has(self.experts) || !has(self.activeExperts) || self.activeExperts <= self.experts",
         lambda value: value.active_experts is None or value.experts is None or value.active_experts <= value.experts),
    Rule(ModelOverrides, "kvHeads", "kvHeads is more than heads; lower it, or raise heads",
         "!has(self.heads) || !has(self.kvHeads) || self.kvHeads <= self.heads",
         lambda value: value.kv_heads is None or value.heads is None or value.kv_heads <= value.heads),
    Rule(Model, "lora", "model.lora acts with method LoRA or QLoRA only; set the method, or remove it",
         "!has(self.lora) || (has(self.method) && self.method in ['LoRA', 'QLoRA'])",
         lambda value: value.lora is None or value.method in ("LoRA", "QLoRA")),
    Rule(Model, "inference", "model.inference acts with method Inference only; set the method, or remove it",
         "!has(self.inference) || (has(self.method) && self.method == 'Inference')",
         lambda value: value.inference is None or value.method == "Inference"),
    Rule(Model, "sharding", "model.sharding TensorParallel is for method Inference; training shards with FSDP or ZeRO3",
         "!has(self.sharding) || self.sharding != 'TensorParallel' || (has(self.method) && self.method == 'Inference')",
         lambda value: value.sharding != "TensorParallel" or value.method == "Inference"),
    Rule(Model, "method", "optimizer, gradientCheckpointing and gradientAccumulation do nothing under Inference; "
         "remove them, or set another method",
         "!has(self.method) || self.method != 'Inference' || "
         "(!has(self.optimizer) && !has(self.gradientCheckpointing) && !has(self.gradientAccumulation))",
         lambda value: value.method != "Inference"
         or (value.optimizer is None and value.gradient_checkpointing is None and value.gradient_accumulation is None)),
)  # fmt: skip

RULES: Final = (*pods.RULES, *_OWN)
"""All rules that a GPUJob must keep."""


def _unchanged(field: str) -> str:
    """CEL: whether an update leaves a field as it is."""
    same = f"has(self.spec.{field}) == has(oldSelf.spec.{field})"
    return same + f" && (!has(self.spec.{field}) || self.spec.{field} == oldSelf.spec.{field})"


def _placement_unchanged() -> str:
    """CEL: whether an update leaves all of spec.placement but its budget as it is; absent and empty are the same.

    Equality of optional values would be shorter; the API server takes its cost for unbounded.
    """
    names = [info.alias or name for name, info in Placement.model_fields.items() if name not in FREE_IN_PLACEMENT]
    return " && ".join(map(_same_in_placement, names))


def _same_in_placement(name: str) -> str:
    new, old = (f"{each}.spec.placement.{name}" for each in ("self", "oldSelf"))
    has_new, has_old = (
        f"has({each}.spec.placement) && has({each}.spec.placement.{name})" for each in ("self", "oldSelf")
    )
    return f"({has_new}) == ({has_old}) && (!({has_new}) || {new} == {old})"


def immutability(model: type[BaseModel]) -> Iterator[dict[str, str]]:
    """For GPUJob: every spec field but suspend and the limits stays as it is while a child Job exists (root rules see the status).

    One rule, and an equal spec ends it: the API server evaluates root rules at each write of a status too, and a rule for each
    field took more than half of its time. A message that names the changed fields costs more than the API server allows.
    """
    if model is not GPUJob:
        return
    names = [info.alias or name for name, info in GPUJobSpec.model_fields.items()]
    same = [_placement_unchanged() if name == "placement" else _unchanged(name) for name in names if name not in FREE]
    in_placement = (f"placement.{name}" for name in FREE_IN_PLACEMENT)
    free = " and ".join((", ".join((*in_placement, *FREE[:-1])), FREE[-1]))
    way_out = f"exists; create a new GPUJob, or set suspend first ({free} can change)"
    yield {
        "rule": "!has(oldSelf.status) || !has(oldSelf.status.jobName) || self.spec == oldSelf.spec || "
        f"({' && '.join(f'({each})' for each in same)})",
        "fieldPath": ".spec",
        "message": f"spec cannot change while the child Job {way_out}",
        "messageExpression": f"'spec cannot change while the child Job ' + oldSelf.status.jobName + ' {way_out}'",
    }
