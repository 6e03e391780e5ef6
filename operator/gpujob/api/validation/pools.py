"""The rules of GPUPool."""

from __future__ import annotations

from typing import Final

from gpujob.api.fields import patterns
from gpujob.api.kinds.gpupool import (
    FabricSpec,
    GPUPoolSpec,
    LabelRequirement,
    NamespaceSelector,
    NodeSelector,
    Price,
    Toleration,
)
from gpujob.api.validation import pods
from gpujob.api.validation.rule import Rule, keys, of_each_key, one_of, own_keys
from gpujob.values.vocabulary import Label

_OF_ADMINS: Final = (
    "price", "memoryPerGPU", "supplementalGroups", "runtimeClassName", "tolerations", "env", "deviceMode", "gpusPerNode",
    "fabric", "namespaceSelector", "provision",
)  # fmt: skip
"""Members of a spec that only an admin writes."""


def _is_as_found(value: GPUPoolSpec) -> bool:
    """Whether a discovered pool's spec contains only the operator's members."""
    written = {
        field.alias or name for name, field in GPUPoolSpec.model_fields.items() if name in value.model_fields_set
    }
    return Label.DISCOVERED_POOL not in value.node_selector.match_labels or not written & {*_OF_ADMINS}


_OWN: Final[tuple[Rule, ...]] = (
    one_of(Price, "price"),
    own_keys(FabricSpec, "annotations"),
    keys(FabricSpec, "annotations", patterns.ANNOTATION_KEY),
    keys(FabricSpec, "resources", patterns.RESOURCE_NAME),
    keys(NamespaceSelector, "matchLabels", patterns.LABEL_KEY),
    of_each_key(FabricSpec, "resources", "is a resource of GPUs, which come with the pool; fabric.resources are devices of the "
                "network; remove it",
                "k.startsWith('nvidia.com/gpu') || k.startsWith('nvidia.com/mig-') || k.startsWith('amd.com/gpu')",
                lambda key: key.startswith(("nvidia.com/gpu", "nvidia.com/mig-", "amd.com/gpu"))),
    keys(NodeSelector, "matchLabels", patterns.LABEL_KEY),
    Rule(GPUPoolSpec, "deviceMode", "deviceMode HostDevices needs spec.accelerator: no device plugin reports the devices",
         "!has(self.deviceMode) || self.deviceMode != 'HostDevices' || has(self.accelerator)",
         lambda value: value.device_mode != "HostDevices" or value.accelerator is not None),
    Rule(GPUPoolSpec, "resourceName", "resourceName does nothing under deviceMode HostDevices; remove it",
         "!has(self.resourceName) || !has(self.deviceMode) || self.deviceMode != 'HostDevices'",
         lambda value: value.resource_name is None or value.device_mode != "HostDevices"),
    Rule(GPUPoolSpec, "gpusPerNode", "gpusPerNode acts with deviceMode HostDevices only; remove it, or set the mode",
         "!has(self.gpusPerNode) || (has(self.deviceMode) && self.deviceMode == 'HostDevices')",
         lambda value: value.gpus_per_node is None or value.device_mode == "HostDevices"),
    Rule(GPUPoolSpec, "", "the operator found this GPUPool on the nodes and reads nothing else that is written here; to set a price, "
         "tolerations or groups replace nodeSelector by labels of the nodes and remove the label gpujob.dev/discovered",
         f"!has(self.nodeSelector.matchLabels) || !('{Label.DISCOVERED_POOL}' in self.nodeSelector.matchLabels) || ("
         + " && ".join(f"!has(self.{field})" for field in _OF_ADMINS) + ")", _is_as_found),
    Rule(NodeSelector, "", "nodeSelector needs matchLabels or matchExpressions; an empty one would claim every node",
         "(has(self.matchLabels) && size(self.matchLabels) > 0) || "
         "(has(self.matchExpressions) && size(self.matchExpressions) > 0)",
         lambda value: bool(value.match_labels or value.match_expressions)),
    Rule(LabelRequirement, "values", "In and NotIn need values, Exists and DoesNotExist take none",
         "(has(self.values) && size(self.values) > 0) == (self.operator in ['In', 'NotIn'])",
         lambda value: bool(value.values) == (value.operator in ("In", "NotIn"))),
    Rule(Toleration, "operator", "a toleration with a value needs operator: Equal; without a value any is tolerated",
         "!has(self.value) || (has(self.operator) && self.operator == 'Equal')",
         lambda value: value.value is None or value.operator == "Equal"),
)  # fmt: skip

RULES: Final = (*pods.RULES, *_OWN)
"""All rules that a GPUPool must keep."""
