"""What holds for devices whatever labels say of them: nothing raises, no unknown device fits, nothing is counted twice."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any, Final

from builders import decision, fleet
from hypothesis import given
from hypothesis import strategies as st
from worlds import admin_pools, cut_nodes, odd_nodes

from gpujob.catalog.files.load import load_catalog
from gpujob.fleet.devices.group import groups_of
from gpujob.fleet.kubernetes.objects import Node
from gpujob.fleet.kubernetes.parse import read_node
from gpujob.values.vocabulary import DeviceKind, Outcome

CATALOG: Final = load_catalog()
ALL_KINDS = [kind.value for kind in DeviceKind]


@given(one=odd_nodes("n0") | cut_nodes("n0"), other=odd_nodes("n1"), pools=st.lists(admin_pools(), max_size=1))
def test_a_job_that_accepts_every_kind_never_gets_an_unknown_device(one: Any, other: Any, pools: list[Any]) -> None:
    found = decision(one, other, *pools, placement={"devices": ALL_KINDS})
    for candidate in found.candidates:
        pool = candidate.pool
        assert all(finding.message for finding in (*candidate.reasons, *candidate.warnings))
        assert pool.share is None or 0 < pool.share[0] <= pool.share[1]
        assert pool.memory is None or pool.memory > 0
        if candidate.outcome in (Outcome.CHOSEN, Outcome.FITS):
            assert pool.accelerator is not None
            assert pool.problem is None


@given(raw=cut_nodes("n0"))
def test_a_job_that_asks_for_nothing_gets_whole_devices_only(raw: Any) -> None:
    choice = decision(raw).choice
    assert choice is None or choice.candidate.pool.kind is DeviceKind.WHOLE


@given(raw=cut_nodes("n0"), gpus=st.integers(1, 4))
def test_what_is_reserved_is_gone_from_every_resource_of_the_same_cards(raw: Any, gpus: int) -> None:
    before = fleet(raw)
    for pool in before.pools:
        after = before.reserve(pool, gpus, pool.nodes[0].left, ["n0"])
        for then, now in zip(before.pools, after.pools, strict=True):
            silicon = then.nodes[0].silicon
            same = then.resource == pool.resource or (silicon is not None and silicon.holds(pool.resource))
            assert (now.nodes[0].free < then.nodes[0].free) == same


@given(raw=cut_nodes("n0") | odd_nodes("n0"), chance=st.randoms(use_true_random=False))
def test_labels_of_other_things_and_the_order_of_labels_change_nothing(raw: Any, chance: Random) -> None:
    before = [replace(group, node=Node("", "", {})) for group in groups_of(read_node(raw), CATALOG)]
    labels = raw["metadata"].get("labels")
    if isinstance(labels, dict):
        others = {"example.com/rack": "r1", "nvidia.com/gfd.timestamp": "1764201600", "kubernetes.io/hostname": "x"}
        items = [*labels.items(), *others.items()]
        chance.shuffle(items)
        raw = {**raw, "metadata": {**raw["metadata"], "labels": dict(items)}}
    assert [replace(group, node=Node("", "", {})) for group in groups_of(read_node(raw), CATALOG)] == before
