"""Answers that pass leave nothing behind: a dead API server, a restarted one, a webhook that is away, a full quota."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from gpujob.cluster.client.api_errors import (
    ApiError,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    OutcomeUnknown,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from gpujob.cluster.queue.creations import TRIES
from tests.simulation.api_server import Object, Program
from tests.simulation.operator_process import Trouble
from tests.simulation.virtual_time import run
from tests.simulation.world import Story, World

AWAY: Final = 'Internal error occurred: failed calling webhook "v.example.com": connection refused'
LONG: Final = Program(runs_for=0.0)


class Watched(World):
    """A world of jobs of one node each that begins with trouble; it notes every state and reason that a status had, and when."""

    def __init__(self, jobs: int, trouble: Trouble, ends: float, *, nodes: int = 1, until: float = 400.0) -> None:
        submit = [(0.5, self._submit(number, nodes)) for number in range(jobs)]
        super().__init__(Story("outage", tuple(submit), LONG, nodes=jobs * nodes, until=until))
        self.trouble, self.ends = trouble, ends
        self.began: dict[str, float] = {}
        self.said: list[tuple[float, str, str, str]] = []
        self.server.on_change.append(self._note)

    def _submit(self, number: int, nodes: int) -> Callable[[World], None]:
        return lambda world: world.submit(f"j{number}", nodes=nodes, gpusPerNode=8)

    def _note(self, plural: str, _: str, obj: Object) -> None:
        if plural == "gpujobs" and (status := obj.get("status")):
            placed = next((c for c in status["conditions"] if c["type"] == "Placed"), {})
            words = (str(status["state"]), str(status["display"]["reason"]), str(placed.get("message")))
            if words[0] in ("Placed", "Running"):
                self.began.setdefault(obj["metadata"]["name"], self.server.loop.time())
            self.said.append((self.server.loop.time(), *words))

    def begin(self, _: World) -> None:
        process, loop = self.processes[0], self.server.loop
        process.trouble = lambda verb, path: self.trouble(verb, path) if loop.time() < self.ends else None

    def placed_by(self) -> float:
        """When the last job got its child and its status said so."""
        assert len(self.live_children()) == len(self.server.objects["gpujobs"])
        states = [job["status"]["state"] for job in self.server.objects["gpujobs"].values()]
        assert set(states) == {"Running"}, states
        return max(self.began.values())


def play(jobs: int, trouble: Trouble, ends: float, *, nodes: int = 1, until: float = 400.0) -> Watched:
    async def main() -> Watched:
        world = Watched(jobs, trouble, ends, nodes=nodes, until=until)
        await world.run(world.begin)
        return world

    return run(main())  # type: ignore[no-any-return]


def on(plural: str, error: ApiError) -> Trouble:
    """An error of each create of a kind; everything else goes well."""
    return lambda verb, path: error if verb in ("create", "patch") and path.endswith(plural) else None


def always(error: ApiError) -> Trouble:
    return lambda verb, path: error


OUTAGES: Final = {
    "unreachable": Unreachable(0, "ClientConnectorError", "connection refused"),
    "no answer": OutcomeUnknown(0, "Timeout", "timeout"),
    "500": OutcomeUnknown(500, "InternalError", "etcdserver: request timed out"),
    "503": ApiError(503, "ServiceUnavailable", "not ready", retry_after=1),
    "429": TooManyRequests(429, "TooManyRequests", "busy", retry_after=1),
    "401": Unauthorized(401, "Unauthorized", "the token is not valid"),
    "502 of a proxy": ApiError(502, "BadGateway", "upstream is away"),
}


@pytest.mark.parametrize("kind", OUTAGES)
def test_after_a_quarter_of_an_hour_without_an_api_server_all_is_caught_up_within_a_minute(kind: str) -> None:
    world = play(12, always(OUTAGES[kind]), 900.0, until=1100.0)
    assert world.placed_by() <= 960.0
    assert "ChildNotCreated" not in {reason for *_, reason, _ in world.said}, "it says nothing of a job"
    assert world.processes[0].refused_calls <= 12 * 70, (
        "each job asks once in 15 seconds at most, after its first tries"
    )


def test_a_dead_api_server_is_asked_for_one_job_at_a_time() -> None:
    world = play(12, always(OUTAGES["unreachable"]), 900.0, until=1100.0)
    # 900 s / 7.5 s, which is the least of the longest waits; each step may ask a few times.
    assert world.processes[0].refused_calls <= 160


@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize(
    "error",
    [
        OutcomeUnknown(500, "InternalError", AWAY),
        ApiError(504, "Timeout", AWAY),
        TooManyRequests(429, "TooManyRequests", AWAY),
    ],
    ids=lambda error: str(error.status),
)
def test_creates_that_fail_for_140_seconds_recover_and_the_status_said_why(error: ApiError, nodes: int) -> None:
    world = play(3, on("/jobs", error), 140.0, nodes=nodes)
    assert world.placed_by() <= 140.0 + 75.0
    first = min(said for said in world.said if said[2] == "ChildNotCreated")
    assert first[1:] == (
        "Queued",
        "ChildNotCreated",
        f"the API server did not create a child: {AWAY}; it is tried again within 15 s",
    )
    assert 1.0 <= first[0] <= 10.0, "after the second try"
    assert {state for _, state, *_ in world.said} <= {"Queued", "Placed", "Running", "Starting"}
    assert sum(said[2] == "ChildNotCreated" for said in world.said) == 3, "once for each job"


@pytest.mark.parametrize("plural", ["/jobs", "/services", "-runner"])
def test_a_child_whose_creation_alone_gets_no_answer_is_said_of_all_jobs_after_the_first_that_hung(plural: str) -> None:
    """A webhook that hangs, or a proxy that drops them; everything else goes well."""

    def is_meant(verb: str, path: str) -> bool:
        return verb in ("create", "patch") and (
            path.endswith(plural) or ("/configmaps/" in path and plural == "-runner")
        )

    def begin(world: Watched) -> None:
        world.begin(world)
        world.processes[0].delay = lambda verb, path: 40.0 * (is_meant(verb, path) and world.server.loop.time() < 300.0)

    async def main() -> Watched:
        error = OutcomeUnknown(0, "TimeoutError", "create: timeout")
        trouble = lambda verb, path: error if is_meant(verb, path) else None  # noqa: E731
        world = Watched(40, trouble, 300.0, nodes=2, until=480.0)
        await world.run(lambda _: begin(world))
        return world

    world = run(main())
    said = [said for said in world.said if said[2] == "ChildNotCreated"]
    words = "the API server did not create a child: no answer within 40 s; it is tried again within 15 s"
    assert {said[1:] for said in said} == {("Queued", "ChildNotCreated", words)}
    assert len(said) == 40, "once for each job"
    assert 40.0 <= min(said)[0] <= 50.0, "after the first that hung: the second try of most is no request"
    assert sum(each[0] > 60.0 for each in said) <= TRIES, "those whose second try is one"
    assert max(said)[0] <= 90.0
    assert world.placed_by() <= 300.0 + 75.0


def test_a_creation_that_was_lost_in_an_outage_says_nothing_of_its_job_when_that_is_over() -> None:
    """Its 40 seconds end ten after the outage: by then everything is answered, and the next try succeeds."""
    ends, lost = 30.0, set[str]()

    def delay(world: Watched, verb: str, path: str) -> float:
        if verb == "create" and path.endswith("/jobs") and world.server.loop.time() < ends:
            lost.add(path)
            return 40.0
        return 0.0

    def begin(world: Watched) -> None:
        process, loop = world.processes[0], world.server.loop
        process.delay = lambda verb, path: delay(world, verb, path)

        def renew() -> None:
            """The Lease is asked for all the time."""
            process.reconciler.work.outage.note(0 if 2.0 < loop.time() < ends else 200)
            loop.call_later(3.0, renew)

        def trouble(verb: str, path: str) -> ApiError | None:
            timed_out = verb == "create" and path in lost and loop.time() < ends + 11.0
            return OutcomeUnknown(0, "TimeoutError", "create: timeout") if timed_out else None

        process.trouble = trouble
        renew()

    async def main() -> Watched:
        world = Watched(3, lambda verb, path: None, ends, until=200.0)
        await world.run(lambda _: begin(world))
        return world

    world = run(main())
    assert lost, "requests were under way"
    assert {reason for *_, reason, _ in world.said} <= {"Placed", "Starting", "Running"}
    assert 40.0 <= world.placed_by() <= 60.0


PASSING: Final = {
    "quota": Forbidden(
        403, "Forbidden", 'jobs.batch "j" is forbidden: exceeded quota: team, requested: count/jobs.batch=1'
    ),
    "terminating": Forbidden(
        403,
        "Forbidden",
        'jobs.batch "j" is forbidden: unable to create new content in namespace team because it is being terminated',
        {"causes": [{"reason": "NamespaceTerminating", "field": "metadata.namespace"}]},
    ),
    "admission not ready": Forbidden(403, "Forbidden", 'jobs.batch "j" is forbidden: not yet ready to handle request'),
    "rights not loaded": Forbidden(
        403, "Forbidden", 'jobs.batch is forbidden: User "op" cannot create resource "jobs" in API group "batch"'
    ),
    "quota not counted": Forbidden(403, "Forbidden", 'jobs.batch "j" is forbidden: status unknown for quota: team'),
    "not served yet": NotFound(404, "NotFound", "the server could not find the requested resource"),
    "quota changed meanwhile": Conflict(
        409, "Conflict", 'Operation cannot be fulfilled on resourcequotas "team": the object has been modified'
    ),
    "too slow": ApiError(408, "RequestTimeout", "the request took too long"),
}


@pytest.mark.parametrize("plural", ["/jobs", "/services", "-runner"])
@pytest.mark.parametrize("name", PASSING)
def test_a_refusal_that_passes_is_never_misconfigured(name: str, plural: str) -> None:
    trouble = on(plural, PASSING[name])
    if plural == "-runner":
        trouble = lambda verb, path: PASSING[name] if "/configmaps/" in path else None  # noqa: E731
    world = play(2, trouble, 100.0, nodes=2)
    assert {state for _, state, *_ in world.said} <= {"Queued", "Placed", "Running", "Starting"}
    assert {reason for _, state, reason, _ in world.said if state == "Queued"} == {"ChildNotCreated"}
    assert world.placed_by() <= 120.0


@pytest.mark.parametrize("name", PASSING)
def test_nothing_is_said_of_a_refusal_that_passes_at_once(name: str) -> None:
    """A restarted API server, for a gang: its answers within a second do not matter."""
    world = play(1, always(PASSING[name]), 1.0, nodes=2)
    assert {state for _, state, *_ in world.said} <= {"Placed", "Running", "Starting"}


def test_a_long_wait_that_the_api_server_asks_for_is_said_at_once_and_kept() -> None:
    error = TooManyRequests(429, "TooManyRequests", "the webhook of team is busy", retry_after=60)
    world = play(1, on("/jobs", error), 70.0)
    first = world.said[0]
    assert first[0] < 5.0
    assert first[1:] == (
        "Queued",
        "ChildNotCreated",
        "the API server did not create a child: the webhook of team is busy; it is tried again within 60 s",
    )
    assert 120.0 <= world.placed_by() <= 125.0


def test_a_webhook_that_times_out_for_one_namespace_delays_no_job_of_another() -> None:
    """100 jobs of it try again and again for 10 seconds each, and hold no slot that the other one needs."""
    theirs = "/apis/gpujob.dev/v1alpha1/namespaces/other/gpujobs"

    def fill(world: World) -> None:
        for number in range(100):
            job = {"kind": "GPUJob", "metadata": {"name": f"o{number}"}, "spec": {"gpusPerNode": 8}}
            world.server.create(theirs, {"apiVersion": "gpujob.dev/v1alpha1", **job})

    def is_slow(verb: str, path: str) -> bool:
        return verb == "create" and "/namespaces/other/" in path and path.endswith("/jobs")

    def begin(world: World) -> None:
        error = OutcomeUnknown(500, "InternalError", "failed calling webhook: context deadline exceeded")
        process = world.processes[0]
        process.delay = lambda verb, path: 10.0 * is_slow(verb, path)
        process.trouble = lambda verb, path: error if is_slow(verb, path) else None

    async def main() -> object:
        deeds = ((1.0, fill), (60.0, lambda world: world.submit("mine", gpusPerNode=8)))
        world = World(Story("slow webhook", deeds, Program(runs_for=900.0), nodes=101, until=65.0))
        await world.run(begin)
        (mine,) = (job for (_, name), job in world.server.objects["gpujobs"].items() if name == "mine")
        return mine["status"]["state"]

    assert run(main()) == "Running"


def test_a_status_that_may_not_be_written_for_140_seconds_is_written_within_75_more() -> None:
    words = 'gpujobs "j" is forbidden: User "op" cannot patch resource "gpujobs/status"'
    world = play(3, on("/status", Forbidden(403, "Forbidden", words)), 140.0)
    assert world.placed_by() <= 140.0 + 75.0


@pytest.mark.parametrize(
    "error",
    [
        Forbidden(403, "Forbidden", 'admission webhook "v.example.com" denied the request: no GPUs on Fridays'),
        Forbidden(
            403,
            "Forbidden",
            "jobs.batch \"j\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no",
        ),
        Invalid(422, "Invalid", "spec.template: Invalid value"),
        ApiError(400, "BadRequest", 'admission webhook "v.example.com" denied the request: no'),
    ],
    ids=["webhook", "policy", "schema", "webhook that answers 400"],
)
def test_a_child_that_is_refused_for_what_it_is_is_the_users_to_mend(error: ApiError) -> None:
    world = play(1, on("/jobs", error), 30.0)
    first = world.said[0]
    assert first[1:] == ("Misconfigured", "ChildRefused", f"the API server refuses its child: {error.message}")
    assert world.placed_by() <= 90.0


def test_the_own_delay_of_a_job_is_left_alone() -> None:
    async def main() -> Any:
        world = Watched(1, always(OUTAGES["unreachable"]), 600.0, until=500.0)
        await world.run(world.begin)
        return [memory.delay for memory in world.processes[0].reconciler.work.memory.values()]

    assert run(main()) == [0.0]
