"""A pool whose labels, plugin and catalog contradict each other: in its status, and as one Warning a change."""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders import MI300X, fleet, node

from gpujob.fleet.pools.fleet import Fleet
from gpujob.fleet.pools.pool import Pool
from gpujob.status import pools as publish
from gpujob.values.finding import Finding
from gpujob.values.vocabulary import Reason

NOW = "2026-11-28T08:00:00Z"


def partitioned() -> tuple[Fleet, Pool]:
    """Labels say CPX, the plugin offers 8 whole cards."""
    found = fleet(node("q1", MI300X, 8, labels={"amd.com/gpu.compute-memory-partition": "cpx_nps4"}))
    return found, found.pools[0]


def test_the_warning_comes_once_for_each_change() -> None:
    found, pool = partitioned()
    event = publish.contradiction(pool, "uid-1", {}, "me", NOW)
    assert event is not None
    assert (event["type"], event["reason"]) == ("Warning", Reason.LABELS_CONTRADICT)
    assert event["note"].startswith(
        "labels say cpx_nps4, so 8 devices of each card, and the device plugin offers 8 in all"
    )
    assert (event["metadata"]["namespace"], event["regarding"]["name"]) == ("default", pool.name)
    held = publish.status(pool, found, {}, NOW)
    assert "labels say cpx_nps4" in held["conditions"][0]["message"]
    assert (held["deviceKind"], held["profile"], held["gpus"]) == ("Partition", "cpx_nps4", {"total": 8, "free": 8})
    assert publish.contradiction(pool, "uid-1", held, "me", NOW) is None


def test_pools_that_agree_earn_no_event() -> None:
    assert publish.contradiction(fleet(node("n", MI300X)).pools[0], "uid-1", {}, "me", NOW) is None


def test_whatever_a_status_holds_nothing_raises() -> None:
    _, pool = partitioned()
    for held in ({"conditions": None}, {"conditions": ["x", {}]}, {"conditions": [{"type": "Read", "message": 5}]}):
        assert publish.contradiction(pool, "u", held, "me", NOW) is not None


@pytest.mark.parametrize(("price", "problem"), [(None, "NoPrice"), ("1.50", None), ("0", None)])
def test_a_pool_without_a_price_says_so_in_its_column(price: str | None, problem: str | None) -> None:
    found = fleet(node("n", MI300X, price=price))
    pool = replace(found.pools[0], price=found.pools[0].price if price else None)
    assert publish.status(pool, found, {}, NOW).get("problem") == problem


def test_what_keeps_jobs_away_goes_before_a_missing_price() -> None:
    found, pool = partitioned()
    broken = replace(pool, price=None, problem=Finding(Reason.DEVICE_UNKNOWN, "nothing knows it"))
    assert publish.status(broken, found, {}, NOW)["problem"] == "DeviceUnknown"
