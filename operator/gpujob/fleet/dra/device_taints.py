"""Taints of DRA devices that keep pods away: those that a driver writes into its slices, and DeviceTaintRules of admins.

API: resource.k8s.io DeviceTaintRule v1alpha3 (Kubernetes 1.33), v1beta2 (1.36) and v1 (1.37): an empty selector matches all
devices, an absent one matches none; effects other than these two keep no pods away. Claims of jobs tolerate no taint.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from gpujob.values.untrusted import Table, one_line, table, tables

KEEPING_AWAY: Final = frozenset({"NoSchedule", "NoExecute"})

CRITERIA: Final = ("driver", "pool", "device")
"""The parts of a selector that are read. Expressions and classes of v1alpha3 are not, so the rule counts for every device that the
other parts match: a device that may be tainted is not free.
"""


@dataclass(frozen=True, slots=True)
class TaintRule:
    """A taint of all devices that match: driver, pool and name, each None where any will do."""

    taint: str
    wanted: tuple[str | None, ...]

    def matches(self, key: tuple[str, str, str]) -> bool:
        """Whether a device (driver, pool, name) has the taint."""
        return all(want in (None, has) for want, has in zip(self.wanted, key, strict=True))


def read_rule(raw: Table) -> TaintRule | None:
    """The record of a DeviceTaintRule object; None if it keeps no pods away."""
    spec = table(raw, "spec")
    taint = keeping_away((table(spec, "taint"),))
    if not taint or not isinstance(spec.get("deviceSelector"), dict):
        return None
    selector = table(spec, "deviceSelector")
    wanted = (selector.get(name) for name in CRITERIA)
    return TaintRule(taint, tuple(value if isinstance(value, str) and value else None for value in wanted))


def taint_of(device: Table) -> str:
    """The first taint of a device in a slice that keeps pods away; empty if there is none."""
    return keeping_away(tables(device, "taints"))


def keeping_away(taints: Iterable[Table]) -> str:
    """The first taint that keeps pods away, as key=value:effect."""
    for each in taints:
        effect = each.get("effect")
        if isinstance(effect, str) and effect in KEEPING_AWAY:
            value = f"={_word(each['value'])}" if each.get("value") else ""
            return f"{_word(each.get('key'))}{value}:{effect}"
    return ""


def _word(value: object) -> str:
    return one_line(str(value)[:64])
