"""HSA_OVERRIDE_GFX_VERSION: a user's word that a Radeon part may pass for another one that the image has code for.

ROCm's runtime then loads the other part's code. AMD supports that nowhere: it is never set unasked, never on Instinct,
only where the image has no code of the device's own, and always shown. What is set nowhere is said as well.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpujob.catalog.devices.architecture import OVERRIDE, may_pass_for, pretended, runs_on
from gpujob.catalog.images.runtime import Runtime
from gpujob.fleet.pools.equipment import Equipment
from gpujob.placement.request.demand import Demand
from gpujob.values.finding import Finding
from gpujob.values.vocabulary import Reason, Vendor


def applies(equipment: Equipment, runtime: Runtime | None, override: str | None) -> bool:
    """Whether the variable is set on a pool: its part has no code in the image and may pass for one that has."""
    other = pretended(override) if override else None
    device = equipment.accelerator
    if other is None or device is None or device.support == "unsupported":
        return False
    if not may_pass_for(device.architecture, other):
        return False
    if runtime is None:
        return True
    return runs_on(other, runtime.architectures) and not runs_on(device.architecture, runtime.architectures)


def doubts(equipment: Equipment, runtime: Runtime | None, override: str | None) -> Iterator[Finding]:
    """That the variable is set, or that it is not although the job asks for it (`override`, None: it does not)."""
    if override is None or equipment.vendor is not Vendor.AMD or equipment.accelerator is None:
        return
    device = equipment.accelerator
    if applies(equipment, runtime, override):
        sentence = "{} {} makes {} ({}) pass for {}, which AMD does not support"
        numbers = (OVERRIDE, override, device.id, device.architecture, pretended(override))
        yield Finding(Reason.ARCH_OVERRIDDEN, sentence, numbers)
    else:
        sentence = "{} is not set here: {} ({}) {}"
        own = runtime is not None and runs_on(device.architecture, runtime.architectures)
        why = "has code of its own in the image" if own else f"cannot pass for {pretended(override)} with this image"
        yield Finding(Reason.OVERRIDE_NOT_SET, sentence, (OVERRIDE, device.id, device.architecture, why))


def problem(demand: Demand) -> Finding | None:
    """The job asks for the variable with a value that names no architecture."""
    if demand.gfx_override is None or pretended(demand.gfx_override):
        return None
    sentence = "envByBackend.rocm: {} is {!r}; a plain value such as 11.0.0 is wanted"
    return Finding(Reason.INVALID_SPEC, sentence, (OVERRIDE, demand.gfx_override[:32]))
