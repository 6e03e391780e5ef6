"""Rules that join several fields: one table, checked by the API server (CEL) and by whoever reads a manifest (Python).

Each rule has one sentence; both sides say it. A rule without an expression would cost the API server too much and is
checked by Python alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from gpujob.api import forms
from gpujob.api.gpujob import (
    AllowDenyAccelerators,
    AllowDenyPools,
    Code,
    CodeClaim,
    Framework,
    GPUJob,
    GPUJobSpec,
    Images,
    Resources,
    Telemetry,
)
from gpujob.api.gpupool import (
    FabricSpec,
    GPUPoolSpec,
    LabelRequirement,
    NamespaceSelector,
    NodeSelector,
    Price,
    Toleration,
)
from gpujob.api.gpuruntime import GPURuntimeSpec
from gpujob.api.model import Model
from gpujob.api.pods import (
    ClaimResources,
    ClaimSpec,
    EnvironmentFrom,
    EnvironmentSource,
    EnvironmentVariable,
    KeyToPath,
    PodMetadata,
    ProjectedSource,
    ResourceFieldReference,
    SecurityContext,
    Volume,
    VolumeMount,
)
from gpujob.quantity import parse_bytes
from gpujob.vocabulary import REPORT_OPTIMIZER

Holds = Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule on one model: where it points, its sentence, the CEL expression and the same as a predicate."""

    model: type[BaseModel]
    field: str
    message: str
    expression: str
    holds: Holds

    def cel(self) -> dict[str, str]:
        """The entry of x-kubernetes-validations."""
        entry = {"rule": self.expression, "message": self.message}
        return entry | {"fieldPath": f".{self.field}"} if self.field else entry


def _one_of(model: type[BaseModel], what: str, optional: tuple[str, ...] = ()) -> Rule:
    """Exactly one member of a union."""
    fields = {name: info.alias or name for name, info in model.model_fields.items() if name not in ("name", *optional)}
    count = " + ".join(f"(has(self.{alias}) ? 1 : 0)" for alias in fields.values())
    words = ", ".join(fields.values())
    return Rule(
        model, "", f"{what} needs exactly one of {words}", f"({count}) == 1",
        lambda value: sum(getattr(value, name) is not None for name in fields) == 1,
    )  # fmt: skip


def _attribute(model: type[BaseModel], alias: str) -> str:
    return next(name for name, info in model.model_fields.items() if (info.alias or name) == alias)


def _reserved(value: EnvironmentVariable) -> bool:
    return value.name == REPORT_OPTIMIZER or not value.name.startswith(("GPUJOB_", "PET_"))


DEVICE_LISTS: Final = ("NVIDIA_VISIBLE_DEVICES", "AMD_VISIBLE_DEVICES")
"""Variables by which a container runtime hands out devices: with them a pod could take those of other pods."""


def _left_to_the_plugin(value: EnvironmentVariable) -> bool:
    return value.name.upper() not in DEVICE_LISTS


def _not_all(value: EnvironmentVariable) -> bool:
    return value.name.upper() != "ROCR_VISIBLE_DEVICES" or value.value not in ("all", "All", "ALL")


_FOREIGN: Final = re.compile(
    r"^((gpujob[.]dev|([^/]*[.])?kubernetes[.]io|([^/]*[.])?k8s[.]io)/|(job-name|controller-uid)$)"
)
_FOREIGN_CEL: Final = "'" + _FOREIGN.pattern + "'"
_NUMBER: Final = "[0-9]+([.][0-9]+)*"
_PART: Final = f" *((==|!=) *{_NUMBER}([.][*])?|(>=|<=|>|<) *{_NUMBER}|~= *[0-9]+([.][0-9]+)+) *"
_RANGE: Final = re.compile(f"^{_PART}(,{_PART})*$")
_RANGE_CEL: Final = "'" + _RANGE.pattern + "'"


def _own_keys(model: type[BaseModel], field: str) -> Rule:
    return Rule(
        model, field, f"{field} under gpujob.dev/ and kubernetes.io/ are the operator's and the cluster's; use other keys",
        f"!has(self.{field}) || self.{field}.all(k, !k.matches({_FOREIGN_CEL}))",
        lambda value: not any(_FOREIGN.search(key) for key in getattr(value, field)),
    )  # fmt: skip


def _keys(model: type[BaseModel], field: str, form: forms.Form) -> Rule:
    """Every key of a table has a form, and no more before its slash than Kubernetes takes."""
    attribute, most = _attribute(model, field), forms.PREFIX_LENGTH
    return Rule(
        model, field, f"a key {form.sentence}",
        f"!has(self.{field}) || self.{field}.all(k, {form.cel('k')} && k.indexOf('/') <= {most})",
        lambda value: all(form.fits(key) and key.find("/") <= most for key in getattr(value, attribute)),
    )  # fmt: skip


def _range(field: str, example: str) -> Rule:
    return Rule(
        Framework, field, f"framework.{field} is not a version range; write for example {example}",
        f"!has(self.{field}) || self.{field}.matches({_RANGE_CEL})",
        lambda value: getattr(value, field) is None or bool(_RANGE.fullmatch(getattr(value, field))),
    )  # fmt: skip


def _disjoint(model: type[BaseModel], what: str) -> Rule:
    return Rule(
        model, "deny", f"{what}: the same name is allowed and denied; take it off one list",
        "!has(self.allow) || !has(self.deny) || self.deny.all(d, !(d in self.allow))",
        lambda value: not set(value.allow) & set(value.deny),
    )  # fmt: skip


def _shared_fits(value: Resources) -> bool:
    return (
        value.shared_memory is None
        or value.memory is None
        or parse_bytes(value.shared_memory) <= parse_bytes(value.memory)
    )


def _known_mounts(value: GPUJobSpec) -> bool:
    names = {volume.name for volume in value.volumes}
    return all(mount.name in names for mount in value.volume_mounts)


_OURS: Final = re.compile("^(/opt|/run)?/gpujob(/|$)")


def _free_path(value: VolumeMount) -> bool:
    path = value.mount_path
    # What is not written plainly could name /gpujob all the same: //gpujob, /./gpujob.
    plain = path.startswith("/") and path != "/" and not any(part in path for part in (":", "..", "//", "/./"))
    return plain and not _OURS.match(path)


def _relative(model: type[BaseModel], attribute: str, field: str, *, in_cel: bool = True) -> Rule:
    """A path below something: the kubelet refuses the pod otherwise, long after the job was placed."""
    return Rule(
        model, field, f"{field} must be a relative path without ..",
        f"!has(self.{field}) || (!self.{field}.startsWith('/') && !self.{field}.contains('..'))" if in_cel else "",
        lambda value: not (text := getattr(value, attribute) or "").startswith("/") and ".." not in text,
    )  # fmt: skip


def _measures_its_trials(value: GPUJobSpec) -> bool:
    tries = value.placement is not None and (value.placement.probe or value.placement.exploration) is not None
    return not tries or value.preflight != "Disabled" or value.telemetry is not None


def _tolerates(value: Toleration) -> bool:
    return value.value is None or value.operator == "Equal"


def _right_architectures(value: GPURuntimeSpec) -> bool:
    gfx = [architecture.startswith("gfx") for architecture in value.architectures]
    return bool(gfx) and (all(gfx) if value.backend == "ROCm" else not any(gfx))


def _right_build(value: GPURuntimeSpec) -> bool:
    other = "+cu" if value.backend == "ROCm" else "+rocm"
    return other not in value.framework.version


def _values_fit(value: LabelRequirement) -> bool:
    return bool(value.values) == (value.operator in ("In", "NotIn"))


RULES: Final[tuple[Rule, ...]] = (
    _one_of(Volume, "a volume"),
    _one_of(EnvironmentSource, "valueFrom"),
    _one_of(EnvironmentFrom, "envFrom", optional=("prefix",)),
    _one_of(ProjectedSource, "a projected source"),
    _one_of(Code, "code"),
    _one_of(Price, "price"),
    Rule(
        EnvironmentVariable, "", "write value or valueFrom, not both", "!(has(self.value) && has(self.valueFrom))",
        lambda value: value.value is None or value.value_from is None,
    ),
    Rule(
        EnvironmentVariable, "name", "GPUJOB_* and PET_* are set by the operator; use another name",
        f"self.name == '{REPORT_OPTIMIZER}' || !self.name.startsWith('GPUJOB_') && !self.name.startsWith('PET_')", _reserved,
    ),
    Rule(
        EnvironmentVariable, "name", "NVIDIA_VISIBLE_DEVICES and AMD_VISIBLE_DEVICES are set by the device plugin, which gives the "
        "job its GPUs; remove the variable (CUDA_VISIBLE_DEVICES and HIP_VISIBLE_DEVICES choose among them)",
        "!(self.name.upperAscii() in ['" + "', '".join(DEVICE_LISTS) + "'])", _left_to_the_plugin,
    ),
    Rule(
        EnvironmentVariable, "value", "ROCR_VISIBLE_DEVICES takes numbers, all is none of them: "
        "the device plugin gives the job its GPUs; remove the variable",
        "self.name.upperAscii() != 'ROCR_VISIBLE_DEVICES' || !has(self.value) || !(self.value in ['all', 'All', 'ALL'])",
        _not_all,
    ),
    Rule(
        ResourceFieldReference, "divisor", "a divisor of cpu is 1 or 1m, one of sizes is no 1m",
        "!has(self.divisor) || self.divisor == '1' || (self.divisor == '1m') == self.resource.endsWith('.cpu')",
        lambda value: value.divisor in (None, "1") or (value.divisor == "1m") == value.resource.endswith(".cpu"),
    ),
    Rule(
        ClaimResources, "requests", "requests holds storage and its size alone",
        "has(self.requests) && self.requests.size() == 1 && 'storage' in self.requests",
        lambda value: set(value.requests) == {"storage"},
    ),
    Rule(
        ClaimSpec, "accessModes", "accessModes is empty, and no claim is made without one; write for example [ReadWriteOnce]",
        "has(self.accessModes) && size(self.accessModes) > 0", lambda value: bool(value.access_modes),
    ),
    Rule(
        GPUJobSpec, "command", "command begins with an empty word; write the program, or remove command to run the image's own",
        "!has(self.command) || size(self.command) == 0 || self.command[0] != ''",
        lambda value: not value.command or value.command[0] != "",
    ),
    Rule(
        Resources, "sharedMemory", "resources.sharedMemory counts in resources.memory and is larger; lower it or raise memory",
        "!has(self.sharedMemory) || !has(self.memory) || !isQuantity(string(self.sharedMemory)) || "
        "!isQuantity(string(self.memory)) || "
        "!quantity(string(self.sharedMemory)).isGreaterThan(quantity(string(self.memory)))", _shared_fits,
    ),
    _own_keys(PodMetadata, "labels"),
    _own_keys(PodMetadata, "annotations"),
    _own_keys(FabricSpec, "annotations"),
    _keys(FabricSpec, "annotations", forms.ANNOTATION_KEY),
    _keys(FabricSpec, "resources", forms.RESOURCE_NAME),
    _keys(NamespaceSelector, "matchLabels", forms.LABEL_KEY),
    Rule(
        FabricSpec, "resources", "fabric.resources are devices of the network; GPUs come with the pool",
        "!has(self.resources) || self.resources.all(k, !k.startsWith('nvidia.com/gpu') && !k.startsWith('nvidia.com/mig-') "
        "&& !k.startsWith('amd.com/gpu'))",
        lambda value: not any(key.startswith(("nvidia.com/gpu", "nvidia.com/mig-", "amd.com/gpu")) for key in value.resources),
    ),
    _keys(PodMetadata, "labels", forms.LABEL_KEY),
    _keys(PodMetadata, "annotations", forms.ANNOTATION_KEY),
    _keys(NodeSelector, "matchLabels", forms.LABEL_KEY),
    Rule(
        Images, "", "images needs cuda, rocm or both; remove it to use the catalog's images",
        "has(self.cuda) || has(self.rocm)", lambda value: value.cuda is not None or value.rocm is not None,
    ),
    Rule(
        VolumeMount, "mountPath", "mountPath must be absolute, without .. or a colon, written plainly (no //, no /./), "
        "and not below /gpujob, /opt/gpujob or /run/gpujob, which are the operator's",
        "self.mountPath.startsWith('/') && self.mountPath != '/' && !self.mountPath.contains(':') && "
        "!self.mountPath.contains('..') && !self.mountPath.contains('//') && !self.mountPath.contains('/./') && "
        f"!self.mountPath.matches('{_OURS.pattern}')", _free_path,
    ),
    _relative(VolumeMount, "sub_path", "subPath"),
    _relative(CodeClaim, "sub_path", "subPath"),
    # Volumes x projected sources x keys: 2.7 times the API server's budget.
    _relative(KeyToPath, "path", "path", in_cel=False),
    Rule(
        SecurityContext, "runAsNonRoot", "runAsNonRoot is true and runAsUser is 0; remove one of them",
        "!has(self.runAsNonRoot) || !has(self.runAsUser) || !self.runAsNonRoot || self.runAsUser != 0",
        lambda value: not (value.run_as_non_root and value.run_as_user == 0),
    ),
    Rule(
        Telemetry, "port", "29500 is the port of the rendezvous; use another one",
        "!has(self.port) || self.port != 29500", lambda value: value.port != 29500,
    ),
    _disjoint(AllowDenyAccelerators, "placement.accelerators"),
    _disjoint(AllowDenyPools, "placement.pools"),
    _range("version", ">=2.10,<2.15"),
    _range("python", ">=3.11 or ==3.12.*"),
    Rule(
        GPUJobSpec, "workingDir", "workingDir must be an absolute path",
        "!has(self.workingDir) || self.workingDir.startsWith('/')",
        lambda value: value.working_dir is None or value.working_dir.startswith("/"),
    ),
    Rule(
        GPUJobSpec, "volumeMounts", "a volumeMount names a volume that is not in volumes; add it or correct the name",
        "!has(self.volumeMounts) || "
        "self.volumeMounts.all(m, has(self.volumes) && self.volumes.exists(v, v.name == m.name))", _known_mounts,
    ),
    Rule(
        GPUJobSpec, "shapes", "shapes say nodes and gpusPerNode themselves; remove spec.nodes and spec.gpusPerNode, or shapes",
        "!has(self.shapes) || size(self.shapes) == 0 || (!has(self.nodes) && !has(self.gpusPerNode))",
        lambda value: not value.shapes or (value.nodes is None and value.gpus_per_node is None),
    ),
    Rule(
        GPUJobSpec, "gpuMemory", "gpuMemory and model both say what each GPU needs; remove one of them",
        "!has(self.gpuMemory) || !has(self.model)",
        lambda value: value.gpu_memory is None or value.model is None,
    ),
    Rule(
        GPUJobSpec, "placement", "placement.exploration compares with the runs of a profile; name one in spec.profile",
        "!has(self.placement) || !has(self.placement.exploration) || has(self.profile)",
        lambda value: value.placement is None or value.placement.exploration is None or value.profile is not None,
    ),
    Rule(
        GPUJobSpec, "preflight", "placement.probe and placement.exploration need what a run measures, and nothing is measured with "
        "preflight: Disabled alone; add telemetry: {}, or set another preflight",
        "!has(self.preflight) || self.preflight != 'Disabled' || has(self.telemetry) || !has(self.placement) || "
        "(!has(self.placement.probe) && !has(self.placement.exploration))", _measures_its_trials,
    ),
    Rule(
        Model, "", "model needs exactly one of name, parameters",
        "has(self.name) != has(self.parameters)",
        lambda value: (value.name is None) != (value.parameters is None),
    ),
    Rule(
        Model, "lora", "model.lora acts with method LoRA or QLoRA only; set the method, or remove it",
        "!has(self.lora) || (has(self.method) && self.method in ['LoRA', 'QLoRA'])",
        lambda value: value.lora is None or value.method in ("LoRA", "QLoRA"),
    ),
    Rule(
        Model, "inference", "model.inference acts with method Inference only; set the method, or remove it",
        "!has(self.inference) || (has(self.method) && self.method == 'Inference')",
        lambda value: value.inference is None or value.method == "Inference",
    ),
    Rule(
        Model, "method", "optimizer and gradientCheckpointing do nothing under Inference; remove them, or set another method",
        "!has(self.method) || self.method != 'Inference' || (!has(self.optimizer) && !has(self.gradientCheckpointing))",
        lambda value: value.method != "Inference"
        or (value.optimizer is None and value.gradient_checkpointing is None),
    ),
    Rule(
        GPUPoolSpec, "provision", "provision needs spec.accelerator: while no node is there, nothing else says what is added",
        "!has(self.provision) || has(self.accelerator)",
        lambda value: value.provision is None or value.accelerator is not None,
    ),
    Rule(
        GPUPoolSpec, "deviceMode", "deviceMode HostDevices needs spec.accelerator: no device plugin says what the nodes have",
        "!has(self.deviceMode) || self.deviceMode != 'HostDevices' || has(self.accelerator)",
        lambda value: value.device_mode != "HostDevices" or value.accelerator is not None,
    ),
    Rule(
        GPUPoolSpec, "resourceName", "resourceName does nothing under deviceMode HostDevices; remove it",
        "!has(self.resourceName) || !has(self.deviceMode) || self.deviceMode != 'HostDevices'",
        lambda value: value.resource_name is None or value.device_mode != "HostDevices",
    ),
    Rule(
        GPUPoolSpec, "gpusPerNode", "gpusPerNode acts with deviceMode HostDevices only; remove it, or set the mode",
        "!has(self.gpusPerNode) || (has(self.deviceMode) && self.deviceMode == 'HostDevices')",
        lambda value: value.gpus_per_node is None or value.device_mode == "HostDevices",
    ),
    Rule(
        NodeSelector, "", "nodeSelector needs matchLabels or matchExpressions; an empty one would claim every node",
        "(has(self.matchLabels) && size(self.matchLabels) > 0) || "
        "(has(self.matchExpressions) && size(self.matchExpressions) > 0)",
        lambda value: bool(value.match_labels or value.match_expressions),
    ),
    Rule(
        LabelRequirement, "values", "In and NotIn need values, Exists and DoesNotExist take none",
        "(has(self.values) && size(self.values) > 0) == (self.operator in ['In', 'NotIn'])", _values_fit,
    ),
    Rule(
        Toleration, "operator", "a toleration with a value needs operator: Equal; without a value any is tolerated",
        "!has(self.value) || (has(self.operator) && self.operator == 'Equal')", _tolerates,
    ),
    Rule(
        GPURuntimeSpec, "architectures", "architectures must be gfx names for ROCm, compute capabilities for CUDA, at least one",
        "size(self.architectures) > 0 && self.architectures.all(a, a.startsWith('gfx') == (self.backend == 'ROCm'))",
        _right_architectures,
    ),
    Rule(
        GPURuntimeSpec, "framework", "framework.version is a build for the other backend (+cu on ROCm, +rocm on CUDA)",
        "!self.framework.version.contains(self.backend == 'ROCm' ? '+cu' : '+rocm')", _right_build,
    ),
    Rule(
        GPURuntimeSpec, "driverWindow", "driverWindow is of the amdgpu module, for ROCm only; write minDriver",
        "!has(self.driverWindow) || self.backend == 'ROCm'",
        lambda value: value.driver_window is None or value.backend == "ROCm",
    ),
)  # fmt: skip


def immutability(model: type[BaseModel]) -> Iterator[dict[str, str]]:
    """For GPUJob: every spec field but suspend stays as it is while a child Job exists (root rules see the status)."""
    if model is not GPUJob:
        return
    for name, info in GPUJobSpec.model_fields.items():
        field = info.alias or name
        if field == "suspend":
            continue
        same = f"has(self.spec.{field}) == has(oldSelf.spec.{field})"
        same += f" && (!has(self.spec.{field}) || self.spec.{field} == oldSelf.spec.{field})"
        yield {
            "rule": f"!has(oldSelf.status) || !has(oldSelf.status.jobName) || ({same})",
            "fieldPath": f".spec.{field}",
            "messageExpression": f"'spec.{field} cannot change while the child Job ' + oldSelf.status.jobName"
            " + ' exists; create a new GPUJob, or set suspend first'",
        }


def broken(model: BaseModel, path: str = "") -> Iterator[tuple[str, str]]:
    """Path and sentence of every rule that a model or a part of it breaks, and of every entry that is given twice."""
    for rule in RULES:
        if isinstance(model, rule.model) and not rule.holds(model):
            yield ".".join(filter(None, (path, rule.field))), rule.message
    for name, info in type(model).model_fields.items():
        value = getattr(model, name)
        inner = f"{path}.{info.alias or name}" if path else (info.alias or name)
        if isinstance(value, tuple):
            yield from _repeated(value, info, inner)
        for index, part in enumerate(value if isinstance(value, tuple) else (value,)):
            if isinstance(part, BaseModel):
                yield from broken(part, f"{inner}[{index}]" if isinstance(value, tuple) else inner)


def _repeated(entries: tuple[Any, ...], info: FieldInfo, path: str) -> Iterator[tuple[str, str]]:
    """Entries of a set or of a keyed list that are given twice; the API server's own words for it name no remedy."""
    extra = info.json_schema_extra if isinstance(info.json_schema_extra, dict) else {}
    keys = extra.get("x-kubernetes-list-map-keys")
    if not isinstance(keys, list) and extra.get("x-kubernetes-list-type") != "set":
        return
    seen: set[Any] = set()
    for index, entry in enumerate(entries):
        word = entry
        if isinstance(keys, list):
            word = " ".join(str(getattr(entry, _attribute(type(entry), str(key)))) for key in keys)
        if word in seen:
            yield f"{path}[{index}]", f"{word} is given twice; remove one"
        seen.add(word)
