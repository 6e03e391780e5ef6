"""What time does to a waiting job."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gpujob.fleet.pools.arriving import Arriving
from gpujob.placement.request.demand import Demand
from gpujob.status.attempts.waits import (
    end_of_wait,
    excluded_nodes,
    next_change,
    pools_away,
    reservation_left,
    timely,
    with_excluded,
    with_pool_away,
    with_refusal,
    within,
)
from gpujob.values.vocabulary import Reason, Vendor

NOW = datetime(2026, 11, 28, 12, 0, 0, tzinfo=UTC)
LATER, BEFORE = "2026-11-28T12:10:00Z", "2026-11-28T11:59:59Z"


def away(*pairs: tuple[Any, Any]) -> dict[str, Any]:
    return {"excludedPools": [{"name": name, "until": until} for name, until in pairs]}


def test_a_pool_is_away_until_its_time() -> None:
    status = away(("a", LATER), ("b", BEFORE))
    assert timely(Demand(), BEFORE, status, NOW).pools_away == (("a", LATER),)
    assert next_change(Demand(), BEFORE, status, NOW) == 600


def test_a_pool_that_took_no_pod_rests_and_is_told_apart_from_one_whose_nodes_did_not_come() -> None:
    first = {"excludedPools": with_pool_away(away(("a", LATER)), "b", NOW, 900, Reason.UNSCHEDULABLE, "no\nport")}
    found = timely(Demand(), BEFORE, first, NOW)
    assert (found.pools_away, found.pools_resting) == ((("a", LATER),), (("b", "2026-11-28T12:15:00Z", "no\\nport"),))
    second = with_pool_away(first, "a", NOW, 60, Reason.UNSCHEDULABLE)
    assert {(each["name"], each["reason"]) for each in second} == {("a", "Unschedulable"), ("b", "Unschedulable")}
    assert next_change(Demand(), BEFORE, {"excludedPools": second}, NOW) == 60


def test_pools_that_refuse_in_the_same_words_rest_for_twice_as_long_and_keep_the_others_away_for_once() -> None:
    first = with_refusal({}, "a", NOW, 60, "0 of 2 pods are there", "denied")
    assert [(each["name"], each["until"], "othersUntil" in each) for each in first] == [
        ("a", "2026-11-28T12:01:00Z", False)
    ]
    second = with_refusal({"excludedPools": first}, "b", NOW, 60, "0 of 2 pods are there", "denied")
    assert [(each["name"], each["until"], each["othersUntil"]) for each in second] == [
        (name, "2026-11-28T12:02:00Z", "2026-11-28T12:01:00Z") for name in ("a", "b")
    ]


@pytest.mark.parametrize(
    "entry", [("a", "soon"), ("a", 7), (None, LATER), (["a"], LATER), ("a", "9999-99-99T00:00:00Z")]
)
def test_what_is_no_time_or_no_name_keeps_nobody_away(entry: tuple[Any, Any]) -> None:
    assert list(pools_away(away(entry), NOW)) == []
    assert next_change(Demand(), "", away(entry), NOW) is None


def test_a_node_is_left_out_until_its_time_and_then_taken_again() -> None:
    first = {"excludedNodes": with_excluded({}, ("b", "a"), 1, "NodeLost", NOW, 600)}
    found = timely(Demand(), BEFORE, first, NOW).excluded_nodes
    assert found == (("a", LATER, 1, "NodeLost"), ("b", LATER, 1, "NodeLost"))
    assert next_change(Demand(), BEFORE, first, NOW) == 600
    assert timely(Demand(), BEFORE, first, NOW + timedelta(seconds=600)).excluded_nodes == ()
    later = NOW + timedelta(seconds=300)
    second = {"excludedNodes": with_excluded(first, ("a",), 2, "DeviceFault", later, 600)}
    assert next_change(Demand(), BEFORE, second, later) == 300
    assert [(each["name"], each["attempt"]) for each in second["excludedNodes"]] == [("b", 1), ("a", 2)]
    third = with_excluded(second, ("c",), 3, "NodeLost", NOW + timedelta(seconds=600), 600)
    assert [each["name"] for each in third] == ["a", "c"]


@pytest.mark.parametrize(
    "entry",
    ["a", {"name": "a"}, {"name": "a", "until": "soon"}, {"name": 7, "until": LATER}, {"name": "", "until": LATER},
     {"name": ["a"], "until": LATER}, {"name": "a", "until": BEFORE},
     {"name": "a", "until": "2096-01-01T00:00:00Z"}],
)  # fmt: skip
def test_an_entry_that_says_no_node_or_no_time_keeps_no_node_away(entry: Any) -> None:
    status = {"excludedNodes": [entry, {"name": "b", "until": LATER, "attempt": "x", "reason": {}}]}
    assert list(excluded_nodes(status, NOW)) == [("b", LATER, 0, "")]


def test_a_status_remembers_sixteen_nodes_at_most() -> None:
    names = [f"n{number}" for number in range(20)]
    assert [each["name"] for each in with_excluded({}, names, 1, "NodeLost", NOW, 60)] == names[4:]


def test_waiting_for_a_better_pool_ends_by_the_jobs_age() -> None:
    patient = Demand(wait_seconds=900)
    assert timely(patient, "2026-11-28T11:50:00Z", {}, NOW).wait_seconds == 900
    assert next_change(patient, "2026-11-28T11:50:00Z", {}, NOW) == 300
    assert timely(patient, "2026-11-28T11:45:00Z", {}, NOW).wait_seconds == 0
    assert timely(patient, "whenever", {}, NOW).wait_seconds == 0


def condition(kind: str, since: object) -> dict[str, object]:
    return {"type": kind, "status": "False", "lastTransitionTime": since}


@pytest.mark.parametrize(
    ("created", "conditions", "left"),
    [
        ("2026-11-28T11:00:00Z", [], 600),
        ("2026-11-28T10:00:00Z", [], 0),
        ("2026-11-28T12:00:05Z", [], 4200),
        ("whenever", [], 0),
        # It was placed until then, and came back.
        ("2026-11-01T00:00:00Z", [condition("Placed", "2026-11-28T11:50:00Z")], 3600),
        (
            "2026-11-01T00:00:00Z",
            [condition("Placed", "2026-11-28T11:50:00Z"), condition("Suspended", "2026-11-28T11:49:59Z")],
            3600,
        ),
        # It was suspended and resumed: it has what is left since it was created.
        ("2026-11-01T00:00:00Z", [condition("Suspended", "2026-11-28T11:50:00Z")], 0),
        ("2026-11-28T11:00:00Z", [condition("Suspended", "2026-11-28T11:50:00Z")], 600),
        (
            "2026-11-28T11:00:00Z",
            [condition("Placed", "2026-11-28T11:50:00Z"), condition("Suspended", "2026-11-28T11:50:00Z")],
            600,
        ),
        ("2026-11-01T00:00:00Z", [condition("Failed", "2026-11-28T11:50:00Z")], 0),
        ("2026-11-28T11:00:00Z", [condition("Placed", 7), condition("Suspended", None), "no condition"], 600),
    ],
)
def test_devices_are_held_so_long_since_it_began_to_wait(created: str, conditions: list[Any], left: float) -> None:
    assert reservation_left(created, {"conditions": conditions}, NOW, 4200) == left


def test_a_status_remembers_each_pool_once_and_sixteen_at_most() -> None:
    status = away(*((f"p{number}", LATER) for number in range(16)))
    remembered = with_pool_away(status, "p3", NOW, 60)
    assert [entry["name"] for entry in remembered].count("p3") == 1
    assert remembered[-1] == {"name": "p3", "until": "2026-11-28T12:01:00Z", "reason": "NodesDidNotCome"}
    assert len(with_pool_away(status, "new", NOW, 60)) == 16


@pytest.mark.parametrize(
    ("told", "taken"),
    [
        ("2026-01-01T00:05:00Z", "2026-01-01T00:05:00Z"),
        ("2025-12-31T20:00:00Z", "2026-01-01T00:00:00Z"),
        ("2026-01-01T09:00:00Z", "2026-01-01T00:10:00Z"),
        ("yesterday", "2026-01-01T00:10:00Z"),
        ("", ""),
    ],
)
def test_a_start_lies_between_the_child_s_creation_and_now_whatever_the_node_s_clock_says(
    told: str, taken: str
) -> None:
    assert within(told, "2026-01-01T00:00:00Z", "2026-01-01T00:10:00Z") == taken


def test_where_now_is_before_the_child_s_creation_a_start_is_not() -> None:
    """One of several API servers is an hour behind, and its answers say what time it is."""
    for told in ("2026-01-01T12:00:02Z", "2026-01-01T11:00:02Z", "2026-01-01T13:00:00Z", "yesterday"):
        assert within(told, "2026-01-01T12:00:00Z", "2026-01-01T11:00:05Z") == "2026-01-01T12:00:00Z"


def test_without_two_clocks_to_hold_it_against_a_time_is_taken_as_far_as_it_goes() -> None:
    assert within("2025-01-01T00:00:00Z", "", "2026-01-01T00:00:00Z") == "2025-01-01T00:00:00Z"
    assert within("2025-01-01T00:00:00Z", "", "") == "2025-01-01T00:00:00Z"


def ended(attempt: int, vendor: object = "AMD", began: str | None = BEFORE, **more: Any) -> dict[str, Any]:
    return {
        "attempt": attempt,
        "pool": "a",
        "vendor": vendor,
        "from": began,
        "to": NOW_TEXT,
        "reason": "NodeLost",
    } | more


NOW_TEXT = "2026-11-28T12:00:00Z"


@pytest.mark.parametrize(
    ("attempts", "vendor"),
    [
        ([], None),
        ([ended(1)], Vendor.AMD),
        ([ended(1), ended(2, "NVIDIA", began=None)], Vendor.AMD),
        ([ended(2, "NVIDIA"), ended(1)], Vendor.NVIDIA),
        ([ended(1, began=None)], None),
        ([ended(1, "Intel")], None),
        ([ended(1, ["AMD"])], None),
    ],
)
def test_a_job_with_checkpoints_stays_on_the_vendor_on_which_it_ran(attempts: list[Any], vendor: Vendor | None) -> None:
    status = {"attempts": attempts}
    assert timely(Demand(keeps_vendor=True), BEFORE, status, NOW).resumes_on is vendor
    assert timely(Demand(), BEFORE, status, NOW).resumes_on is None
    assert timely(Demand(keeps_vendor=True), BEFORE, status, NOW).stays_on == ""


def test_a_failure_of_the_users_keeps_the_job_on_its_pool() -> None:
    status = {"attempt": 2, "attempts": [ended(1, blame="Infrastructure"), ended(2, blame="User")]}
    assert timely(Demand(), BEFORE, status, NOW).stays_on == "a"
    assert timely(Demand(), BEFORE, status | {"attempt": 1}, NOW).stays_on == ""


@pytest.mark.parametrize(
    ("devices_until", "seconds"),
    [
        (None, 300),
        ("2026-11-28T12:01:00Z", 300),
        ("2026-11-28T12:07:00Z", 420),
        ("2026-11-28T13:00:00Z", 600),
        ("x", 300),
    ],
)
def test_devices_of_a_new_node_prolong_the_wait_once(devices_until: str | None, seconds: int) -> None:
    bare = None if devices_until is None else Arriving("n", BEFORE, devices_until)
    assert (end_of_wait(NOW, bare, 300) - NOW).total_seconds() == seconds
