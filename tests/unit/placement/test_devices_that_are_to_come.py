"""New nodes that labels promise devices of, before a plugin offers them: a matter of time, not of a fix."""

from __future__ import annotations

from typing import Any

import pytest
from builders import ANY_IMAGES, H100, MI300X, Object, demand, fleet, gpupool, node

from gpujob.api.kinds.gpupool import GPUPool
from gpujob.fleet.devices.group import groups_of
from gpujob.fleet.gpupools.selection import admin_pool
from gpujob.fleet.kubernetes.parse import read_node
from gpujob.fleet.pools.arriving import Arriving
from gpujob.fleet.sources.build import read_fleet
from gpujob.fleet.sources.incremental import FleetIndex
from gpujob.placement.engine.choose import choose
from gpujob.placement.engine.decide import decide
from gpujob.placement.report import summary
from gpujob.placement.scoring.candidate import Decision
from gpujob.values.vocabulary import Outcome, Reason, Verdict


def bare(name: str) -> Object:
    return node(name, H100, devices={}, price="1")


def decided(*objects: Object, new: tuple[str, ...] = (), **spec: Any) -> Decision:
    arriving = tuple(Arriving(name, "2026-11-28T11:50:00Z", "2026-11-28T12:05:00Z") for name in new)
    wish = demand(**spec).but(arriving=arriving)
    known = fleet(*objects, catalog=ANY_IMAGES)
    found = decide(wish, known, ANY_IMAGES)
    assert choose(wish, known, ANY_IMAGES).verdict is found.verdict
    return found


def test_a_job_waits_for_the_devices_of_a_new_node_by_its_name() -> None:
    found = decided(bare("n"), new=("n",))
    assert found.verdict is Verdict.WAITING
    assert summary.reason(found) is Reason.WAITING_FOR_DEVICES
    assert summary.summary(found) == (
        "fits pool h100-sxm-ondemand, which has no usable node now: node n came at 2026-11-28T11:50:00Z and offers no GPUs yet; "
        "they are waited for until 2026-11-28T12:05:00Z"
    )


@pytest.mark.parametrize("new", [(), ("other",)])
def test_one_that_has_been_there_for_long_must_be_mended(new: tuple[str, ...]) -> None:
    found = decided(bare("n"), new=new)
    assert (found.verdict, summary.reason(found)) == (Verdict.MISCONFIGURED, Reason.NO_DEVICE_PLUGIN)


def test_a_gang_needs_as_many_new_nodes() -> None:
    assert decided(bare("a"), bare("b"), new=("a",), nodes=2).verdict is Verdict.MISCONFIGURED
    assert decided(bare("a"), bare("b"), new=("a", "b"), nodes=2).verdict is Verdict.WAITING


def test_what_has_devices_now_is_taken_unless_the_job_waits_for_better() -> None:
    objects = (bare("n"), node("a", MI300X, price="3"))
    now = decided(*objects, new=("n",), placement={"objective": "Cost"})
    assert (now.verdict, now.candidates[1].outcome) == (Verdict.PLACED, Outcome.BUSY)
    patient = decided(*objects, new=("n",), placement={"objective": "Cost", "waitSeconds": 60})
    assert (patient.verdict, patient.candidates[0].pool.name) == (Verdict.WAITING, "h100-sxm-ondemand")


def test_a_node_of_a_pool_beside_others_says_what_it_waits_for() -> None:
    pool = gpupool("x", {"pool": "x"})
    old = node("old", H100, labels={"pool": "x"}, cordoned=True)
    fresh = bare("new")
    fresh["metadata"]["labels"]["pool"] = "x"
    found = decided(old, fresh, pool, new=("new",), nodes=2)
    assert [reason.reason for reason in found.candidates[0].reasons] == [Reason.WAITING_FOR_DEVICES, Reason.CORDONED]


def unlabelled(name: str, pool: str = "x", **state: Any) -> Object:
    """A node of a pool before any agent of a vendor ran on it."""
    return node(name, labels={"pool": pool}, devices={}, price="1", **state)


@pytest.mark.parametrize(
    "state", [{}, {"ready": False}, {"ready": False, "taints": ["node.kubernetes.io/not-ready:NoSchedule"]}]
)
@pytest.mark.parametrize("fields", [{}, {"accelerator": "H100-SXM"}, {"price": {"perGPUHour": "2"}}])
def test_a_new_node_of_a_pool_that_nothing_describes_yet_may_be_the_missing_one(
    fields: dict[str, Any], state: dict[str, Any]
) -> None:
    new = unlabelled("new", **state)
    objects = (node("old", H100, labels={"pool": "x"}), new, gpupool("x", {"pool": "x"}, **fields))
    found = decided(*objects, new=("new",), nodes=2, gpusPerNode=8)
    assert (found.verdict, summary.reason(found)) == (Verdict.WAITING, Reason.WAITING_FOR_DEVICES)
    assert summary.summary(found).startswith(
        "may fit pool x once its nodes can be used: node new came at 2026-11-28T11:50:00Z and offers no GPUs yet"
    )
    assert decided(*objects, new=("new",), nodes=3, gpusPerNode=8).verdict is Verdict.IMPOSSIBLE
    assert decided(*objects, nodes=2, gpusPerNode=8).verdict is Verdict.IMPOSSIBLE
    assert decided(*objects, new=("new",), nodes=1, gpusPerNode=8).verdict is Verdict.PLACED


@pytest.mark.parametrize(
    "fields", [{}, {"accelerator": "MI300X"}, {"tolerations": [{"key": "k", "operator": "Exists"}]}]
)
def test_the_first_node_of_a_pool_is_waited_for(fields: dict[str, Any]) -> None:
    objects = (unlabelled("new"), gpupool("x", {"pool": "x"}, **fields))
    assert decided(*objects, new=("new",)).verdict is Verdict.WAITING
    assert decided(*objects).verdict is not Verdict.WAITING
    assert decided(*objects, unlabelled("other", "y"), new=("other",)).verdict is not Verdict.WAITING


def test_a_gang_beyond_the_new_nodes_of_an_empty_pool_says_how_many_there_are() -> None:
    objects = (unlabelled("new"), gpupool("x", {"pool": "x"}))
    said = summary.summary(decided(*objects, new=("new",), nodes=2, gpusPerNode=8))
    assert "needs 2 nodes with 8 GPUs each, the pool has 0 nodes and 1 new node without GPUs yet" in said
    assert "GPUPool x has no GPU node of its own" in summary.summary(decided(*objects, nodes=2, gpusPerNode=8))


def test_what_a_new_node_cannot_change_stays_impossible() -> None:
    objects = (node("old", H100, labels={"pool": "x"}), unlabelled("new"), gpupool("x", {"pool": "x"}))
    found = decided(*objects, new=("new",), nodes=2, gpusPerNode=8, placement={"maxPricePerHour": "1"})
    assert found.verdict is Verdict.IMPOSSIBLE


def test_the_index_follows_a_new_node_that_gets_its_devices() -> None:
    index = FleetIndex(ANY_IMAGES)
    pools = [admin_pool(GPUPool.model_validate(gpupool("x", {"pool": "x"})))]
    labelled, before = node("new", H100, labels={"pool": "x"}), unlabelled("new")
    seen = []
    for each in (before, labelled, before):
        read = read_node(each)
        index.put_admin_pools(pools)
        index.put_node(read, groups_of(read, ANY_IMAGES))
        assert index.fleet().pools == read_fleet([read], [], ANY_IMAGES, pools).pools
        seen.append(index.fleet().pools[0].bare)
    index.drop_node("new")
    assert [*seen, index.fleet().pools[0].bare] == [("new",), (), ("new",), ()]


def test_a_device_that_is_unhealthy_on_an_old_node_is_no_newcomer() -> None:
    found = decided(node("n", H100, allocatable={"nvidia.com/gpu": "0"}))
    assert [reason.reason for reason in found.candidates[0].reasons] == [Reason.NO_ALLOCATABLE]
