"""What agents report about a node's health: why it accepts no pod now, why it ranks last, and when maintenance is planned.

Their signals last minutes longer than the state, while the device plugin still offers the devices. A pending driver upgrade counts
too, because it ends whatever starts before it. The table is in `health.signals`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from gpujob.fleet.health.signals import LABELS, STUCK, Effect, Fact, Signal, Where, is_listed, signal_of
from gpujob.fleet.kubernetes.objects import Labels, Node, Taint
from gpujob.values.finding import Finding
from gpujob.values.untrusted import one_line
from gpujob.values.vocabulary import Reason, Vendor

OF_MACHINES: Final[Mapping[Vendor, re.Pattern[str]]] = {
    Vendor.NVIDIA: re.compile(r"nvidia\.com/(?:pgpu|(?:NVIDIA|GRID)_.{1,64}|[A-Z]{2}[0-9]{3}[A-Z]*_.{1,64})"),
    Vendor.AMD: re.compile(r"amd\.com/gpu_[vp]f"),
}
"""Names of devices for virtual machines: by the PCI id's name (GA102GL_A10), the vGPU type (NVIDIA_A40-8Q), pgpu (NVIDIA
kubevirt-gpu-device-plugin and sandbox-device-plugin, 2025), gpu_vf and gpu_pf (AMD k8s-device-plugin 1.31).
"""

GKE_TIME: Final = "cloud.google.com/scheduled-maintenance-time"
_SECONDS: Final = re.compile(r"[1-3][0-9]{9}", re.ASCII)
"""A time between 2001 and 2096."""

_NUMBER: Final = re.compile(r"[0-9]{1,10}", re.ASCII)

_OF_EFFECT: Final[Mapping[tuple[Vendor, Effect], Sequence[Signal]]] = {
    (vendor, effect): tuple(signal for signal in signals if signal.effect is effect)
    for vendor, signals in LABELS.items()
    for effect in Effect
}

Tolerated = tuple[tuple[str, str | None, str | None], ...]
"""Taints that an admin's pool tolerates: key (empty: any), value (None: any), effect (None: any)."""


def away(node: Node, vendor: Vendor, tolerated: Tolerated = ()) -> Finding | None:
    """Why the vendor's devices on a node accept no pod for now, whatever the node offers; None without a signal."""
    if node.leaving:
        return Finding(Reason.NOT_READY, "node {} is being deleted", (node.name,))
    if not node.ready:
        return Finding(Reason.NOT_READY, "node {} is not Ready", (node.name,))
    if node.cordoned:
        return Finding(Reason.CORDONED, "node {} is cordoned", (node.name,))
    hard = (taint for taint in node.taints if taint.effect != "PreferNoSchedule" and is_passing(taint, tolerated))
    for taint in hard:
        return Finding(Reason.NOT_READY, "node {} has taint {}", (node.name, taint))
    why = next((what for _, what in _signals(node, vendor, Effect.WAIT)), None) or of_machines(node, vendor)
    return Finding(Reason.NOT_READY, "node {}: {}", (node.name, why)) if why else None


def suspected(node: Node, vendor: Vendor) -> Finding | None:
    """Why a node ranks last although nothing keeps pods away; None without a signal."""
    soft = (str(taint) for taint in node.taints if taint.effect == "PreferNoSchedule" and _is_of_health(taint))
    what = next(soft, None)
    why = f"taint {what}" if what else next((what for _, what in _signals(node, vendor, Effect.LAST)), node.suspicion)
    if not why:
        return None
    return Finding(Reason.NODE_DOUBTED, "node {}: {}; pods may fail or be slow there", (node.name, why))


def planned(node: Node, vendor: Vendor) -> Finding | None:
    """The announced maintenance of a node that stays schedulable; None without a signal."""
    why = next((what for _, what in _signals(node, vendor, Effect.PLANNED)), None)
    if why is None:
        return None
    sentence = "node {}: maintenance is planned{} ({})"
    begins = planned_at(node.labels)
    when = "" if begins is None else f" for {datetime.fromtimestamp(begins, UTC):%Y-%m-%d %H:%M} UTC"
    return Finding(Reason.MAINTENANCE_PLANNED, sentence, (node.name, when, why))


def planned_at(labels: Labels) -> int | None:
    """When the maintenance begins that GKE announces, in seconds since 1970; None if no time is known."""
    written = labels.get(GKE_TIME, "")
    return int(written) if _SECONDS.fullmatch(written) else None


def as_of(node: Node, now: datetime) -> Node:
    """The node without the announcement of maintenance whose time is past: GKE says with another label that it is under way."""
    written = node.labels.get(GKE_TIME, "")
    if not _NUMBER.fullmatch(written) or int(written) > now.timestamp():
        return node
    return replace(node, labels={key: value for key, value in node.labels.items() if key != GKE_TIME})


def changing(node: Node, vendor: Vendor) -> dict[Fact, str]:
    """The facts of the vendor's devices that an agent is changing, with the signal: what the labels show of them ends with it."""
    found = {
        signal.changes: f"{key} is {one_line(value[:32])}"
        for signal, key, value in _labelled(node.labels, LABELS[vendor])
        if signal.changes is not None and value.lower() not in STUCK
    }
    for taint in node.taints:
        signal = signal_of(Where.TAINT, taint.key)
        if signal is not None and signal.changes is not None and signal.vendor is vendor:
            found.setdefault(signal.changes, f"taint {taint}")
    return found


def is_passing(taint: Taint, tolerated: Tolerated = ()) -> bool:
    """Whether a taint is a temporary state of the node. A taint that is matched by its words only is not, if an admin tolerates it."""
    signal = signal_of(Where.TAINT, taint.key)
    if signal is None or is_listed(signal):
        return signal is not None
    return not is_tolerated(taint, tolerated)


def is_tolerated(taint: Taint, tolerated: Tolerated) -> bool:
    """Whether one of these tolerations is for the taint."""
    return any(
        key in ("", taint.key) and value in (None, taint.value) and effect in (None, taint.effect)
        for key, value, effect in tolerated
    )


def _is_of_health(taint: Taint) -> bool:
    """Whether a taint reports a fault, in contrast to an autoscaler's candidate for removal."""
    signal = signal_of(Where.TAINT, taint.key)
    return signal is not None and signal.source not in ("Autoscaler", "Karpenter")


def _signals(node: Node, vendor: Vendor, effect: Effect) -> Iterator[tuple[Signal, str]]:
    """The signals of one effect on a node, each with its message."""
    for signal, key, value in _labelled(node.labels, _OF_EFFECT[vendor, effect]):
        yield signal, f"{key} is {one_line(value[:32])}"
    for condition in node.conditions:
        found = signal_of(Where.CONDITION, condition.type)
        if found is not None and found.effect is effect and found.vendor in (None, vendor):
            why = f" ({condition.reason})" if condition.reason else ""
            yield found, f"condition {condition.type} is {condition.status}{why}"


def _labelled(labels: Labels, signals: Iterable[Signal]) -> Iterator[tuple[Signal, str, str]]:
    for signal in signals:
        keys = _beginning(labels, signal.key[:-1]) if signal.key.endswith("*") else (signal.key,)
        for key in keys:
            value = labels.get(key, "")
            if value and signal.reports_trouble(value):
                yield signal, key, value


def _beginning(labels: Labels, start: str) -> list[str]:
    return sorted(key for key in labels if key.startswith(start))


def of_machines(node: Node, *vendors: Vendor) -> str:
    """That a node passes its GPUs of these vendors to virtual machines, with the name of their resource; empty if it does not."""
    if any(node.devices.values()):
        return ""
    found = min(
        (
            name
            for name, count in node.others.items()
            if count and any(OF_MACHINES[vendor].fullmatch(name) for vendor in vendors)
        ),
        default="",
    )
    return f"its GPUs are for virtual machines ({one_line(found)})" if found else ""
