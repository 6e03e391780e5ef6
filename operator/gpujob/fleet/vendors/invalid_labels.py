"""Labels with an unreadable figure: the default is used, and the pool warns.

Otherwise a labeller's -5 or NaN would look like an absent label. Called for each resource of a node, after its other labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from gpujob.fleet.kubernetes.objects import Labels
from gpujob.fleet.labels.cloud import MACHINE_COUNTS, MACHINE_SIZES
from gpujob.fleet.labels.facts import DeviceFacts
from gpujob.fleet.vendors.amd_labels import PREFIXES, vram_bytes
from gpujob.values.finding import Finding
from gpujob.values.untrusted import one_line, whole_number
from gpujob.values.vocabulary import DeviceKind, Reason, Vendor

_COUNTS: Final = (*MACHINE_COUNTS, "cloud.google.com/gke-max-shared-clients-per-gpu")
_NVIDIA_COUNTS: Final = ("count", "replicas", "compute.major", "compute.minor")


def unreadable(labels: Labels, facts: DeviceFacts, resource: str) -> tuple[Finding, ...]:
    """A warning for each label of these devices that should be a whole number (a memory above 0) and is not."""
    own = _of_nvidia(labels, facts, resource) if facts.vendor is Vendor.NVIDIA else _of_amd(labels)
    keys = [*own, *_no_numbers(labels, _COUNTS), *_no_numbers(labels, MACHINE_SIZES, least=1)]
    return tuple(_warning(key, labels[key]) for key in keys)


def _of_nvidia(labels: Labels, facts: DeviceFacts, resource: str) -> Iterator[str]:
    prefix = resource if resource.startswith("nvidia.com/mig-") else "nvidia.com/gpu"
    yield from _no_numbers(labels, (f"{prefix}.{word}" for word in _NVIDIA_COUNTS))
    # GPU Feature Discovery writes 0 for a device without memory of its own.
    integrated = facts.portion.kind is DeviceKind.INTEGRATED
    yield from _no_numbers(labels, (f"{prefix}.memory",), least=0 if integrated else 1)


def _of_amd(labels: Labels) -> Iterator[str]:
    for prefix in PREFIXES:
        if labels.get(f"{prefix}vram") and vram_bytes(labels[f"{prefix}vram"]) is None:
            yield f"{prefix}vram"
        yield from _no_numbers(labels, (f"{prefix}cu-count",))
        # The counting form, amd.com/gpu.vram.192G=4.
        counting = sorted(key for key in labels if key.startswith(prefix) and "." in key[len(prefix) :])
        yield from _no_numbers(labels, counting)


def _no_numbers(labels: Labels, keys: Iterable[str], least: int = 0) -> Iterator[str]:
    for key in keys:
        number = whole_number(labels[key]) if key in labels else least
        if number is None or number < least:
            yield key


def _warning(key: str, text: str) -> Finding:
    sentence = "label {} is {}, which is no figure that can be; it is not used"
    return Finding(Reason.LABEL_UNREADABLE, sentence, (key[:128], f'"{one_line(text[:32])}"'))
