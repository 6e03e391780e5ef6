"""HSA_OVERRIDE_GFX_VERSION: the user's request that a Radeon part passes for another one that the image has code for.

ROCm's runtime then loads the other part's code, which AMD does not support. So it is set only on request, never on Instinct,
only if the image has no code for the device itself, and always with a warning. If it is set nowhere, a warning says so too.
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
    """Whether the variable is set on a pool: the image has no code for its part, and the part can pass for one that it has."""
    other = pretended(override) if override else None
    device = equipment.accelerator
    if other is None or device is None or device.support == "unsupported":
        return False
    if not may_pass_for(device.architecture, other):
        return False
    if runtime is None:
        return True
    return runs_on(other, runtime.architectures) and not runs_on(device.architecture, runtime.architectures)


def warnings(equipment: Equipment, runtime: Runtime | None, override: str | None) -> Iterator[Finding]:
    """The warning that the variable is set, or is not set although the job requests it (`override`, None: no request)."""
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
    """The job requests the variable with a value that names no architecture."""
    if demand.gfx_override is None or pretended(demand.gfx_override):
        return None
    sentence = "envByBackend.rocm: {} is {!r}; a plain value such as 11.0.0 is wanted"
    return Finding(Reason.INVALID_SPEC, sentence, (OVERRIDE, demand.gfx_override[:32]))
