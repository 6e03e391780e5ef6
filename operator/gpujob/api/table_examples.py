"""What to write where a table of keys and values is due and something else stands, or a table where a list is due: examples."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from gpujob.values.untrusted import one_line


class _Example(NamedTuple):
    """The members of a table, with `{}` for a value, and the value where the given one does not fit there."""

    members: str
    default: str = ""
    takes: type = str
    """What of the given values fits: a text or a whole number."""


_KEY = _Example("name: {}, key: token", "tokens")
_LABELS = _Example("team: vision")
_FILE = _Example("name: {}", "files")
_OWN_IMAGE = _Example("image: {}", "registry.example.com/team/train:1")
_IMAGE = _Example("reference: {}", "registry.example.com/team/data:1")
_REFERENCE = _Example("name: {}", "settings")

EXAMPLES: Final[dict[str, _Example]] = {
    "metadata": _Example("name: {}", "train"),
    "labels": _LABELS,
    "annotations": _Example("example.com/owner: vision"),
    "matchLabels": _Example("rack: lab"),
    "GPUJob.spec": _Example("command: [python3, train.py]"),
    "GPUPool.spec": _Example("nodeSelector: {matchLabels: {rack: lab}}"),
    "GPURuntime.spec": _Example(
        'image: registry.example.com/team/train:1, backend: CUDA, backendVersion: "13.0", '
        'framework: {name: pytorch, version: "2.14.1"}, architectures: ["9.0"]'
    ),
    "env[]": _Example("name: {}, value: info", "NCCL_DEBUG"),
    "valueFrom": _Example("secretKeyRef: {name: tokens, key: token}"),
    "configMapKeyRef": _KEY,
    "secretKeyRef": _KEY,
    "fieldRef": _Example("fieldPath: metadata.name"),
    "resourceFieldRef": _Example("resource: limits.cpu"),
    "envFrom[]": _Example("configMapRef: {{name: {}}}", "settings"),
    "configMapRef": _REFERENCE,
    "secretRef": _REFERENCE,
    "envByBackend": _Example("rocm: [{name: NCCL_DEBUG, value: info}]"),
    "envByBackend.cuda[]": _Example("name: {}, value: info", "NCCL_DEBUG"),
    "envByBackend.rocm[]": _Example("name: {}, value: info", "NCCL_DEBUG"),
    "volumes[]": _Example("name: {0}, persistentVolumeClaim: {{claimName: {0}}}", "data"),
    "persistentVolumeClaim": _Example("claimName: {}", "data"),
    "volumes[].configMap": _FILE,
    "secret": _Example("secretName: {}", "keys"),
    "items[]": _Example("key: {0}, path: {0}", "settings.yaml"),
    "emptyDir": _Example("sizeLimit: 10Gi"),
    "ephemeral": _Example(
        "volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 100Gi}}}}"
    ),
    "volumeClaimTemplate": _Example("spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 100Gi}}}"),
    "volumeClaimTemplate.spec": _Example("accessModes: [ReadWriteOnce], resources: {requests: {storage: 100Gi}}"),
    "volumeClaimTemplate.spec.resources": _Example("requests: {storage: 100Gi}"),
    "requests": _Example("storage: 100Gi"),
    "csi": _Example("driver: {}", "csi.example.com"),
    "volumeAttributes": _Example("bucket: data"),
    "nodePublishSecretRef": _REFERENCE,
    "projected": _Example("sources: [{configMap: {name: settings}}]"),
    "sources[]": _Example("configMap: {{name: {}}}", "settings"),
    "sources[].configMap": _FILE,
    "sources[].secret": _FILE,
    "image": _IMAGE,
    "volumeMounts[]": _Example("name: {}, mountPath: /data", "data"),
    "code": _Example("configMap: {{name: {}}}", "train-code"),
    "code.configMap": _Example("name: {}", "train-code"),
    "framework": _Example("name: {}", "pytorch"),
    "GPURuntime.spec.framework": _Example('name: {}, version: "2.14.1"', "pytorch"),
    "images": _Example("cuda: {{image: {}}}", "registry.example.com/team/train:1"),
    "images.cuda": _OWN_IMAGE,
    "images.rocm": _OWN_IMAGE,
    "shapes[]": _Example("accelerator: {}, gpusPerNode: 4", "H100"),
    "model": _Example("name: {}", "llama-3.1-8b"),
    "lora": _Example("rank: {}", "16", int),
    "inference": _Example("concurrency: {}", "64", int),
    "shape": _Example("layers: {}, hidden: 4096, heads: 32", "32", int),
    "GPUJob.spec.resources": _Example('cpu: "16", memory: 128Gi'),
    "placement": _Example("accelerators: {{allow: [{}]}}", "H100"),
    "accelerators": _Example("allow: [{}]", "H100"),
    "pools": _Example("allow: [{}]", "h100-sxm-ondemand"),
    "probe": _Example("steps: {}", "50", int),
    "retries": _Example("user: {}, infrastructure: 5", "1", int),
    "checkpoint": _Example("volume: data, path: /data/checkpoints"),
    "stall": _Example("afterSeconds: 900"),
    "imagePullSecrets[]": _Example("name: {}", "registry"),
    "securityContext": _Example("runAsUser: {}", "1000", int),
    "podMetadata": _Example("labels: {team: vision}"),
    "telemetry": _Example("port: 9477"),
    "nodeSelector": _Example("matchLabels: {rack: lab}"),
    "matchExpressions[]": _Example("key: {}, operator: Exists", "rack"),
    "price": _Example('perGPUHour: "1.20"'),
    "ownership": _Example('gpuPurchase: "15000", years: "4"'),
    "tolerations[]": _Example("key: {}, operator: Exists", "team"),
    "fabric": _Example('resources: {rdma/hca: "1"}'),
    "fabric.resources": _Example('rdma/hca: "1"'),
    "namespaceSelector": _Example("matchLabels: {team: vision}"),
    "provision": _Example("maxNodes: {}", "4", int),
    "taints[]": _Example("key: {}, effect: NoSchedule", "team"),
    "driverWindow": _Example('min: "6.10"'),
}
"""By the end of a field's path, behind which the longest end counts; entries of a list end with []."""

_GANG: Final = re.compile("([1-9][0-9]{0,2}) ?[x×] ?([1-9][0-9]?)", re.IGNORECASE)
"""A gang as plans show it: 2x8, nodes x GPUs of each."""

_PLAIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]{0,62}")


def table_example(kind: str, path: Sequence[str | int], given: Any) -> str:
    """What to write in place of a value that is no table, in YAML; empty if the field is unknown. `kind` is that of the document."""
    names = [kind]
    for part in path:
        if isinstance(part, int):
            names[-1] += "[]"
        else:
            names.append(part)
    ends = (".".join(names[first:]) for first in range(len(names)))
    example = next((EXAMPLES[end] for end in ends if end in EXAMPLES), None)
    if example is None:
        return ""
    if names[-1] == "shapes[]" and isinstance(given, str) and (gang := _GANG.fullmatch(given.strip())):
        return f"- {{nodes: {gang[1]}, gpusPerNode: {gang[2]}}}"
    members = example.members.format(_value(example, given)) if example.default else example.members
    start = "- " if isinstance(path[-1], int) else f"{path[-1]}: "
    return f"{start}{{{members}}}"


def _value(example: _Example, given: Any) -> str:
    """The given value if it can stand in the example, else the example's own."""
    if example.takes is int:
        fits = isinstance(given, int) and not isinstance(given, bool) and 0 < given < 1_000_000
        return str(given) if fits else example.default
    if not isinstance(given, str) or not _PLAIN.fullmatch(given):
        return example.default
    return given if given[0].isalpha() and ":" not in given.rstrip(":") else json.dumps(given)


def is_variable(path: Sequence[Any]) -> bool:
    """Whether the path is of an entry of a list of environment variables."""
    return len(path) > 1 and (path[-2] == "env" or (len(path) > 2 and path[-3] == "envByBackend"))


def list_example(given: Mapping[Any, Any], path: Sequence[Any]) -> str:
    """The first entry of a list that was written as a table."""
    key, value = next(iter(given.items()), ("NAME", "value"))
    word = one_line(str(key)[:40])
    if isinstance(value, Mapping):
        inner = ", ".join(_member(path, one_line(str(name)[:40]), each) for name, each in [*value.items()][:3])
        named = is_variable((*path, 0)) or path[-1] == "volumes"
        return f"- {{name: {word}, {inner}}}" if named else f"- {word}: {{{inner}}}"
    if is_variable((*path, 0)):
        return f"- {{name: {word}, value: {json.dumps(shown(value)[:40])}}}"
    return f"- {word}: {_flow(value)[:40]}"


def _member(path: Sequence[Any], name: str, value: Any) -> str:
    """A member of an entry in YAML; a bare word in place of a table becomes the table."""
    return (isinstance(value, str) and table_example("GPUJob", (*path, 0, name), value)) or f"{name}: {_flow(value)}"


def _flow(value: Any) -> str:
    """A value in YAML on one line; of a table or list its first entry."""
    if isinstance(value, Mapping) and value:
        name, first = next(iter(value.items()))
        return f"{{{one_line(str(name)[:40])}: {'…' if isinstance(first, (Mapping, list)) else shown(first)}}}"
    return f"[{shown(value[0])}]" if isinstance(value, list) and value else shown(value)


def shown(value: Any) -> str:
    """A value in YAML's form, cut to a line's length; never raises."""
    if value is None or isinstance(value, bool):
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, Mapping):
        return "a table"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, int) and value.bit_length() > 64:
        return "a number of more than 64 bits"
    return one_line(str(value)[:60]) if isinstance(value, (str, int, float)) else type(value).__name__
