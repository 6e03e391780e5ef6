"""A child Job that something else suspends and resumes, in thousands of random orders of what the two watches show.

The Job controller may write its condition Suspended or not (its write may conflict with the resumption), the operator may see any
part of it, late, or start again in between: the attempt goes on, and what ends it afterwards is reported as it is.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest
from test_failed_attempts import BEGAN
from test_what_is_no_end_of_a_job import Run, running

from gpujob.cluster.index.owned_objects import DepartedPods
from gpujob.lifecycle.actions import Finish, WriteStatus
from gpujob.lifecycle.sightings import Sightings
from gpujob.status.records.objects import PodState

EXITED = "Container train for pod team/{} failed with exit code {} matching FailJob rule at index 1"
DELETED = ("Restarting", "Infrastructure", "PodDeleted")
ENDINGS = {
    "ends well": ("Succeeded", None, "Succeeded"),
    "fails": ("Failed", "User", "PodFailed"),
    "deleted": DELETED,
    "deleted, and it ends well": DELETED,
    "drained": ("Restarting", "Infrastructure", "Evicted"),
}
GRACE = 30


def at(second: float) -> str:
    return (BEGAN + timedelta(seconds=int(second))).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass
class Cluster:
    """What happens, by the second: the Job's conditions and its pods; None for a pod that is gone."""

    chance: random.Random
    pods: int
    ends: str
    job: list[tuple[float, dict[str, Any]]] = field(default_factory=lambda: [(-9.0, {})])
    events: list[tuple[float, str, PodState | None]] = field(default_factory=list)
    decided: float = 0.0
    """When what ends the attempt begins."""

    def says(self, second: float, **more: Any) -> None:
        held = self.job[-1][1]
        written = "paused" in more and more["paused"] is not held.get("paused", False)
        self.job.append((second, {**held, **more, "generation": held.get("generation", 1) + written}))

    def shows(self, second: float, pod: PodState) -> PodState:
        self.events.append((second, pod.name, pod))
        return pod

    def runs(self, second: float, turn: int) -> list[PodState]:
        """New pods, which run soon."""
        made = [
            replace(running(number), name=f"t{turn}-{number}", index=number, created=at(second))
            for number in range(self.pods)
        ]
        for pod in made:
            if second >= 0:
                self.shows(second, replace(pod, phase="Pending", running=False))
            self.shows(second + self.chance.uniform(0.3, 3.0) if second >= 0 else second, pod)
        return made

    def asked(self, second: float, pod: PodState, *, disruption: str = "", released: bool = False) -> PodState:
        """Its deletion is requested; a suspension and a failing Job take the finalizer off."""
        gone = {"leaving": True, "gone_at": at(second + GRACE), "grace": GRACE}
        more = {"disruption": disruption, "disrupted_at": at(second)} if disruption else {}
        return self.shows(second, replace(pod, **gone, **more, released=released))

    def ended(self, second: float, pod: PodState, code: int, *, goes: bool = True) -> float:
        """Its program ends, and the pod is gone then; when."""
        over = {"phase": "Failed" if code else "Succeeded", "running": False, "exit_code": code, "ended": at(second)}
        self.shows(second, replace(pod, **over))
        if not goes:
            return second
        self.events.append((second + self.chance.uniform(0.05, 2.0), pod.name, None))
        return self.events[-1][0]

    def suspension(self, second: float, pods: list[PodState]) -> float:
        """The Job is suspended and resumed; when all its pods have ended."""
        resumed = second + self.chance.choice((self.chance.uniform(0.05, 0.6), self.chance.uniform(1.0, 25.0)))
        acts = second + self.chance.uniform(0.01, 1.0)
        written = acts < resumed and self.chance.random() < 0.5
        self.says(second, paused=True)
        if acts < resumed or self.chance.random() < 0.5:
            leaving = [self.asked(acts, pod, released=True) for pod in pods]
        else:
            # The Job controller never saw that it was suspended.
            self.says(resumed, paused=False)
            return -1.0
        if written:
            after = resumed + self.chance.uniform(0.01, 0.9)
            self.says(after, paused=False, resumed=at(after))
        else:
            self.says(resumed, paused=False)
        times = [
            self.ended(acts + self.chance.uniform(0.1, 14.0), pod, self.chance.choice((0, 0, 1, 137, 143)))
            for pod in leaving
        ]
        return max(resumed, *times) + self.chance.uniform(0.1, 1.0)

    def ending(self, second: float, pods: list[PodState]) -> None:
        """What ends the attempt at last."""
        self.decided = second
        if self.ends == "ends well":
            for pod in pods:
                self.ended(second + self.chance.uniform(0.0, 3.0), pod, 0, goes=False)
            self.says(second + 4.0, ended="Complete")
            return
        first, others = pods[0], pods[1:]
        began = second + 1.2
        if self.ends == "fails":
            self.ended(second, first, 3, goes=False)
        else:
            drained = self.ends == "drained"
            leaves = self.asked(second, first, disruption="EvictionByEvictionAPI" if drained else "")
            well = self.ends == "deleted, and it ends well"
            ended = second + self.chance.uniform(0.1, 9.0)
            self.ended(ended, leaves, 0 if well else 143)
            began = ended + 1.2
            if well:
                if not others:
                    self.says(began, ended="Complete")
                return
        code = 3 if self.ends == "fails" else 143
        said = EXITED.format(first.name, code)
        if self.ends == "drained":
            said = f"Pod team/{first.name} has condition DisruptionTarget matching FailJob rule at index 0"
        self.says(began, failing_since=at(began))
        # The Job ends the others; its finalizers go after its condition.
        last = began
        for pod in others:
            leaves = self.asked(began + 0.01, pod)
            released = self.shows(began + 0.1, replace(leaves, released=True))
            last = max(last, self.ended(began + self.chance.uniform(0.2, 9.0), released, self.chance.choice((1, 143))))
        self.says(last + 0.1, ended="Failed", reason="PodFailurePolicy", message=said)


class Operator(Run):
    """Looks at random moments, with a delay of its own of each watch; may start again before the end is decided."""

    def play(self, cluster: Cluster, chance: random.Random) -> dict[str, Any]:
        late, pods_late = chance.choice((0.0, 0.3, 4.0)), chance.choice((0.0, 0.3, 4.0))
        over = max(cluster.job[-1][0], *(second for second, *_ in cluster.events)) + 10.0
        looks = sorted(chance.uniform(-1.0, over) for _ in range(chance.choice((3, 8, 16))))
        looks += [over + second for second in (0.0, 5.0, 60.0, 130.0, 200.0)]
        restart = chance.uniform(0.0, cluster.decided) if chance.random() < 0.3 else -1.0
        return self.follow(cluster, looks, (late, pods_late), restart)

    def follow(
        self, cluster: Cluster, looks: list[float], behind: tuple[float, float], restart: float = -1.0
    ) -> dict[str, Any]:
        """Looks at these seconds; `behind`: how late the watches of Jobs and of pods are; `restart`: when it starts again."""
        late, pods_late = behind
        kept, known, last = DepartedPods(), dict[str, PodState](), -99.0
        events = sorted(cluster.events, key=lambda each: each[0])
        for second in looks:
            if last < restart <= second:
                self.sightings, kept = Sightings(), DepartedPods()
            job = [said for when, said in cluster.job if when + late <= second][-1]
            child = replace(self.child(**job), namespace="team")
            if child.paused:
                kept.forget(("team", child.name))
            for when, name, pod in events:
                if not last < when + pods_late <= second:
                    continue
                if pod is not None:
                    known[name] = replace(pod, namespace="team")
                elif (gone := known.pop(name, None)) is not None and second > restart:
                    kept.put(gone, child)
            self.departed = kept.of(child)
            last = second
            action = self.look(second, sorted(known.values(), key=lambda pod: pod.name), **job).action
            if isinstance(action, WriteStatus | Finish):
                self.status = dict(action.status)
                if self.status["state"] not in ("Placed", "Starting", "Running"):
                    return self.status
        return self.status


def stories(seed: int, ends: str, pods: int, suspensions: int) -> tuple[Cluster, random.Random]:
    chance = random.Random(f"{seed} {ends} {pods} {suspensions}")
    cluster = Cluster(chance, pods, ends)
    now, there = 2.0, cluster.runs(-2.0, 0)
    for turn in range(1, suspensions + 1):
        after = cluster.suspension(now + chance.uniform(0.0, 4.0), there)
        if after >= 0:
            there = cluster.runs(after, turn)
            now = after + 4.0
        else:
            now += 12.0
    cluster.ending(now + chance.uniform(0.0, 9.0), there)
    return cluster, chance


def judged(status: dict[str, Any]) -> tuple[Any, Any, Any]:
    (entry,) = status.get("attempts") or [{}]
    return status["state"], entry.get("blame"), entry.get("reason")


def cases() -> Iterator[tuple[str, int, int]]:
    for ends in ENDINGS:
        for pods in (1, 3):
            for suspensions in (0, 1, 2):
                yield ends, pods, suspensions


WATCHES = [(0.0, 0.0), (0.3, 0.0), (4.0, 0.0), (0.0, 0.3), (0.0, 4.0)]


def failed_by_suspension(chance: random.Random, pods: int, code: int) -> tuple[Cluster, float]:
    """A Job that is suspended, maybe resumed, and fails by a pod that this ended; and when it begins to fail."""
    cluster = Cluster(chance, pods, "")
    there = cluster.runs(-2.0, 0)
    cluster.says(4.0, paused=True)
    leaving = [cluster.asked(4.1, pod, released=True) for pod in there]
    failed = chance.uniform(5.0, 14.0)
    resumed = chance.uniform(4.5, 18.0)
    if resumed < failed:
        cluster.says(resumed, paused=False, **({"resumed": at(resumed)} if chance.random() < 0.5 else {}))
    for pod in leaving:
        cluster.ended(failed, pod, code)
    began = failed + chance.uniform(0.01, 1.0)
    cluster.says(began, failing_since=at(began))
    said = EXITED.format(leaving[-1].name, code)
    cluster.says(began + 0.1, ended="Failed", reason="PodFailurePolicy", message=said)
    return cluster, began


@pytest.mark.parametrize("pods", [1, 3])
@pytest.mark.parametrize("code", [1, 143])
@pytest.mark.parametrize("late", WATCHES)
def test_a_job_that_fails_by_a_pod_of_before_blames_neither_user_nor_node(
    pods: int, code: int, late: tuple[float, float]
) -> None:
    """The Job controller applies its podFailurePolicy to a pod that it has ended itself, before or after the resumption."""
    for seed in range(25):
        cluster, _ = failed_by_suspension(random.Random(f"{seed} {pods} {code} {late}"), pods, code)
        looks = [second / 5 for second in range(200)]
        found = judged(Operator(pods).follow(cluster, looks, late))
        assert found == ("Restarting", "Kubernetes", "PodReplaced"), seed


@pytest.mark.parametrize("pods", [1, 3])
@pytest.mark.parametrize("late", WATCHES)
def test_an_operator_that_was_off_meanwhile_blames_nothing_either(pods: int, late: tuple[float, float]) -> None:
    """The pods are gone, or show only that they were asked to end: the Job's generation says that it was suspended."""
    for seed in range(40):
        chance = random.Random(f"off {seed} {pods} {late}")
        cluster, began = failed_by_suspension(chance, pods, chance.choice((1, 143)))
        # It sees the Job fail when it is back: what it sees for itself before that is certain.
        off, on = chance.uniform(0.0, began), began + late[0] + chance.choice((0.3, 1.0, 30.0))
        looks = [second / 5 for second in range(400) if not off <= second / 5 < on]
        found = judged(Operator(pods).follow(cluster, looks, late, restart=on))
        assert found == ("Restarting", "Kubernetes", "PodReplaced"), seed


@pytest.mark.parametrize(
    ("generation", "paused", "reason"),
    [(0, False, "PodDeleted"), (1, False, "PodDeleted"), (2, False, "PodDeleted"), (3, False, "PodReplaced"),
     (1, True, "PodDeleted"), (2, True, "PodReplaced")],
)  # fmt: skip
def test_a_job_that_was_never_suspended_leaves_no_warning(generation: int, paused: bool, reason: str) -> None:
    """A child that admission created suspended is resumed by one change of its spec, and another change suspends it again."""
    said = {"message": EXITED.format("gone", 1), "failing_since": at(9), "generation": generation, "paused": paused}
    status = Operator(1).status_after(10.0, [], "Failed", **said)
    assert status["attempts"][0]["reason"] == reason


@pytest.mark.parametrize(("ends", "pods", "suspensions"), list(cases()))
def test_no_order_of_a_suspension_is_read_as_an_end(ends: str, pods: int, suspensions: int) -> None:
    for seed in range(70):
        cluster, chance = stories(seed, ends, pods, suspensions)
        assert judged(Operator(pods).play(cluster, chance)) == ENDINGS[ends], seed
