"""The hourly cost of owned GPUs: the purchase depreciated over years, power and operations, divided by the hours of use.

Exact: the decimals of the GPUPool are rationals, and the sum is rounded once to micro-dollars, so that equal pools have equal
prices on every machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from gpujob.values.quantity import MICRO

if TYPE_CHECKING:
    from gpujob.api.kinds import gpupool

HOURS_A_YEAR: Final = 8760
_NONE: Final = Fraction(0)
_WHOLE: Final = Fraction(1)


@dataclass(frozen=True, slots=True)
class Ownership:
    """The cost of owned nodes: US dollars, watts and years of one node; `gpu_purchase` of one GPU."""

    gpu_purchase: Fraction
    years: Fraction
    host_purchase: Fraction = _NONE
    watts: Fraction = _NONE
    price_per_kwh: Fraction = _NONE
    pue: Fraction = _WHOLE
    utilization: Fraction = _WHOLE
    yearly_operations: Fraction = _NONE

    def per_gpu_hour(self, gpus: int, devices: int | None = None) -> int:
        """Micro-dollars an hour for each of a node's GPUs, or of the `devices` into which they are divided, rounded down.

        ((gpuPurchase × g + hostPurchase) / (years × 8760) + watts / 1000 × pue × pricePerKWh + yearlyOperations / 8760) / g /
        utilization, with g GPUs in a node.
        """
        purchase = (self.gpu_purchase * gpus + self.host_purchase) / (self.years * HOURS_A_YEAR)
        power = self.watts / 1000 * self.pue * self.price_per_kwh
        operations = self.yearly_operations / HOURS_A_YEAR
        exact = (purchase + power + operations) / (devices or gpus) / self.utilization * MICRO
        return exact.numerator // exact.denominator


def ownership_of(owned: gpupool.Ownership) -> Ownership:
    """The ownership cost in a GPUPool, with its defaults."""
    return Ownership(
        gpu_purchase=Fraction(owned.gpu_purchase),
        years=Fraction(owned.years),
        host_purchase=Fraction(owned.host_purchase or 0),
        watts=Fraction(owned.watts or 0),
        price_per_kwh=Fraction(owned.price_per_k_wh or 0),
        pue=Fraction(owned.pue or 1),
        utilization=Fraction(owned.utilization or 1),
        yearly_operations=Fraction(owned.yearly_operations or 0),
    )
