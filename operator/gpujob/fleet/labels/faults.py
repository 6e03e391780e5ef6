"""Faults of a node's devices: the signals of the table that mean broken hardware, with the time at which they began."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from gpujob.fleet.health.signals import SIGNALS, Where, signal_of
from gpujob.fleet.kubernetes.objects import Node
from gpujob.values.untrusted import one_line
from gpujob.values.vocabulary import Vendor


class Fault(NamedTuple):
    """A fault that a node reports."""

    what: str
    """The signal, for example "condition GPUMissing is True (GPUMissing)"."""
    since: str = ""
    """When it began, as its author wrote it; empty if unknown."""
    vendor: Vendor | None = None
    """The vendor of the devices; None: any device of the node."""


_LABELS: Final = tuple(row for row in SIGNALS if row.where is Where.LABEL and row.fault)


def faults_of(node: Node) -> tuple[Fault, ...]:
    """The faults that a node reports now, in the order of the node's conditions, labels and taints."""
    return tuple(_faults(node))


def _faults(node: Node) -> Iterator[Fault]:
    for condition in node.conditions:
        signal = signal_of(Where.CONDITION, condition.type)
        if signal is not None and signal.fault:
            why = f" ({condition.reason})" if condition.reason else ""
            yield Fault(f"condition {condition.type} is {condition.status}{why}", condition.since, signal.vendor)
    for signal in _LABELS:
        value = node.labels.get(signal.key, "")
        if value and signal.reports_trouble(value):
            yield Fault(f"{signal.key} is {one_line(value[:32])}", "", signal.vendor)
    for taint in node.taints:
        signal = signal_of(Where.TAINT, taint.key)
        if signal is not None and signal.fault:
            yield Fault(f"taint {taint}", "", signal.vendor)
