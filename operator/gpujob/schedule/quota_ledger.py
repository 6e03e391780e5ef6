"""What quotas leave for reservations: each gang with a reservation is charged as if it existed.

Only reservations use this copy. Placed jobs use the quotas themselves.
"""

from __future__ import annotations

from dataclasses import replace

from gpujob.fleet.policy.quota_scopes import PodTraits
from gpujob.fleet.policy.resource_quota import Quotas, quotas_after, shortages
from gpujob.fleet.pools.fleet import Fleet
from gpujob.placement.request.demand import Demand
from gpujob.placement.scoring.reservations import Reservation


class QuotaLedger:
    """A running copy of the namespaces' quotas."""

    def __init__(self) -> None:
        self._all: list[tuple[str, dict[str, int], PodTraits]] = []
        self._left: Quotas = {}

    def begin(self, quotas: Quotas) -> None:
        """Takes over the quotas' current remainder, less all charges."""
        self._left = quotas
        for charge in self._all:
            self._left = quotas_after(self._left, *charge)

    def seen(self, fleet: Fleet) -> Fleet:
        """A fleet with the quotas of this ledger."""
        return fleet if fleet.quotas is self._left else replace(fleet, quotas=self._left)

    def take(self, fleet: Fleet, demand: Demand, reservation: Reservation) -> bool:
        """Charges the whole gang of a reservation, unless the quotas of its namespace leave too little for it."""
        taken = reservation.pool.taken(reservation.gpus, reservation.needs, reservation.nodes, demand.new_claims)
        quotas = self.seen(fleet).quotas_for(demand.namespace, demand.priority_class, reservation.pool)
        if shortages(quotas, taken)[0]:
            return False
        charge = demand.namespace, taken, fleet.pod_traits(demand.priority_class, reservation.pool)
        self._all.append(charge)
        self._left = quotas_after(self._left, *charge)
        return True
