"""What an explanation promises is true when it is tried; what is rendered does not depend on the order of things."""

from __future__ import annotations

import random
import re
from dataclasses import replace

from builders import ANY_IMAGES, Object, demand, pod
from hypothesis import given
from hypothesis import strategies as st
from test_decisions import fleet_from
from worlds import clusters, manifests, mended, specs

from gpujob.api.manifest import read_gpujob
from gpujob.fleet.pools.pricing import PoolPrice
from gpujob.placement.engine.decide import decide
from gpujob.placement.report.why_not import why_not
from gpujob.placement.request.demand import Demand
from gpujob.placement.request.from_manifest import demand_of
from gpujob.render.children import render
from gpujob.values.quantity import parse_dollars
from gpujob.values.vocabulary import Outcome, Verdict


@given(objects=clusters(odd=False), spec=specs())
def test_a_price_that_would_win_wins_and_a_cent_more_does_not(objects: list[Object], spec: Object) -> None:
    wish, fleet = demand(**spec), fleet_from(objects, ANY_IMAGES)
    decision = decide(wish, fleet, ANY_IMAGES)
    for name in {c.pool.name for c in decision.candidates if c.outcome is Outcome.FITS}:
        said = why_not(decision, name, fleet, ANY_IMAGES)
        found = re.search(r"would win over .* at \$([0-9.]+) a GPU-hour or less", said.change)
        if said.outcome is not Outcome.FITS or not found:
            continue
        assert winner(objects, name, found[1], wish) == name
        above = f"{(parse_dollars(found[1]) + 10_000) / 1_000_000:.2f}"
        if f"now ${above}" not in said.change:
            assert winner(objects, name, above, wish) != name


def winner(objects: list[Object], name: str, price: str, wish: Demand) -> str | None:
    """The pool that is chosen when this one costs so much a GPU-hour."""
    fleet = fleet_from(objects, ANY_IMAGES)
    pools = tuple(
        replace(pool, price=PoolPrice(parse_dollars(price), "tried")) if pool.name == name else pool
        for pool in fleet.pools
    )
    choice = decide(wish, replace(fleet, pools=pools), ANY_IMAGES).choice
    return choice.candidate.pool.name if choice else None


@given(objects=clusters(odd=False), spec=specs())
def test_a_change_that_would_make_a_pool_fit_does(objects: list[Object], spec: Object) -> None:
    document, fleet = manifests(spec), fleet_from(objects, ANY_IMAGES)
    decision = decide(demand_of(read_gpujob(document)), fleet, ANY_IMAGES)
    for name in {c.pool.name for c in decision.candidates if c.outcome is Outcome.REJECTED}:
        fix = why_not(decision, name, fleet, ANY_IMAGES).fix
        if fix is None:
            continue
        changed = demand_of(read_gpujob(mended(document, fix)))
        outcomes = {c.outcome for c in decide(changed, fleet, ANY_IMAGES).candidates if c.pool.name == name}
        assert outcomes & {Outcome.CHOSEN, Outcome.FITS, Outcome.BUSY}, fix.message


@given(objects=clusters(odd=False), spec=specs(), seed=st.integers(0, 2**16))
def test_what_is_rendered_does_not_depend_on_the_order_of_things(
    objects: list[Object], spec: Object, seed: int
) -> None:
    job = read_gpujob(manifests(spec) | {"metadata": {"name": "train", "namespace": "n", "uid": "u"}})
    shuffled = random.Random(seed).sample(objects, len(objects))
    made = []
    for some in (objects, shuffled):
        fleet = fleet_from(some, ANY_IMAGES)
        choice = decide(demand_of(job), fleet, ANY_IMAGES).choice
        made.append(render(job, choice, 1, fleet.runtime_classes) if choice else None)
    assert made[0] == made[1]


@given(objects=clusters(odd=False), gpus=st.integers(1, 8))
def test_under_cost_a_pod_that_ends_never_makes_the_job_dearer(objects: list[Object], gpus: int) -> None:
    wish = demand(gpusPerNode=gpus, placement={"objective": "Cost"})
    fuller = [*objects, pod("more", "n0", {"amd.com/gpu": 2, "nvidia.com/gpu": 2})]
    full, emptier = (decide(wish, fleet_from(some, ANY_IMAGES), ANY_IMAGES) for some in (fuller, objects))
    if full.verdict is Verdict.PLACED and full.choice is not None:
        price = full.choice.candidate.price_per_hour
        assert emptier.choice is not None
        if price is not None:
            assert emptier.choice.candidate.price_per_hour is not None
            assert emptier.choice.candidate.price_per_hour <= price
