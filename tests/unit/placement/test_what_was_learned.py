"""What a profile measured decides before priors: robust to outliers, on one scale with what was not measured."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from builders import ANY_IMAGES, H100, MI300X, demand, fleet, gpupool, node
from hypothesis import given
from hypothesis import strategies as st

from gpujob.catalog.devices.throughput import MILLION, Speed
from gpujob.fleet.pools.fleet import Fleet
from gpujob.placement.engine.decide import decide
from gpujob.placement.engine.exploration import MOST_TRIALS, SLOWER
from gpujob.placement.report import decision_json, summary
from gpujob.placement.report.why_not import why_not
from gpujob.placement.request.demand import Demand
from gpujob.placement.request.profile_measurements import (
    Learned,
    Measurement,
    Run,
    learned_of,
    profile_of,
    read_measurements,
    weighted_median,
)
from gpujob.placement.scoring.candidate import Decision
from gpujob.schedule.answers import Answer
from gpujob.schedule.pending_job import PendingJob
from gpujob.schedule.queue import place_all
from gpujob.values.quantity import format_dollars
from gpujob.values.vocabulary import Verdict

DAY = 86400.0
PRIORS = {"H100-SXM": Speed(400_000, False, "prior", ""), "MI300X": Speed(500_000, False, "prior", "")}


def runs(*rates: float, every: float = DAY, dollars: int | None = None) -> tuple[Run, ...]:
    return tuple(Run(rate, 1.7e9 + number * every, str(number), 600, dollars) for number, rate in enumerate(rates))


def measured(
    device: str, *rates: float, shape: str = "1x1", unit: str = "tokens", dollars: int | None = None
) -> Measurement:
    return Measurement(device, device, shape, "Mixed", unit, runs(*rates, dollars=dollars), len(rates))


def test_one_slow_run_changes_nothing() -> None:
    assert measured("H100-SXM", 100, 101, 3, 99, 100).per_second == 100


def test_after_an_upgrade_the_newer_runs_count() -> None:
    old_and_new = runs(100, 100, 100) + tuple(replace(r, ended=r.ended + 90 * DAY) for r in runs(150, 151))
    assert Measurement("d", "d", "1x1", "Mixed", "tokens", old_and_new).per_second in (150, 151)


def test_measured_and_unmeasured_devices_compare_on_one_scale() -> None:
    learned = Learned("p", (measured("H100-SXM", 1000, 1000, 1000), measured("L4", 125)))
    assert learned.speed("H100-SXM", "1x1", PRIORS.get) == Speed(
        400_000, False, "measured 1,000 tokens/s on 3 runs of profile p, last 2023-11-16", "2023-11-16",
        "measured 1,000 tokens/s on 3 runs",
    )  # fmt: skip
    other = learned.speed("L4", "1x1", PRIORS.get)
    assert other is not None
    assert other.millionths == 50_000
    assert learned.speed("MI300X", "1x1", PRIORS.get) is None


def test_another_shape_of_a_measured_device_is_an_estimate_by_gpu_but_steps_are_other_work() -> None:
    of_tokens = Learned("p", (measured("H100-SXM", 8000, shape="1x8"),)).speed("H100-SXM", "1x4", PRIORS.get)
    assert of_tokens is not None
    assert (of_tokens.millionths, of_tokens.estimate) == (400_000, True)
    assert of_tokens.source.startswith("estimate: measured 8,000 tokens/s on 1 run of profile p in shape 1x8")
    assert (
        Learned("p", (measured("H100-SXM", 2, shape="1x8", unit="steps"),)).speed("H100-SXM", "1x4", PRIORS.get) is None
    )


def test_without_any_prior_the_most_measured_device_is_the_scale() -> None:
    learned = Learned("p", (measured("new", 30, 30), measured("newer", 60)))
    speeds = [learned.speed(device, "1x1", lambda _: None) for device in ("new", "newer")]
    assert [speed and speed.millionths for speed in speeds] == [MILLION, 2 * MILLION]


def test_the_unit_that_most_runs_counted_is_the_one_that_compares() -> None:
    learned = learned_of("p", [measured("a", 5, 5, unit="steps"), measured("b", 9, unit="tokens")], "Mixed")
    assert learned is not None
    assert [m.device for m in learned.measurements] == ["a"]
    assert learned_of("p", [measured("a", 5)], "FP8") is None


def placed(wish: Demand) -> Decision:
    return Answer(wish, TWO, ANY_IMAGES).decision


TWO = fleet(node("a", MI300X, price="2.00"), node("h", H100, price="2.00"))


@pytest.mark.parametrize(("mi300x", "h100", "winner"), [(900, 1000, "h100"), (1100, 1000, "mi300x")])
def test_measurements_beat_priors_and_are_told(mi300x: int, h100: int, winner: str) -> None:
    learned = Learned("p", (measured("MI300X", mi300x, mi300x), measured("H100-SXM", h100, h100)))
    decision = placed(replace(demand(profile="p"), learned=learned))
    assert decision.choice is not None
    assert decision.choice.candidate.pool.name.startswith(winner)
    assert f"measured {max(mi300x, h100):,} tokens/s on 2 runs" in summary.summary(decision)


def test_an_exploration_tries_what_was_not_measured_and_says_what_it_may_cost() -> None:
    learned = Learned("p", (measured("H100-SXM", 1000, 1000, dollars=10_000_000),))
    wish = replace(demand(), learned=learned, exploration=50_000_000)
    decision = placed(wish)
    assert decision.choice is not None
    assert decision.choice.candidate.pool.accelerator_id == "MI300X"
    assert "explored, unmeasured so far: may cost $" in summary.summary(decision)
    assert "more than h100" in summary.summary(decision)


def test_however_many_jobs_wait_no_more_explore_than_tell_something() -> None:
    room = fleet(node("a", MI300X, price="2.00"), node("h", H100, 64, price="2.00"))
    learned = Learned("p", (measured("H100-SXM", 1000, 1000, dollars=10_000_000),))
    wish = replace(demand(), learned=learned, exploration=50_000_000)

    def exploring(under_way: int, made: int = 0) -> int:
        known = (*learned.measurements, *([measured("MI300X", *[900] * made)] if made else ()))
        one = replace(
            wish, under_way=((("MI300X", "1x1"), under_way),) if under_way else (), learned=Learned("p", known)
        )
        waiting = [PendingJob(str(number), str(number), one, namespace=f"team-{number % 2}") for number in range(14)]
        every = list(place_all(waiting, room, ANY_IMAGES))
        assert {placing.verdict for placing in every} == {Verdict.PLACED}
        found = [placing for placing in every if placing.answer.demand.trying is not None]
        assert {placing.choice and placing.choice.candidate.pool.accelerator_id for placing in found} <= {"MI300X"}
        return len(found)

    # Three runs for each of the two namespaces, whose profiles are their own.
    assert [exploring(number) for number in range(5)] == [6, 4, 2, 0, 0]
    assert [exploring(1, made) for made in (1, 2, 3)] == [2, 0, 0]


@given(
    prices=st.tuples(st.integers(1, 10**9), st.integers(1, 10**9)),
    rates=st.tuples(st.floats(1e-3, 1e9), st.floats(1e-3, 1e9)),
    dollars=st.integers(1, 10**12),
    bound=st.integers(0, 10**12),
    runs_made=st.integers(0, 4),
)
def test_an_exploration_never_states_more_than_the_bound_nor_less_than_it_reckons(
    prices: tuple[int, int], rates: tuple[float, float], dollars: int, bound: int, runs_made: int
) -> None:
    there = fleet(
        node("a", MI300X, price=format_dollars(prices[0])), node("h", H100, price=format_dollars(prices[1])),
        catalog=ANY_IMAGES,
    )  # fmt: skip
    other = (measured("MI300X", *[rates[0]] * runs_made, dollars=dollars),) if runs_made else ()
    learned = Learned("p", (measured("H100-SXM", rates[1], dollars=dollars), *other))
    answer = Answer(replace(demand(), learned=learned, exploration=bound), there, ANY_IMAGES)
    trying = answer.demand.trying
    if trying is None:
        return
    stated = re.search(r"may cost \$([0-9.,]+) more than", trying.why)
    assert stated is not None
    assert float(stated[1].replace(",", "")) * 1e6 <= bound + 5_000
    fitting = decide(replace(answer.demand, trying=None), there, ANY_IMAGES).candidates
    tried = next(c for c in fitting if c.pool.name == trying.pool)
    (best,) = {c.price_of_work for c in fitting if c.price_of_work and c.pool.name != trying.pool}
    assert best
    assert tried.price_of_work
    worst = 1 if learned.of(tried.pool.device, "1x1") else SLOWER
    assert dollars * (worst * tried.price_of_work - best) <= bound * best


@pytest.mark.parametrize("change", [{"exploration": 0}, {"exploration": None}, {"learned": None}])
def test_no_exploration_beyond_the_bound_or_without_a_measured_cost(change: dict[str, Any]) -> None:
    dear = fleet(node("a", MI300X, price="9.00"), node("h", H100, price="2.00"))
    learned = Learned("p", (measured("H100-SXM", 1000, dollars=10_000_000),))
    wish = replace(demand(), **{"learned": learned, "exploration": 0, **change})
    decision = Answer(wish, dear, ANY_IMAGES).decision
    assert decision.choice is not None
    assert decision.demand.trying is None


def test_an_exploration_takes_free_room_only() -> None:
    busy = fleet(node("a", MI300X, price="2.00", cordoned=True), node("h", H100, price="2.00"))
    learned = Learned("p", (measured("H100-SXM", 1000, dollars=10_000_000),))
    decision = Answer(replace(demand(), learned=learned, exploration=10**9), busy, ANY_IMAGES).decision
    assert decision.verdict is Verdict.PLACED
    assert decision.demand.trying is None


def test_a_probe_visits_each_device_with_room_and_then_takes_the_best() -> None:
    wish = replace(demand(), probe_steps=50)
    first = placed(wish)
    assert first.demand.trying is not None
    seen, other = first.demand.trying.pool, next(p.name for p in TWO.pools if p.name != first.demand.trying.pool)
    assert summary.summary(first) == f"{seen} is probed for 50 steps at $2.00 an hour; 1 more pool to probe after it"
    assert why_not(first, other, TWO, ANY_IMAGES).change == (
        f"it fits too, and is probed after {seen}; the job itself goes where the probes say"
    )
    device = "MI300X" if seen.startswith("mi300x") else "H100-SXM"
    second = placed(replace(wish, learned=Learned("", (measured(device, 500),))))
    assert second.demand.trying is not None
    assert second.demand.trying.pool != seen
    last = placed(replace(wish, learned=Learned("", (measured("MI300X", 500), measured("H100-SXM", 800)))))
    assert last.demand.trying is None
    assert last.choice is not None
    assert last.choice.candidate.pool.accelerator_id == "H100-SXM"


ALONE = fleet(node("h", H100, price="2.00"), node("i", H100, price="3.00", labels={"gpujob.dev/rack": "b"}))


def test_with_one_device_to_choose_nothing_is_probed_and_that_is_said() -> None:
    decision = Answer(replace(demand(), probe_steps=50), ALONE, ANY_IMAGES).decision
    assert decision.choice is not None
    assert decision.demand.trying is None
    assert decision_json.chosen(decision).get("probe") is None  # type: ignore[union-attr]
    assert "; nothing is probed: no other device has room" in summary.summary(decision)


def test_of_two_devices_the_second_is_probed_though_the_first_has_no_room_again_yet() -> None:
    ending = fleet(node("a", MI300X, price="2.00", cordoned=True), node("h", H100, price="2.00"))
    wish = replace(
        demand(), probe_steps=50, probed=(("MI300X", "1x1"),), learned=Learned("", (measured("MI300X", 500),))
    )
    trying = Answer(wish, ending, ANY_IMAGES).demand.trying
    assert trying is not None
    assert (trying.pool.startswith("h100"), trying.probe) == (True, True)


def test_where_a_trial_did_not_start_the_real_run_goes_elsewhere_or_waits_as_any_job() -> None:
    cheap = fleet(node("a", MI300X, price="0.10"), node("h", H100, price="9.00"))
    tried = {"probe_steps": 50, "probed": (("H100-SXM", "1x1"), ("MI300X", "1x1"))}
    wish = replace(demand(), **tried, learned=Learned("", (measured("H100-SXM", 10),)), unstarted=(("MI300X", "1x1"),))
    decision = Answer(wish, cheap, ANY_IMAGES).decision
    assert decision.choice is not None
    assert decision.choice.candidate.pool.accelerator_id == "H100-SXM"
    assert "the best without mi300x" in summary.summary(decision)
    assert "on which the trial did not start" in summary.summary(decision)
    assert "probe" not in (decision_json.chosen(decision) or {})
    neither = replace(wish, unstarted=tried["probed"])
    assert Answer(neither, cheap, ANY_IMAGES).demand.trying is None
    assert Answer(neither, cheap, ANY_IMAGES).decision.choice is not None


def rails(*on_hosts: str) -> Fleet:
    """Two nodes of each device; those named are on the network of their hosts, which the namespace allows."""
    nodes = [
        node(f"{rail}{number}", device, price="2.00", labels={"rails": rail})
        for rail, device in (("a", MI300X), ("h", H100))
        for number in (1, 2)
    ]
    pools = [gpupool(f"rails-{rail}", {"rails": rail}, fabric={"hostNetwork": True}) for rail in on_hosts]
    labels = {"pod-security.kubernetes.io/enforce": "privileged"}
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default", "labels": labels}}
    return fleet(*nodes, *pools, space, catalog=ANY_IMAGES)


def test_gangs_on_the_network_of_their_hosts_are_probed_and_explored_too() -> None:
    two = demand(nodes=2, gpusPerNode=8).but(namespace="default")
    for on_hosts in (("a", "h"), ("a",), ()):
        probing = Answer(replace(two, probe_steps=50), rails(*on_hosts), ANY_IMAGES).demand.trying
        assert probing is not None
        assert probing.probe
    learned = Learned("p", (measured("H100-SXM", 1000, shape="2x8", dollars=10_000_000),))
    wish = replace(two, learned=learned, exploration=10**9)
    assert Answer(wish, rails(), ANY_IMAGES).demand.trying is not None
    assert Answer(wish, rails("a"), ANY_IMAGES).demand.trying is not None


def test_a_trial_that_counted_another_unit_is_not_made_again() -> None:
    wish = replace(demand(), probe_steps=50)
    mixed = [measured("MI300X", 500), measured("H100-SXM", 2, unit="steps")]
    told = replace(wish, learned=learned_of("", mixed, "Mixed"), probed=(("H100-SXM", "1x1"), ("MI300X", "1x1")))
    decision = placed(told)
    assert decision.demand.trying is None
    assert decision.choice is not None


def test_trials_are_bounded_in_number() -> None:
    many = tuple((f"device-{number}", "1x1") for number in range(MOST_TRIALS))
    assert placed(replace(demand(), probe_steps=50, probed=many[:-1])).demand.trying is not None
    assert placed(replace(demand(), probe_steps=50, probed=many)).demand.trying is None


def test_a_pool_where_the_trial_failed_is_not_taken() -> None:
    names = {pool.accelerator_id: pool.name for pool in TWO.pools}
    wish = replace(demand(), probe_steps=50, probes_failed=((names["MI300X"], "pod x failed with exit code 1"),))
    decision = placed(wish)
    assert decision.choice is not None
    assert decision.choice.candidate.pool.accelerator_id == "H100-SXM"
    refused = next(c for c in decision.candidates if c.pool.accelerator_id == "MI300X")
    assert refused.reasons[0].message == "the job's probe failed here: pod x failed with exit code 1"


def test_what_comes_first_is_chosen_alike_by_decide_and_choose() -> None:
    learned = Learned("p", (measured("H100-SXM", 1000, dollars=10_000_000),))
    answer = Answer(replace(demand(), learned=learned, exploration=10**9), TWO, ANY_IMAGES)
    decision = decide(answer.demand, TWO, ANY_IMAGES)
    assert answer.pick.choice is not None
    assert decision.choice is not None
    assert answer.pick.choice.candidate.pool == decision.choice.candidate.pool


HOSTILE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(
        ["measurements", "runs", "device", "accelerator", "shape", "precision", "unit", "perSecond", "time", "count", "dollars"]
    ), inner, max_size=6),
    max_leaves=12,
)  # fmt: skip


@given(HOSTILE)
def test_a_profile_that_anybody_wrote_never_raises(raw: Any) -> None:
    for measurement in read_measurements({"measurements": raw}):
        assert 0 < measurement.per_second < float("inf")
        assert measurement.gpus >= 1
        speed = Learned("p", (measurement,)).speed(measurement.device, measurement.shape, PRIORS.get)
        assert speed is None or speed.millionths >= 1


GOOD = {
    "device": "d", "accelerator": "d", "shape": "2x8", "precision": "Mixed", "unit": "tokens", "count": 9,
    "runs": [{"perSecond": "12.5", "time": "2026-01-01T00:00:00Z", "dollars": "3.20", "seconds": 60}],
}  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        {"shape": "0x8"}, {"shape": "2x"}, {"shape": "axb"}, {"unit": "bananas"}, {"device": ""}, {"runs": []},
        {"runs": [{"perSecond": "-1", "time": "2026-01-01T00:00:00Z"}]},
        {"runs": [{"perSecond": "nan", "time": "2026-01-01T00:00:00Z"}]},
        {"runs": [{"perSecond": "1", "time": "yesterday"}]},
        {"runs": [{"perSecond": "1", "time": "0001-01-01T00:00:00Z"}]},
        {"runs": [{"perSecond": "1e19", "time": "2026-01-01T00:00:00Z"}]},
        {"runs": [{"perSecond": "5e-324", "time": "2026-01-01T00:00:00Z"}]},
        {"runs": [{"perSecond": "1", "time": "2026-01-01T00:00:00Z", "dollars": "much"}]},
    ],
)  # fmt: skip
def test_what_cannot_be_read_of_a_profile_was_not_measured(change: dict[str, Any]) -> None:
    assert len(read_measurements({"measurements": [GOOD]})) == 1
    assert read_measurements({"measurements": [{**GOOD, **change}]}) == ()


@pytest.mark.parametrize("number", [2**63 - 1, 2**62, -1, -(2**63), 10**30, "-5", True])
def test_numbers_of_runs_that_nobody_made_stay_numbers_of_the_api(number: Any) -> None:
    every = [
        {**GOOD, "device": f"d{index}", "count": number, "runs": [{**GOOD["runs"][0], "seconds": number}]}  # type: ignore[dict-item]
        for index in range(64)
    ]
    held = profile_of({"status": {"measurements": every}, "metadata": {"name": "p"}})
    assert held.unread == ""
    assert 64 <= sum(measurement.count for measurement in held.measurements) < 2**62
    assert all(0 <= run.seconds < 2**31 for measurement in held.measurements for run in measurement.runs)


def test_of_two_measurements_of_one_thing_the_first_counts() -> None:
    faster = {**GOOD, "runs": [{"perSecond": "99", "time": "2026-01-01T00:00:00Z"}]}
    learned = learned_of("p", read_measurements({"measurements": [GOOD, faster]}), "Mixed")
    found = learned and learned.of("d", "2x8")
    assert found is not None
    assert found.per_second == 12.5


@given(st.lists(st.tuples(st.floats(1, 1e6), st.floats(0.01, 1)), min_size=1, max_size=9))
def test_a_weighted_median_lies_among_its_values(values: list[tuple[float, float]]) -> None:
    assert min(v for v, _ in values) <= weighted_median(values) <= max(v for v, _ in values)
