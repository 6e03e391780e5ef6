"""What becomes of a reading: clocks of nodes may be wrong, attempts follow each other, remedies are of the pods as they are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gpujob.api.manifest import read_gpujob
from gpujob.catalog.files.load import load_catalog
from gpujob.cluster.cache.object_cache import ObjectCache
from gpujob.cluster.cache.watched_kinds import mirrored
from gpujob.cluster.index.cluster_index import ClusterIndex
from gpujob.cluster.queue.work_queue import ControllerState
from gpujob.cluster.telemetry import scraper
from gpujob.cluster.telemetry.fetching import AT_ONCE, Unreached, reading_session, reading_slots
from gpujob.cluster.telemetry.scraper import Scraper
from gpujob.fleet.kubernetes.host_ports import report_port
from gpujob.render.attempt import Numbered
from gpujob.status.attempts.progress import FaultSeen, Measured
from gpujob.status.records.objects import JobRecord
from gpujob.status.records.read_objects import read_job
from gpujob.values.names import child_name
from gpujob.values.vocabulary import Label, Reason

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
LONG = ".".join(["long" * 15] * 4)


class Reading:
    """An operator that reads the pod of one job; it gets what the pod answers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str = "j") -> None:
        self.seconds, self.answer, self.on_host_network = 0.0, b"", False
        self.asked: list[int] = []
        self.meanwhile: Callable[[], None] = lambda: None
        cache = ObjectCache(mirrored("gpujob-runner-x"))
        wall = lambda: NOW + timedelta(seconds=self.seconds)  # noqa: E731
        self.work = ControllerState(ClusterIndex(cache, load_catalog()), clock=lambda: self.seconds, wall=wall)
        self.scraper = Scraper(self.work, lambda: True, "gpujob-system")
        metadata = {"name": name, "namespace": "team", "uid": "u"}
        self.document = {"apiVersion": "gpujob.dev/v1alpha1", "kind": "GPUJob", "metadata": metadata, "spec": {}}
        self.job: JobRecord = read_job({**self.document, "status": {"state": "Running"}})
        monkeypatch.setattr(scraper, "fetch", self.fetch)
        self.attempt(1)

    def attempt(self, number: int) -> None:
        """The attempt of that number, with one pod that runs, and no other."""
        labels = {Label.JOB_UID: "u", Label.ATTEMPT: str(number)}
        cache, child = self.work.index.cache, child_name(self.job.name, "u", number)
        cache.replace("gpujobs", [{**self.document, "status": {"attempt": number - 1}}], str(10 * number))
        cache.replace("jobs", [_object(child, labels, "GPUJob", "u")], str(10 * number))
        pod = _object(f"{child}-0-x", labels, "Job", child)
        pod["metadata"]["annotations"] = {"batch.kubernetes.io/job-completion-index": "0"}
        pod["spec"] = {
            "nodeName": "n",
            "hostNetwork": self.on_host_network,
            "containers": [{"name": "train", "ports": [{"name": "telemetry", "containerPort": 9466}]}],
        }
        running = [{"name": "train", "state": {"running": {}}}]
        pod["status"] = {"phase": "Running", "podIP": "10.0.0.1", "containerStatuses": running}
        cache.replace("pods", [pod], str(10 * number))
        self.work.index.take(cache.take_changes())

    async def fetch(self, session: object, host: object, port: int) -> bytes:
        self.asked.append(port)
        self.meanwhile()
        if not self.answer:
            raise Unreached("no connection within 1.5 seconds")
        return self.answer

    async def read(self, seconds: float, answer: str = "") -> None:
        """One reading at that time."""
        self.seconds, self.answer = seconds, answer.encode()
        pod = self.scraper._first_pod("u")
        assert pod is not None
        async with reading_session() as session:
            await self.scraper._read_one(session, self.job, pod)

    @property
    def measured(self) -> Measured:
        found = self.work.telemetry["u"].measured
        assert found is not None
        return found


def _object(name: str, labels: dict[str, str], kind: str, owner: str) -> dict[str, Any]:
    owners = [{"kind": kind, "name": owner, "uid": owner, "controller": True}]
    metadata = {"name": name, "namespace": "team", "uid": name, "labels": labels, "ownerReferences": owners}
    return {"metadata": metadata, "spec": {}}


async def test_the_policy_to_add_selects_the_pods_of_a_job_with_a_long_name(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = Reading(monkeypatch, LONG)
    for seconds in (0.0, 60.0):
        await reading.read(seconds)
    (update,) = reading.work.telemetry["u"].updates
    carried = Numbered(read_gpujob(reading.document), 1).labels[Label.JOB]
    assert len(carried) == 63 < len(LONG)
    assert f"podSelector {{gpujob.dev/job: {carried}}} and" in update.message


@pytest.mark.parametrize(("told", "taken"), [(253402300799, NOW.timestamp()), (1, 1.0)])
async def test_a_time_to_come_is_now(monkeypatch: pytest.MonkeyPatch, told: int, taken: float) -> None:
    reading = Reading(monkeypatch)
    text = f"gpujob_up 1\ngpujob_checkpoint_step 7\ngpujob_checkpoint_timestamp_seconds {told}\n"
    await reading.read(0.0, f"{text}gpujob_last_step_timestamp_seconds {told}\n")
    assert reading.measured.checkpoint_at is not None
    assert (reading.measured.checkpoint_at.timestamp(), reading.measured.last_step_at) == (taken, taken)


@pytest.mark.parametrize("hours", [-5, 0, 5])
async def test_when_the_last_step_was_is_seen_and_not_believed(monkeypatch: pytest.MonkeyPatch, hours: int) -> None:
    reading, began = Reading(monkeypatch), NOW.timestamp()
    told = f"gpujob_up 1\ngpujob_last_step_timestamp_seconds {began + 3600 * hours}\ngpujob_steps_total "
    for seconds, steps in ((0.0, 5), (15.0, 9), (30.0, 9), (45.0, 9)):
        await reading.read(seconds, f"{told}{steps}\n")
    assert reading.measured.last_step_at == began + 15


async def test_a_reading_that_comes_after_another_attempt_began_is_not_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = Reading(monkeypatch)
    reading.meanwhile = lambda: reading.attempt(2)
    await reading.read(0.0, "gpujob_up 1\ngpujob_steps_total 700\n")
    assert reading.work.telemetry == {}
    reading.meanwhile = lambda: None
    await reading.read(15.0, "gpujob_up 1\ngpujob_steps_total 3\n")
    assert reading.measured.counters == {"steps": 3.0}


class GangOf(Reading):
    """A job with more pods than one, each of which answers for itself."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, pods: int) -> None:
        super().__init__(monkeypatch)
        self.answers: dict[str, str] = {}
        self.read_of: list[str] = []
        cache, child = self.work.index.cache, child_name("j", "u", 1)
        labels = {Label.JOB_UID: "u", Label.ATTEMPT: "1"}
        job = _object(child, labels, "GPUJob", "u")
        cache.replace("jobs", [{**job, "spec": {"completions": pods}}], "20")
        made = [_object(f"p{number}", labels, "Job", child) for number in range(pods)]
        for number, pod in enumerate(made):
            pod["metadata"]["annotations"] = {"batch.kubernetes.io/job-completion-index": str(number)}
            port = {"name": "telemetry", "containerPort": 9466}
            pod["spec"] = {"nodeName": f"n{number}", "containers": [{"name": "train", "ports": [port]}]}
            running = [{"name": "train", "state": {"running": {}}}]
            pod["status"] = {"phase": "Running", "podIP": f"10.0.1.{number}", "containerStatuses": running}
        cache.replace("pods", made, "20")
        self.work.index.take(cache.take_changes())

    async def fetch(self, session: object, host: object, port: int, path: str = "/metrics") -> bytes:
        pod = f"p{str(host).rpartition('.')[2]}"
        self.read_of.append(pod)
        return (self.answers.get(pod) or "gpujob_up 1\n").encode()


FAULT = 'gpujob_up 1\ngpujob_device_fault_timestamp_seconds{{rank="0",device="GPU-1",fault="{}"}} 1767268800\n'


async def test_all_pods_of_a_gang_are_read_for_faults_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    gang = GangOf(monkeypatch, 32)
    gang.answers = {"p0": FAULT.format("Xid-31"), "p7": FAULT.format("Xid-79"), "p8": FAULT.format("Xid-94")}
    most = 0
    for turn in range(scraper.TURNS):
        gang.read_of.clear()
        await gang.read(15.0 * turn, "gpujob_up 1\n")
        most = max(most, len(gang.read_of))
    assert most <= 3, "the first, and two of the others"
    assert gang.measured.faults == (FaultSeen("p7", "Xid 79", "GPU-1", "2026-01-01T12:00:00Z"),)
    gang.work.dirty.clear()
    # It stays known while the first pod is read alone, and makes the job due once.
    for turn in range(3):
        await gang.read(400.0 + 15.0 * turn, "gpujob_up 1\n")
        assert [each.pod for each in gang.measured.faults] == ["p7"]
    assert gang.work.dirty == set()


async def test_a_fault_makes_the_job_due_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    gang = GangOf(monkeypatch, 1)
    await gang.read(0.0, "gpujob_up 1\n")
    gang.work.dirty.clear()
    gang.answers["p0"] = FAULT.format("Xid-79")
    await gang.read(15.0, "gpujob_up 1\n")
    assert [each.what for each in gang.measured.faults] == ["Xid 79"]
    assert "u" in gang.work.dirty


@pytest.mark.parametrize("answer", ["", "no report", 'gpujob_up 1\ngpujob_attempt_info{job_uid="v",attempt="1"} 1\n'])
async def test_a_pod_that_cannot_be_read_or_answers_for_another_has_no_faults(
    monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    gang = GangOf(monkeypatch, 2)
    fault = FAULT.format("Xid-79").partition("\n")[2]
    gang.answers["p1"] = answer + fault if answer else "x"
    for turn in range(scraper.TURNS):
        await gang.read(15.0 * turn, "gpujob_up 1\n")
    assert gang.measured.faults == ()


def report_of(uid: str, attempt: int) -> str:
    return f'gpujob_up 1\ngpujob_attempt_info{{job_uid="{uid}",attempt="{attempt}"}} 1\ngpujob_steps_total 700\n'


async def test_a_gang_on_the_network_of_its_nodes_is_read_at_its_attempt_s_port(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reading = Reading(monkeypatch)
    reading.on_host_network = True
    for number in (1, 2):
        reading.attempt(number)
        await reading.read(15.0 * number, report_of("u", number))
        assert reading.measured.counters == {"steps": 700.0}
    assert reading.asked == [report_port(child_name("j", "u", number)) for number in (1, 2)]


@pytest.mark.parametrize("on_host_network", [True, False])
@pytest.mark.parametrize("answer", [report_of("another", 1), report_of("u", 2)])
async def test_nothing_is_counted_of_what_another_job_or_attempt_reports(
    monkeypatch: pytest.MonkeyPatch, answer: str, on_host_network: bool
) -> None:
    reading = Reading(monkeypatch)
    reading.on_host_network = on_host_network
    reading.attempt(1)
    for seconds in (0.0, 60.0):
        await reading.read(seconds, answer)
    seen = reading.work.telemetry["u"]
    assert seen.measured is None
    assert [update.reason for update in seen.updates] == [Reason.REPORT_OF_ANOTHER]
    assert reading.scraper.results == {"ReportOfAnother": 2}
    await reading.read(75.0, report_of("u", 1))
    assert reading.measured.counters == {"steps": 700.0}


async def test_on_the_network_of_a_node_a_report_must_say_whose_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = Reading(monkeypatch)
    reading.on_host_network = True
    reading.attempt(1)
    await reading.read(0.0, "gpujob_up 1\ngpujob_steps_total 700\n")
    assert reading.work.telemetry == {}


async def test_a_firewall_of_nodes_is_the_remedy_on_their_network(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = Reading(monkeypatch)
    reading.on_host_network = True
    reading.attempt(1)
    for seconds in (0.0, 60.0):
        await reading.read(seconds)
    (update,) = reading.work.telemetry["u"].updates
    assert update.reason is Reason.TELEMETRY_BLOCKED
    assert "firewall" in update.message
    assert "NetworkPolicy" not in update.message


async def test_the_counters_of_a_job_go_back_only_when_its_program_began_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = Reading(monkeypatch)

    async def told(seconds: float, reporting: int, *tokens: int) -> float:
        ranks = "".join(f'gpujob_tokens_total{{rank="{rank}"}} {count}\n' for rank, count in enumerate(tokens))
        head = f"gpujob_up 1\ngpujob_world_size 2\ngpujob_ranks_reporting {reporting}\n"
        await reading.read(seconds, f'{head}gpujob_steps_total{{rank="0"}} {tokens[0] // 10}\n{ranks}')
        return reading.measured.counters["tokens"]

    assert await told(0, 2, 1000, 1400) == 2400
    assert await told(15, 1, 1100) == 2400, "the process with more tokens has ended"
    assert await told(30, 1, 1300) == 2600
    assert await told(45, 2, 50, 60) == 110, "another run of the program"


async def test_a_job_that_ends_before_a_second_reading_has_a_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty seconds of steps were read once, and the job's status had no speed."""
    reading = Reading(monkeypatch)
    steps = "gpujob_up 1\ngpujob_steps_total {}\ngpujob_first_step_timestamp_seconds 100\n"
    await reading.read(15, steps.format(51) + "gpujob_last_step_timestamp_seconds 110\n")
    assert reading.measured.rates == {"steps": 5.0}
    await reading.read(30, steps.format(201) + "gpujob_last_step_timestamp_seconds 125\n")
    assert reading.measured.rates == {"steps": 10.0}


async def test_samples_that_come_after_the_first_reading_are_the_measure_of_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first reading may come before the first batch."""
    reading = Reading(monkeypatch)
    told = ("gpujob_up 1", 'gpujob_world_size{rank="0"} 4', "gpujob_ranks_reporting 1")
    for seconds, steps, samples in ((0.0, 0, None), (15.0, 100, 3200), (30.0, 200, 6400)):
        of_samples = () if samples is None else (f'gpujob_samples_total{{rank="0"}} {samples}',)
        await reading.read(seconds, "\n".join((*told, f'gpujob_steps_total{{rank="0"}} {steps}', *of_samples)))
    measured = reading.work.telemetry["u"].measured
    assert measured is not None
    assert measured.overall["samples"] == pytest.approx(4 * 3200 / 15)
    assert (measured.rates.keys(), measured.seconds) == ({"steps", "samples"}, 30.0)


def test_the_pod_of_a_running_job_without_a_reporter_is_searched_each_five_seconds_and_not_each_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each search costs as much as all that is done for a job that is not due."""
    reading, searches = Reading(monkeypatch), list[float]()
    reading.work.index.running["u"] = reading.job
    monkeypatch.setattr(reading.scraper, "_first_pod", lambda uid: searches.append(reading.seconds))
    for second in range(12):
        reading.seconds = float(second)
        assert reading.scraper._due() == []
    assert searches == [0.0, 5.0, 10.0]


def test_a_pod_that_comes_later_is_found_and_read_within_its_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, due = Reading(monkeypatch), list[float]()
    reading.work.index.running["u"] = reading.job
    find = reading.scraper._first_pod
    monkeypatch.setattr(reading.scraper, "_first_pod", lambda uid: find(uid) if reading.seconds >= 3 else None)
    for second in range(40):
        reading.seconds = float(second)
        due += [reading.seconds for _ in reading.scraper._due()]
    assert len(due) >= 2
    assert due[0] <= 5 + scraper.EVERY


async def test_one_namespace_alone_has_as_many_readings_in_flight_as_any_may() -> None:
    slots, held = reading_slots(), list[int]()

    async def read(number: int) -> None:
        async with slots.slot("team", urgent=False):
            held.append(number)
            await asyncio.sleep(60)

    readings = [asyncio.create_task(read(number)) for number in range(AT_ONCE + 1)]
    for _ in range(3):
        await asyncio.sleep(0)
    assert held == list(range(AT_ONCE))
    for each in readings:
        each.cancel()
    await asyncio.gather(*readings, return_exceptions=True)


async def test_pods_that_do_not_answer_delay_the_readings_of_no_other_namespace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reading, silent, read = Reading(monkeypatch), asyncio.Event(), list[str]()
    pod = reading.scraper._first_pod("u")
    assert pod is not None
    names = [("evil", f"e{number}") for number in range(3 * AT_ONCE)] + [("team", f"t{number}") for number in range(40)]
    jobs = [replace(reading.job, namespace=namespace, uid=uid) for namespace, uid in names]

    async def read_pod(session: object, job: JobRecord, pod: object) -> str:
        if job.namespace == "evil":
            await silent.wait()
        read.append(job.uid)
        return "nothing, since none of them has a child by now"

    monkeypatch.setattr(reading.scraper, "_read", read_pod)
    monkeypatch.setattr(reading.scraper, "_due", lambda: [(job, pod) for job in jobs])
    monkeypatch.setattr(ObjectCache, "complete", True)
    run = asyncio.create_task(reading.scraper.run())
    for _ in range(200):
        await asyncio.sleep(0)
    assert read == [f"t{number}" for number in range(40)]
    silent.set()
    for _ in range(200):
        await asyncio.sleep(0)
    assert len(read) == len(set(read)) == len(jobs), "each once in a round, however long it takes"
    run.cancel()
    await asyncio.gather(run, return_exceptions=True)
