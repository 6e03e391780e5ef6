"""The rules about pods in a manifest: volumes, variables, metadata, security."""

from __future__ import annotations

import re
from typing import Final

from gpujob.api.fields import patterns
from gpujob.api.kinds.pods import (
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
from gpujob.api.validation.rule import CONTROL, CONTROL_IN_CEL, Rule, keys, of_each_key, one_of, own_keys, relative_path
from gpujob.values.vocabulary import REPORT_OPTIMIZER

OPERATORS_VARIABLES: Final = ("GPUJOB_", "PET_")
"""How the variables begin that the operator sets."""


def _reserved(value: EnvironmentVariable) -> bool:
    return value.name == REPORT_OPTIMIZER or not value.name.startswith(OPERATORS_VARIABLES)


DEVICE_LISTS: Final = ("NVIDIA_VISIBLE_DEVICES", "AMD_VISIBLE_DEVICES")
"""Variables by which a container runtime assigns devices: with them a pod could use those of other pods."""


def _no_device_list(value: EnvironmentFrom) -> bool:
    prefix = (value.prefix or "").upper()
    return not prefix or not any(name.startswith(prefix) for name in DEVICE_LISTS)


def _none_of_ours(value: EnvironmentFrom) -> bool:
    prefix = value.prefix or ""
    return not prefix or not any(
        prefix.startswith(begins) or begins.startswith(prefix) for begins in OPERATORS_VARIABLES
    )


NO_NUL: Final = "has the character NUL, which no program can be given; take it out"

_OURS: Final = re.compile("^(/opt|(/var)?/run)?/gpujob(/|$)")
"""/var/run is a link to /run in most images."""


def is_free_path(path: str) -> bool:
    """Whether a volume can be mounted at the path: absolute, written plainly, and not the operator's."""
    # What is not written plainly could name /gpujob all the same: //gpujob, /./gpujob.
    plain = path.startswith("/") and path != "/" and not any(part in f"{path}/" for part in (":", "/../", "/./"))
    return plain and "//" not in path and CONTROL.search(path) is None and not _OURS.match(path)


def free_path(path: str) -> str:
    """The same in CEL; `path` is the expression of the path."""
    return (
        f"{path}.startsWith('/') && {path} != '/' && !{path}.contains(':') && !({path} + '/').contains('/../') && "
        f"!{path}.contains('//') && !({path} + '/').contains('/./') && "
        f"!{path}.matches('{CONTROL_IN_CEL}|{_OURS.pattern}')"
    )


_OF_RUNTIME: Final = re.compile("^([^/]*[.])?nri[.]io/|^io[.]kubernetes[.]cri-o[./]")
"""https://github.com/containerd/nri/tree/main/plugins/device-injector and CRI-O's allowed annotations: a plugin or a runtime handler
that an admin installs for some pods gives devices of the node by them.
"""

_KERNELS: Final = re.compile("^/(proc|sys|dev)(/|$)")
_SHARED_MEMORY: Final = re.compile("^/dev/shm(/|$)")


def is_kernels_path(path: str) -> bool:
    """Whether a path is at or below /proc, /sys or /dev; it is written plainly."""
    return _KERNELS.match(path) is not None


def kernels_path(path: str) -> str:
    """The same in CEL; `path` is the expression of the path."""
    return f"{path}.matches('{_KERNELS.pattern}')"


FREE_PATH: Final = (
    "must be absolute, without a part .. or a colon, written plainly (no //, no /., no control character), "
    "and not below /gpujob, /opt/gpujob or /run/gpujob, which are the operator's"
)

RULES: Final[tuple[Rule, ...]] = (
    one_of(Volume, "a volume"),
    one_of(EnvironmentSource, "valueFrom"),
    one_of(EnvironmentFrom, "envFrom", optional=("prefix",)),
    one_of(ProjectedSource, "a projected source"),
    Rule(EnvironmentVariable, "", "write value or valueFrom, not both", "!(has(self.value) && has(self.valueFrom))",
         lambda value: value.value is None or value.value_from is None),
    # As CEL it would cost the API server too much.
    Rule(EnvironmentVariable, "value", f"the value {NO_NUL}", "", lambda value: value.value is None or "\0" not in value.value),
    Rule(EnvironmentVariable, "name", "GPUJOB_* and PET_* are set by the operator; use another name",
         f"self.name == '{REPORT_OPTIMIZER}' || !self.name.startsWith('GPUJOB_') && !self.name.startsWith('PET_')", _reserved),
    Rule(EnvironmentVariable, "name", "NVIDIA_VISIBLE_DEVICES and AMD_VISIBLE_DEVICES are set by the device plugin, which gives the "
         "job its GPUs; remove the variable (CUDA_VISIBLE_DEVICES and HIP_VISIBLE_DEVICES choose among them)",
         "!(self.name.upperAscii() in ['" + "', '".join(DEVICE_LISTS) + "'])",
         lambda value: value.name.upper() not in DEVICE_LISTS),
    Rule(EnvironmentFrom, "prefix", "with this prefix a key could be NVIDIA_VISIBLE_DEVICES or AMD_VISIBLE_DEVICES, which are set by "
         "the device plugin; use another prefix",
         "!has(self.prefix) || self.prefix == '' || "
         + " && ".join(f"!'{name}'.startsWith(self.prefix.upperAscii())" for name in DEVICE_LISTS), _no_device_list),
    Rule(EnvironmentFrom, "prefix", "with this prefix a key could be GPUJOB_* or PET_*, which are set by the operator; use another "
         "prefix",
         "!has(self.prefix) || self.prefix == '' || "
         + " && ".join(
             f"!self.prefix.startsWith('{begins}') && !'{begins}'.startsWith(self.prefix)" for begins in OPERATORS_VARIABLES
         ), _none_of_ours),
    Rule(EnvironmentVariable, "value", "ROCR_VISIBLE_DEVICES takes numbers, all is none of them: "
         "the device plugin gives the job its GPUs; remove the variable",
         "self.name.upperAscii() != 'ROCR_VISIBLE_DEVICES' || !has(self.value) || !(self.value in ['all', 'All', 'ALL'])",
         lambda value: value.name.upper() != "ROCR_VISIBLE_DEVICES" or value.value not in ("all", "All", "ALL")),
    Rule(ResourceFieldReference, "divisor", "a divisor of cpu is 1 or 1m, one of sizes is no 1m",
         "!has(self.divisor) || self.divisor == '1' || (self.divisor == '1m') == self.resource.endsWith('.cpu')",
         lambda value: value.divisor in (None, "1") or (value.divisor == "1m") == value.resource.endswith(".cpu")),
    Rule(ClaimResources, "requests", "requests holds storage and its size alone",
         "has(self.requests) && self.requests.size() == 1 && 'storage' in self.requests",
         lambda value: set(value.requests) == {"storage"}),
    Rule(ClaimSpec, "accessModes", "accessModes is empty, and no claim is made without one; write for example [ReadWriteOnce]",
         "has(self.accessModes) && size(self.accessModes) > 0", lambda value: bool(value.access_modes)),
    own_keys(PodMetadata, "labels"),
    own_keys(PodMetadata, "annotations"),
    of_each_key(PodMetadata, "annotations", "is an annotation by which a node's container runtime assigns devices (nri.io/, "
                "io.kubernetes.cri-o); the device plugin gives the job its GPUs; remove it",
                f"k.matches('{_OF_RUNTIME.pattern}')", lambda key: _OF_RUNTIME.search(key) is not None),
    keys(PodMetadata, "labels", patterns.LABEL_KEY),
    keys(PodMetadata, "annotations", patterns.ANNOTATION_KEY),
    Rule(VolumeMount, "mountPath", f"mountPath {FREE_PATH}", free_path("self.mountPath"),
         lambda value: is_free_path(value.mount_path)),
    Rule(VolumeMount, "mountPath", "a volume at or below /proc, /sys or /dev would hide what the kernel and the device plugin put "
         "there; mount it elsewhere, for example at /data (/dev/shm can be one)",
         f"!{kernels_path('self.mountPath')} || self.mountPath.matches('{_SHARED_MEMORY.pattern}')",
         lambda value: not is_kernels_path(value.mount_path) or _SHARED_MEMORY.match(value.mount_path) is not None),
    relative_path(VolumeMount, "subPath"),
    # A CEL rule takes 2.7 times the API server's budget: patterns.RELATIVE_PATH. The kubelet keeps names that begin with .. for itself.
    Rule(KeyToPath, "path", "path must be a relative path that does not begin with .., without a part .. or a control character", "",
         lambda value: not value.path.startswith(("/", "..")) and ".." not in value.path.split("/")
         and CONTROL.search(value.path) is None),
    Rule(SecurityContext, "runAsNonRoot", "runAsNonRoot is true and runAsUser is 0; remove one of them",
         "!has(self.runAsNonRoot) || !has(self.runAsUser) || !self.runAsNonRoot || self.runAsUser != 0",
         lambda value: not (value.run_as_non_root and value.run_as_user == 0)),
)  # fmt: skip
