"""Waits, probes, ranks that are behind, profiles and pools of a status at their limits: equal times, longest texts, missing members."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from builders import H100, fleet, gpupool, node
from test_profiles_and_trials import course, ran, trial
from test_records_of_objects import PLAIN, WHOLE

from gpujob.api.kinds.gpupool import GPUPoolStatus
from gpujob.fleet.kubernetes.parse import read_node
from gpujob.fleet.pools.arriving import Arriving
from gpujob.lifecycle.timings import Timings
from gpujob.placement.request.demand import Demand
from gpujob.placement.request.profile_measurements import LEAST, MOST, Profile, profile_of
from gpujob.status import pools
from gpujob.status.attempts import probe_runs, standstill, waits
from gpujob.status.attempts.progress import Measured
from gpujob.status.attempts.standstill import Ranks, RankSeen, sentence
from gpujob.status.attempts.waits import LONGEST_EXCLUSION, MOST_CHARACTERS, REMEMBERED, timely, write_time
from gpujob.status.observe import child as observing
from gpujob.status.profile import LEAST_SECONDS, after_run, from_status
from gpujob.status.records.objects import JobRecord
from gpujob.status.records.preflight import Check
from gpujob.status.records.read_objects import read_job
from gpujob.status.records.rendezvous import Ended, Missed, why_not_met
from gpujob.values.finding import Finding
from gpujob.values.vocabulary import Reason, State, Vendor

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
LONG = "x" * 5000


def at(seconds: float) -> str:
    return write_time(NOW + timedelta(seconds=seconds))


@pytest.mark.parametrize(
    ("said", "floor"),
    [
        ("80G", 80 * 10**9),
        (f"{'0' * (MOST_CHARACTERS - 1)}5", 5),
        (f"{'0' * MOST_CHARACTERS}5", None),
        ("much", None), (80, None), (None, None),
    ],
)  # fmt: skip
def test_the_memory_that_a_status_asks_for(said: Any, floor: int | None) -> None:
    assert timely(Demand(), "", {"gpuMemory": said}, NOW).memory_floor == floor


@pytest.mark.parametrize(
    ("entry", "more", "pool"),
    [
        ({"blame": "User"}, {}, "p"),
        ({"blame": "Infrastructure"}, {}, ""),
        ({"blame": "User", "attempt": 1}, {}, ""),
        ({"blame": "User", "pool": LONG}, {}, LONG[:253]),
        ({"blame": "User", "reason": "GPUOutOfMemory"}, {"gpuMemory": "9G"}, ""),
        ({"blame": "User", "reason": "GPUOutOfMemory"}, {}, "p"),
        ({"blame": "User", "reason": "PodFailed"}, {"gpuMemory": "9G"}, "p"),
    ],
)
def test_a_job_that_failed_by_its_own_fault_stays_on_its_pool(
    entry: dict[str, Any], more: dict[str, Any], pool: str
) -> None:
    status = {"attempt": 2, "attempts": [{"attempt": 2, "pool": "p", **entry}], **more}
    assert timely(Demand(), "", status, NOW).stays_on == pool


@pytest.mark.parametrize(
    ("attempts", "vendor"),
    [
        ([{"attempt": 1, "vendor": "AMD", "from": at(0)}, {"vendor": "NVIDIA", "from": at(0)}], Vendor.AMD),
        (
            [{"attempt": 0, "vendor": "AMD", "from": at(0)}, {"attempt": 1, "vendor": "NVIDIA", "from": at(0)}],
            Vendor.NVIDIA,
        ),
        ([{"attempt": 1, "vendor": "AMD"}], None),
        ([], None),
    ],
)
def test_a_job_goes_on_with_the_vendor_of_its_newest_attempt_that_ran(
    attempts: list[Any], vendor: Vendor | None
) -> None:
    assert timely(Demand(keeps_vendor=True), "", {"attempts": attempts}, NOW).resumes_on is vendor


@pytest.mark.parametrize(
    ("wait", "now", "left", "change"), [(60, 59, 60, 1.0), (60, 60, 0, None), (0, 0, 0, None), (60, -5, 60, 65.0)]
)
def test_the_wait_for_a_better_pool_ends(wait: int, now: int, left: int, change: float | None) -> None:
    later = NOW + timedelta(seconds=now)
    assert timely(Demand(wait_seconds=wait), at(0), {}, later).wait_seconds == left
    assert waits.next_change(Demand(wait_seconds=wait), at(0), {}, later) == change
    assert waits.next_change(Demand(wait_seconds=wait), "soon", {}, later) is None


def test_the_next_change_is_the_earliest() -> None:
    demand = Demand(arriving=(Arriving("n", at(0), at(30)),))
    away = {"excludedPools": [{"name": "p", "until": at(20)}], "excludedNodes": [{"name": "n", "until": at(40)}]}
    assert waits.next_change(demand, "", away, NOW) == 20
    assert waits.next_change(demand, "", {}, NOW) == 30
    assert waits.next_change(demand, "", {}, NOW + timedelta(seconds=30)) is None
    assert waits.next_change(Demand(), "", {"excludedNodes": away["excludedNodes"]}, NOW) == 40


BARE = {
    "metadata": {"name": "n", "creationTimestamp": at(0)},
    "status": {"conditions": [{"type": "Ready", "status": "True"}]},
}


@pytest.mark.parametrize("ready", ["True", "False", "Unknown"])
@pytest.mark.parametrize(("now", "waited"), [(0, True), (299, True), (300, False), (-10, True)])
def test_a_new_node_without_devices_is_waited_for_so_long(now: float, waited: bool, ready: str) -> None:
    later = NOW + timedelta(seconds=now)
    found = [Arriving("n", at(0), at(300))] if waited else []
    new = {**BARE, "status": {"conditions": [{"type": "Ready", "status": ready}]}}
    assert list(waits.arriving([read_node(new)], later, 300)) == found
    assert list(waits.still_arriving([Arriving("n", at(0), at(300))], later)) == found


def test_a_node_with_devices_or_without_a_time_is_not_waited_for() -> None:
    known = node("a", H100)
    known["metadata"]["creationTimestamp"] = at(0)
    ageless = {**BARE, "metadata": {"name": "n"}}
    assert list(waits.arriving([read_node(known), read_node(ageless)], NOW, 300)) == []
    assert list(waits.still_arriving([Arriving("n", "", "soon")], NOW)) == []


@pytest.mark.parametrize(("until", "out"), [(0, False), (1, True), (1200, True), (1201, False)])
def test_a_node_is_left_out_until_its_time_and_for_twice_its_length_at_most(until: int, out: bool) -> None:
    assert timedelta(seconds=2 * Timings().node_excluded) == LONGEST_EXCLUSION
    status = {"excludedNodes": [{"name": "n", "until": at(until), "reason": LONG, "attempt": 3}]}
    assert list(waits.excluded_nodes(status, NOW)) == ([("n", at(until), 3, LONG[:64])] if out else [])
    assert bool(list(waits.pools_away({"excludedPools": [{"name": "p", "until": at(until)}]}, NOW))) is (until > 0)


def test_texts_of_exclusions_are_cut_and_entries_counted() -> None:
    (one,) = waits.excluded_nodes(
        {"excludedNodes": [{"name": LONG, "until": at(9), "attempt": "x"}, {"name": "", "until": at(9)}]}, NOW
    )
    assert one == (LONG[:253], at(9), 0, "")
    (entry,) = waits.with_pool_away({}, "p", NOW, 9, Reason.UNSCHEDULABLE, LONG)
    assert entry == {"name": "p", "until": at(9), "reason": "Unschedulable", "message": LONG[:512]}
    long = {"excludedPools": [{"name": "p", "until": at(9), "reason": "Unschedulable", "message": LONG}]}
    assert timely(Demand(), "", long, NOW).pools_resting == (("p", at(9), LONG[:512]),)
    many = {"excludedPools": [{"name": f"p{n}", "until": at(9)} for n in range(20)],
            "excludedNodes": [{"name": f"n{n}", "until": at(9)} for n in range(20)]}  # fmt: skip
    assert len(list(waits.pools_away(many, NOW))) == len(list(waits.excluded_nodes(many, NOW))) == REMEMBERED
    added = waits.with_excluded(many, ("m", "n3"), 0, "", NOW, 60)
    assert [entry["name"] for entry in added] == [*(f"n{n}" for n in range(1, 16) if n != 3), "m", "n3"]
    assert added[-1] == {"name": "n3", "until": at(60), "attempt": 0}


def probed(*entries: dict[str, Any], generation: int = 1, seen: int = 1) -> JobRecord:
    status = {"probes": list(entries), "observedGeneration": seen}
    return read_job({"metadata": {"generation": generation}, "status": status})


@pytest.mark.parametrize(
    ("steps", "rate", "left", "over"),
    [(50, LEAST, True, True), (49, LEAST, True, False), (50, LEAST / 2, True, False), (0, LEAST, False, True),
     (None, LEAST, True, False)],
)  # fmt: skip
def test_a_probe_is_over_with_its_last_step_or_its_time(steps: int | None, rate: float, left: bool, over: bool) -> None:
    counters = {} if steps is None else {"steps": float(steps)}
    measured = Measured(NOW, counters=counters, rates={"tokens": rate})
    assert (probe_runs.result(trial(), measured, course(5 if left else 15)) is not None) is over


def test_texts_of_probes_are_cut_and_members_kept() -> None:
    base = probe_runs.Result("p", unmeasured=LONG)
    (entry,) = probe_runs.with_result({}, trial(), base, "Mixed", NOW)
    assert (entry["unmeasured"], "started" in entry) == (LONG[:256], False)
    (entry,) = probe_runs.with_result({}, trial(), replace(base, started=False), "Mixed", NOW)
    assert entry["started"] is False
    (entry,) = probe_runs.with_result({}, trial(), probe_runs.Result("p", failed=LONG), "Mixed", NOW)
    assert entry["failed"] == LONG[:256]
    assert list(
        probe_runs.failed(
            {"probes": [{"pool": "p", "failed": LONG}, {"pool": 7, "failed": "x"}, {"pool": "p", "failed": 7}]}
        )
    ) == [("p", LONG[:256])]
    assert list(probe_runs.failed({"probes": [{"pool": "p", "failed": ""}]})) == []
    assert (probe_runs.shape_of({}), probe_runs.shape_of({"nodes": 2, "gpusPerNode": 8})) == ("1x1", "2x8")
    (found,) = probe_runs.measurements({"probes": [
        {"device": "d", "accelerator": "d", "shape": "1x1", "precision": "Mixed", "unit": "tokens", "perSecond": "5", "time": at(0)}
    ]})  # fmt: skip
    assert (found.count, found.per_second) == (1, 5)
    failed, late, kept = {"failed": "x"}, {"started": False}, {"unit": "tokens"}
    assert probe_runs.kept(probed(failed, late, kept, generation=2)) == [kept]
    assert probe_runs.kept(probed(failed, late, kept)) == [failed, late, kept]
    entries = [
        {"device": "d", "shape": "1x1"},
        {"device": "e", "shape": "1x1", "started": False},
        {"device": 7, "shape": "1x1"},
    ]
    assert list(probe_runs.tried({"probes": entries})) == [("d", "1x1"), ("e", "1x1")]
    assert list(probe_runs.unstarted({"probes": entries})) == [("e", "1x1")]
    assert [probe_runs.is_trial({"placement": held}) for held in ({"probe": 0}, {"probe": 5}, {}, {"probe": "x"})] == [
        True,
        True,
        False,
        False,
    ]


OWN, LIBRARY = "train (/code/train.py:44)", "forward (torch/nn/modules/module.py:7)"


def rank(number: int, steps: int = 9, *stack: str, **more: Any) -> RankSeen:
    return RankSeen(number, f"j-{number}", "", steps, stack=stack, **more)


@pytest.mark.parametrize(
    ("ranks", "said"),
    [
        (Ranks((rank(0),)), "rank 0 (pod j-0) is at step 9"),
        (Ranks((rank(0, silent=standstill.SILENT_AFTER), rank(1)), 2), "no rank is behind the others: 2 of 2 ranks wait at step 9"),
        (Ranks((rank(0, silent=standstill.SILENT_AFTER + 0.5), rank(1)), 2),
         "rank 0 (pod j-0) is at step 9 and has not answered for 10 seconds: its process is stopped, or keeps Python's lock; "
         "rank 1 waits at step 9"),
        (Ranks((rank(0, silent=standstill.SILENT_AFTER),)), "rank 0 (pod j-0) is at step 9"),
        (Ranks((rank(1),), 2), "rank 0 does not report; rank 1 waits at step 9"),
        (Ranks((), 2), ""),
        (Ranks((rank(9),), 3), "ranks 0, 1, 2 do not report; rank 9 waits at step 9"),
        (Ranks((rank(9),), 4), "ranks 0, 1, 2, 3 do not report; rank 9 waits at step 9"),
        (Ranks((rank(9),), 5), "ranks 0, 1, 2, 3, … do not report; rank 9 waits at step 9"),
        (Ranks((rank(0), rank(1)), 2, (("p", "a"), ("q", "b"), ("r", "c"), ("s", "d"), ("t", "e"))),
         "pod p a; pod q b; pod r c; pod s d; 2 of 2 ranks wait at step 9"),
        (Ranks((rank(0, 8), rank(1)), 2), "rank 0 (pod j-0) is at step 8; rank 1 waits at step 9"),
        (Ranks((rank(0, 9, OWN), rank(1, 9, LIBRARY)), 2), None),
        # The few that are elsewhere than most; half of them are not few.
        (Ranks(tuple(rank(n, 9, "a (b.py:1)" if n < 2 else "c (d.py:1)") for n in range(4)), 4), None),
        (Ranks(tuple(rank(n, 9, "a (b.py:1)" if n < 1 else "c (d.py:1)") for n in range(3)), 3),
         "rank 0 (pod j-0) is at step 9 in a (b.py:1); 2 of 2 ranks wait at step 9 in c (d.py:1)"),
        # The innermost frames, and in place of the last of them the program's own one.
        (Ranks((rank(0, 9, *[f"f{n} (torch/x.py:{n})" for n in range(5)], OWN),)),
         f"rank 0 (pod j-0) is at step 9 in f0 (torch/x.py:0) < f1 (torch/x.py:1) < f2 (torch/x.py:2) < {OWN}"),
        (Ranks((rank(0, 9, *[f"f{n} (torch/x.py:{n})" for n in range(5)]),)),
         "rank 0 (pod j-0) is at step 9 in f0 (torch/x.py:0) < f1 (torch/x.py:1) < f2 (torch/x.py:2) < f3 (torch/x.py:3)"),
        (Ranks((rank(0, 9, LIBRARY, OWN, LIBRARY),)), f"rank 0 (pod j-0) is at step 9 in {LIBRARY} < {OWN} < {LIBRARY}"),
        (Ranks(tuple(rank(n, n + 1, "barrier (x.py:1)") for n in range(7)), 8),
         "rank 7 does not report; 7 of 7 ranks wait at step 1, 2, 3 and 4 in barrier (x.py:1)"),
    ],
)  # fmt: skip
def test_who_is_behind(ranks: Ranks, said: str | None) -> None:
    assert sentence(ranks).startswith("no rank is behind the others: ") if said is None else sentence(ranks) == said


@pytest.mark.parametrize(
    ("rate", "found"),
    [
        (f"{LEAST}", LEAST),
        (f"{LEAST / 2}", None),
        (f"{MOST}", MOST),
        (f"{MOST * 2}", None),
        ("fast", None),
        (5, None),
        (None, None),
    ],
)
def test_a_rate_in_a_status_is_between_the_least_and_the_most(rate: Any, found: float | None) -> None:
    status = {"startTime": at(0), "progress": {"updated": at(90)}, "throughput": {"tokensPerSecond": rate}}
    assert from_status(status) == (({}, 0.0) if found is None else ({"tokens": found}, 90.0))
    assert from_status({key: status[key] for key in ("startTime", "throughput")})[1] == 0.0
    assert from_status({key: status[key] for key in ("progress", "throughput")})[1] == 0.0


def test_a_run_adds_to_its_profile_from_its_least_seconds_and_rate_on() -> None:
    empty = Profile()
    assert after_run("team", "p", empty, ran(seconds=LEAST_SECONDS))
    assert not after_run("team", "p", empty, ran(seconds=LEAST_SECONDS - 1))
    assert after_run("team", "p", empty, ran(tokens=LEAST))
    assert not after_run("team", "p", empty, ran(steps=0.0, tokens=LEAST / 2))
    body = after_run("team", "p", empty, ran(device=LONG))
    assert body is not None
    assert (body["metadata"].keys(), len(body["status"]["summary"])) == ({"name", "namespace", "labels"}, 128)
    held = profile_of({**body, "metadata": {"uid": "u", "resourceVersion": "7"}})
    again = after_run("team", "p", held, ran(1))
    assert again is not None
    assert (again["metadata"]["uid"], again["metadata"]["resourceVersion"]) == ("u", "7")
    # The summary compares the rates of one unit.
    mixed = after_run(
        "team",
        "p",
        profile_of(after_run("team", "p", empty, ran(1, "a", steps=9000.0)) or {}),
        ran(2, "b", tokens=10.0),
    )
    assert mixed is not None
    assert mixed["status"]["summary"] == "2x8 a: 9,000 steps/s"


def test_a_pool_at_its_limits() -> None:
    known = fleet(node("a", H100, price="2"), gpupool("x" * 70, {"none": "here"}))
    (discovered,) = (pool for pool in known.pools if pool.discovered)
    label = pools.manifest(replace_pool(discovered, name="x" * 62 + "-" + "y"))["spec"]["nodeSelector"]["matchLabels"]
    assert list(label.values()) == ["x" * 62]
    written = pools.manifest(discovered)["spec"]
    edited = {**written, "accelerator": "other"}
    assert [pools.is_edited(discovered, edited, generation) for generation in (1, 2)] == [False, True]
    status = pools.status(discovered, known, {}, at(0))
    GPUPoolStatus.model_validate(status)
    assert (status["vendor"], status["resourceName"], status["deviceKind"]) == ("NVIDIA", "nvidia.com/gpu", "Whole")
    (empty,) = (pool for pool in known.pools if not pool.discovered)
    bare = pools.status(empty, known, {}, at(0))
    assert not {"vendor", "resourceName", "deviceKind", "memory", "profile", "pricePerGPUHour"} & bare.keys()
    longest = replace_pool(discovered, price=replace(discovered.price, source=LONG))
    assert pools.status(longest, known, {}, at(0))["priceSource"] == LONG[:256]
    said = {"conditions": [{"type": "Read"}, "junk", {"type": "Other"}]}
    assert not any(c["type"] == "Edited" for c in pools.status(discovered, known, said, at(0))["conditions"])


def replace_pool(pool: Any, **changes: Any) -> Any:
    return replace(pool, **changes)


def test_texts_of_the_event_of_a_pool_are_cut() -> None:
    (pool,) = fleet(node("a", H100)).pools
    odd = replace_pool(pool, name=LONG, warnings=(Finding(Reason.LABELS_CONTRADICT, LONG),))
    event = pools.contradiction(odd, LONG, {}, LONG, at(0))
    assert event is not None
    name, uid, digest = event["metadata"]["name"].split(".")
    assert (name, uid, len(digest)) == (LONG[:200], LONG[:8], 10)
    assert (event["note"], event["reportingInstance"]) == (LONG[:1024], LONG[:128])
    assert pools.contradiction(odd, "u", {"conditions": [{"type": "Read", "message": LONG}]}, "here", at(0)) is None
    assert pools.contradiction(odd, "u", {"conditions": [{"type": "Other", "message": LONG}]}, "here", at(0))


KILLED = "Container train for pod team/p failed with exit code {} matching FailJob rule at index 0"


@pytest.mark.parametrize(
    ("change", "without"),
    [
        ({"message": KILLED.format(137)}, True),
        ({"message": KILLED.format(143)}, True),
        ({"message": KILLED.format(1)}, False),
        ({"message": "x", "reason": "BackoffLimitExceeded"}, True),
        ({"message": "x", "reason": "Other"}, False),
    ],
)
def test_which_failed_job_only_says_that_a_pod_is_gone(change: dict[str, str], without: bool) -> None:
    assert observing.without_cause(replace(WHOLE, **change)) is without


def test_the_pod_that_most_likely_failed_first_is_named() -> None:
    def failed(name: str, **more: Any) -> Any:
        return replace(PLAIN, name=name, phase="Failed", **{"exit_code": 1, **more})

    def first(*pods: Any) -> str:
        return observing.ended_pods(replace(WHOLE, pods=len(pods)), pods).message.split()[1]

    assert first(failed("b"), failed("a")) == "a"
    assert first(failed("a", exit_code=None), failed("b")) == "b"
    assert first(failed("a", exit_code=143), failed("b")) == "b"
    assert first(failed("a"), failed("b", exit_code=137, reason="OOMKilled")) == "b"
    assert first(failed("a", missed=Missed(1)), failed("b")) == "b"
    running = replace(PLAIN, name="a", phase="Running", exit_code=0)
    assert first(running, replace(PLAIN, name="b", phase="Running", exit_code=2)) == "b"


def test_a_child_whose_pods_do_not_start() -> None:
    two = replace(WHOLE, pods=2)
    bound = replace(PLAIN, waiting_reason="ContainerCreating", waiting_message="pulling")
    plain = observing.observe(two, [bound, replace(PLAIN, name="q")])
    assert (plain.state, plain.stuck, plain.checking) == (State.STARTING, "", False)
    assert plain.message == "0 of 2 pods run; pod p starts on node n: ContainerCreating (pulling)"
    assert observing.observe(two, [PLAIN, PLAIN]).message == "0 of 2 pods run; pod p starts on node n"
    over = replace(bound, check=Check(True, True), waiting_reason="ErrImagePull")
    assert (observing.observe(two, [over, over]).stuck, observing.observe(two, [over, over]).checking) == (
        "ImagePullBackOff",
        False,
    )
    assert observing.observe(two, [replace(PLAIN, check=Check(True, True))] * 2).checking
    assert observing.observe(two, [replace(PLAIN, check=Check(False))] * 2).checking


def ended(
    name: str, index: int | None, *, ran: bool = True, failed: bool = True, missed: Missed | None = None
) -> Ended:
    return Ended(name, "n", index, ran, failed, missed or Missed(60, sought=True))


def test_the_pods_that_did_not_meet_are_named_in_their_order() -> None:
    pods = [ended("c", None), ended("b", 2), ended("d", 0), ended("a", 1)]
    said = why_not_met(pods, 4)
    assert "pod d on node n looked for 60 s for pod 0 and got no answer; pod a on" in said
    assert "pod b" not in said
    assert why_not_met([ended("b", None), ended("a", None)], 2).index("pod a") < why_not_met(
        [ended("b", None), ended("a", None)], 2
    ).index("pod b")
    assert why_not_met(pods, 1) == ""
