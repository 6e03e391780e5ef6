"""Repairs for volume claims that a quota or a LimitRange does not allow: another size of an ephemeral volume."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gpujob.fleet.policy.limit_range import Bound
from gpujob.fleet.policy.resource_quota import OF_STORAGE_CLASS
from gpujob.placement.request.demand import Demand
from gpujob.placement.request.written import claim_size
from gpujob.placement.suggestions import costs
from gpujob.placement.suggestions.proposal import Proposal, proposed
from gpujob.values.quantity import most_bytes, shortest_quantity

STORAGE: Final = "requests.storage"
"""The name of the size of claims in a quota; of one StorageClass with its name in front."""


def within_storage(demand: Demand, name: str, most: int) -> Iterator[Proposal]:
    """Smaller claims for a quota's resource and the bytes that it leaves each pod: what the other claims leave, or an even share
    if they alone are too large.
    """
    storage_class, of_class, _ = name.rpartition(OF_STORAGE_CLASS)
    counted = [place for place, (own, _) in enumerate(demand.new_claims) if not of_class or own == storage_class]
    every = sum(demand.new_claims[place][1] for place in counted)
    for place in counted:
        size = demand.new_claims[place][1]
        rest = most - (every - size)
        yield from _shrunk(demand, place, rest if rest > 0 else most // len(counted))


def claims_within(demand: Demand, bound: Bound) -> Iterator[Proposal]:
    """The nearest size that a LimitRange allows each claim."""
    for place, (_, size) in enumerate(demand.new_claims):
        if size > bound.most:
            yield from _shrunk(demand, place, bound.most)
        elif size < bound.least:
            yield _sized(demand, place, bound.least, costs.UP_TO_A_MINIMUM)


def _shrunk(demand: Demand, place: int, most: int) -> Iterator[Proposal]:
    size = demand.new_claims[place][1]
    fits = most_bytes(size, most)
    if 0 < fits < size:
        yield _sized(demand, place, fits, 1 - (1 - costs.SMALLER_CLAIM) * fits / size)


def _sized(demand: Demand, place: int, amount: int, distance: float) -> Proposal:
    """The proposal of another size of one claim."""
    volume, (storage_class, size) = demand.claim_volumes[place], demand.new_claims[place]
    claims = (*demand.new_claims[:place], (storage_class, amount), *demand.new_claims[place + 1 :])
    field = f"spec.volumes[{volume}].ephemeral.volumeClaimTemplate.spec.resources.requests.storage"
    before = demand.as_written(claim_size(volume), shortest_quantity(size))
    return proposed(distance, field, before, shortest_quantity(amount), demand.but(new_claims=claims))
