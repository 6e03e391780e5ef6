"""Faults on the wire and in the API server, and an operator that was off: the end is that of an undisturbed run, soon after.

docs/guides/operations.md has the table of which fault is proved where.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from typing import Any, Final

import pytest

from gpujob.cluster.client.kubeconfig import connection_from_kubeconfig
from tests.e2e.api_server import JOBS, NODES, ApiServer, AuditLog
from tests.e2e.cluster import Cluster, eventually, remains, restart_component
from tests.e2e.conftest import Fleet, Leaders
from tests.e2e.end_state import assert_one_live_child, created
from tests.e2e.fault_proxy import (
    Asked,
    Effect,
    FaultProxy,
    answered,
    delayed,
    first_of_each_write,
    late,
    lost,
    nth_write,
    on,
    reply_lost,
    status,
)
from tests.e2e.operator_process import OperatorProcess, operator_kubeconfig
from tests.e2e.team import Team
from tests.e2e.test_attempts_after_failures import shut_down

pytestmark = pytest.mark.e2e

SILENCE: Final = 6.0
"""Seconds without a byte after which this operator replaces a watch; 65 by default."""

HEALED_WITHIN: Final = 75.0
"""Seconds from the end of a fault until its jobs are where they would be without it."""

REPLACED_WITHIN: Final = HEALED_WITHIN - 65 + SILENCE
"""The same where nothing but a frozen connection is to be noticed: what the silence here is shorter is taken off."""

ENDS: Final = {"gang": "Succeeded", "one": "Succeeded", "fails": "Failed"}
OF_A_LIFE: Final = ("Placed", "Starting", "Running", "Succeeded", "Failed")
L4: Final = {"accelerators": {"allow": ["L4"]}}


@pytest.fixture(scope="module")
def proxy(cluster: Cluster) -> Iterator[FaultProxy]:
    with FaultProxy(connection_from_kubeconfig(cluster.kubeconfig)) as made:
        yield made


@pytest.fixture(scope="module")
def behind(cluster: Cluster, api: ApiServer, proxy: FaultProxy, leaders: Leaders) -> Iterator[OperatorProcess]:
    """An operator behind the proxy in place of the one of other tests: its watches are silent for seconds, not a minute."""
    leaders.stop()
    kubeconfig = operator_kubeconfig(api, cluster.dir / "behind-faults.kubeconfig", f"http://127.0.0.1:{proxy.port}")
    operator = OperatorProcess(cluster, api, kubeconfig, "behind-faults").in_haste()
    operator.settings["HASTY_SILENCE"] = f"{SILENCE:g}"
    yield operator
    operator.stop()


@pytest.fixture
def excused() -> list[str]:
    """What errors in the operator's log hold, and must hold; nothing, unless a test adds to it."""
    return []


@pytest.fixture
def operator(behind: OperatorProcess, proxy: FaultProxy, excused: list[str]) -> Iterator[OperatorProcess]:
    """The same, leading, with no fault yet; no fault makes it log an error."""
    if not behind.alive:
        behind.start_without_waiting_for_the_lease()
    # After many cuts a watch pauses for up to 15 s: until it is back, nodes of the test before are still there.
    eventually(proxy.watches_are_open, 30, what="every watch open")
    proxy.begin()
    before = len(behind.errors())
    yield behind
    proxy.heal()
    proxy.ahead = 0.0
    errors = behind.errors()[before:]
    assert [line for line in errors if not any(words in line for words in excused)] == []
    assert [words for words in excused if not any(words in line for line in errors)] == []


class Jobs:
    """A gang, one job that succeeds and one that fails, and what the operator wrote for them."""

    def __init__(self, team: Team, audit: AuditLog, proxy: FaultProxy) -> None:
        self.team, self.audit, self.proxy = team, audit, proxy
        self.mark = audit.now()
        self.uids: dict[str, str] = {}

    def submit(self, **more: Any) -> Jobs:
        """Submits all three."""
        team = self.team
        self.uids["gang"] = team.submit("gang", runs_for="1s", nodes=2, gpusPerNode=8, **more)
        self.uids["one"] = team.submit("one", runs_for="0s", placement=L4, **more)
        self.uids["fails"] = team.submit(
            "fails", runs_for="0s", exit_code=3, retries={"infrastructure": 0}, placement=L4, **more
        )
        return self

    def states(self) -> dict[str, str]:
        """The state of each, empty before the first."""
        return {name: self.team.state(name) for name in self.uids}

    def have_ended(self, within: float, since: float | None = None, *, said: int = 0, audited: bool = True) -> float:
        """Waits for the ends of an undisturbed run; gives the seconds since a fault ended, or since now.

        `said`: status writes that each may have had besides those of its life, to say what is wrong. `audited`: whether all that
        the API server did is in its log.
        """
        began = time.monotonic() if since is None else since
        self.team.until_all(self.uids, "Succeeded", "Failed", timeout=began + within - time.monotonic())
        took = time.monotonic() - began
        assert self.states() == ENDS
        for name, uid in self.uids.items():
            found = summary(self.team.status(name))
            assert found == WANTED[name], name
            children = Counter(jobs=1, services=int(name == "gang"))
            assert Counter(jobs=len(self.team.jobs(uid)), services=len(self.team.services(uid))) == children
            assert len(self.team.pods(uid)) == 1 + (name == "gang")
            written = created(self.audit, self.mark, name)
            written.pop("events", 0)
            assert written <= children if not audited else written == +children, name
            # Placed where the pods are slow, Running where the operator saw it, and the end.
            assert audited <= self.statuses(name) <= 3 + said, name
        assert_one_live_child(self.audit, self.mark, self.team)
        # An answer that passes is no fault of the job.
        assert {asked.state for asked in self.proxy.asked} <= {"", *OF_A_LIFE, *(["Queued"] if said else [])}
        return took

    def statuses(self, name: str) -> int:
        """How many statuses were written for one of them."""
        return sum(
            entry["verb"] == "patch"
            and entry["objectRef"].get("subresource") == "status"
            and entry["objectRef"].get("namespace") == self.team.namespace
            and entry["objectRef"]["name"] == name
            and entry["responseStatus"]["code"] == 200
            for entry in self.audit.since(self.mark)
        )


def summary(found: dict[str, Any]) -> dict[str, Any]:
    """What of a final status is the same in every run."""
    conditions = {each["type"]: (each["status"], each["reason"]) for each in found["conditions"]}
    return {
        "conditions": {kind: conditions.get(kind) for kind in ("Complete", "Failed", "Placed", "PreflightPassed")},
        "accelerator": found["placement"]["accelerator"],
        "nodes": len(found["placement"]["nodeNames"]),
        "attempts": [(each["attempt"], each["reason"]) for each in found["attempts"]],
        "failures": found.get("failures"),
        "times": all(found.get(key) for key in ("startTime", "completionTime")),
        "has a cost": "accrued" in found["cost"],
    }


WANTED: dict[str, dict[str, Any]] = {}
"""The summaries of an undisturbed run; the first test fills it."""


@pytest.fixture
def jobs(operator: OperatorProcess, proxy: FaultProxy, fleet: Fleet, team: Team, audit: AuditLog) -> Jobs:
    """Jobs that are not submitted yet, and nodes for them."""
    fleet(h100=2, l4=1)
    made = Jobs(team, audit, proxy)
    if not WANTED:
        made.submit()
        team.until_all(made.uids, *ENDS.values(), timeout=60)
        assert made.states() == ENDS
        WANTED.update({name: summary(team.status(name)) for name in made.uids})
        for name, uid in made.uids.items():
            team.delete(name)
            eventually(partial(is_gone, team, uid), 30, what="nothing of the first run")
        made = Jobs(team, audit, proxy)
        proxy.begin()
    return made


def is_gone(team: Team, uid: str) -> bool:
    """Whether a job has neither child nor pods."""
    return not team.jobs(uid) and not team.pods(uid)


AWAY: Final = "etcdserver: request timed out"
ARRIVED: list[int] = []
# Each with the status writes that it is worth: of a gang the Service fails, and then the Job, which is said after the second.
EFFECTS: Final[dict[str, tuple[Effect, int]]] = {
    "429, come again in a second": (answered(429, "too many requests", 1), 0),
    "503, come again in a second": (answered(503, "not ready", 1), 0),
    "500": (answered(500, AWAY), 1),
    "lost on the way": (lost(), 1),
    "done, the reply lost": (reply_lost(), 0),
    "done two seconds later, no reply": (late(2.0, ARRIVED), 1),
    "done, the reply two seconds late": (delayed(2.0), 0),
}


@pytest.mark.parametrize("effect", EFFECTS)
def test_what_the_first_try_of_each_write_meets_changes_nothing(effect: str, proxy: FaultProxy, jobs: Jobs) -> None:
    answer, said = EFFECTS[effect]
    rule = proxy.play(first_of_each_write(), answer)
    jobs.submit().have_ended(HEALED_WITHIN, said=said)
    met = Counter(asked.resource for asked in rule.met)
    assert met["jobs"] == 3
    assert met["services"] == 1
    assert met["gpujobs/status"] == 3
    if "429" in effect or "503" in effect:
        # Never sooner than the server says.
        assert min(waited(proxy.writes)) >= 1.0


def waited(writes: list[Asked]) -> list[float]:
    """Seconds between the first two tries of each creation."""
    tries: dict[str, list[float]] = {}
    for asked in writes:
        if asked.resource == "services":
            tries.setdefault(asked.path, []).append(asked.at)
    return [second - first for first, second, *_ in tries.values()]


def test_creations_that_the_server_fails_are_said_and_done_when_it_can(proxy: FaultProxy, jobs: Jobs) -> None:
    rule = proxy.play(on("create", "jobs"), answered(500, AWAY))
    jobs.submit()
    jobs.team.until_all(jobs.uids, "Queued", timeout=40)
    for name in jobs.uids:
        told = jobs.team.status(name)["display"]["reason"], jobs.team.condition(name, "Placed")["message"]
        assert told == (
            "ChildNotCreated",
            f"the API server did not create a child: {AWAY}; it is tried again within 15 s",
        )
    took = jobs.have_ended(HEALED_WITHIN, since=proxy.heal(), said=1)
    print({"500 at creations": round(took, 1), "tries": len(rule.met)})


@pytest.mark.parametrize("code", [401, 429, 503])
def test_an_api_server_that_answers_all_with_an_error_is_asked_seldom_and_caught_up(
    code: int, proxy: FaultProxy, jobs: Jobs, excused: list[str]
) -> None:
    if code == 401:
        # A token that is never good again needs a person.
        excused.append('"error": "401 Unknown: not now"')
    rule = proxy.play(lambda asked: True, answered(code, "not now"))
    jobs.submit()
    remains(lambda: set(jobs.states().values()) == {""}, 6, because="the operator may read and write again")
    assert len([asked for asked in rule.met if asked.writes]) <= 3 * 3
    # A creation that failed twice is said.
    took = jobs.have_ended(HEALED_WITHIN, since=proxy.heal(), said=1)
    print({f"{code} to all": round(took, 1), "asked": Counter(asked.verb for asked in rule.met)})


def test_lists_and_watches_that_are_too_old_are_begun_again(proxy: FaultProxy, jobs: Jobs) -> None:
    lists = proxy.play(first_of_each(("list",), times=2), answered(410, "the provided continue parameter is too old"))
    assert proxy.cut_watches(gone()) > 10
    jobs.submit()
    # Every kind is listed again, and each list is refused twice.
    eventually(lambda: Counter(asked.resource for asked in lists.met)["pods"] == 2, 30, what="refused lists")
    took = jobs.have_ended(HEALED_WITHIN)
    print({"410": round(took, 1), "lists": len(lists.met)})


def first_of_each(verbs: tuple[str, ...], times: int) -> Callable[[Asked], bool]:
    """The first requests with these verbs on each path."""
    seen: Counter[tuple[str, str]] = Counter()

    def meets(asked: Asked) -> bool:
        if asked.verb not in verbs:
            return False
        seen[asked.verb, asked.path] += 1
        return seen[asked.verb, asked.path] <= times

    return meets


def gone() -> bytes:
    """The last line of a watch whose version is too old."""
    return b'{"type":"ERROR","object":' + status(410, "Expired", "too old resource version") + b"}\n"


def test_watches_that_end_again_and_again_lose_no_event(proxy: FaultProxy, jobs: Jobs) -> None:
    jobs.submit()
    cuts = 0
    while not set(jobs.states().values()) <= set(ENDS.values()) and cuts < 40:
        proxy.cut_watches()
        cuts += 1
        time.sleep(0.2)  # The time that each watch lives.
    jobs.have_ended(HEALED_WITHIN, since=proxy.heal())
    assert cuts > 2


@pytest.mark.parametrize("kind", ["pods", "jobs", "gpujobs"])
def test_a_job_that_ends_while_a_watch_is_frozen_has_all_that_its_pods_told(
    kind: str, proxy: FaultProxy, jobs: Jobs
) -> None:
    assert proxy.freeze_watches(kind) == 1
    # Of this kind nothing comes but what the operator reads itself.
    took = jobs.submit().have_ended(REPLACED_WITHIN)
    print({f"the watch on {kind} frozen": round(took, 1)})


def test_frozen_connections_are_replaced(operator: OperatorProcess, proxy: FaultProxy, jobs: Jobs) -> None:
    proxy.freeze()
    jobs.submit()
    remains(lambda: set(jobs.states().values()) == {""}, 5, because="no connection brings anything")
    took = jobs.have_ended(REPLACED_WITHIN + 15, since=proxy.heal())
    print({"all connections frozen": round(took, 1)})


def test_a_killed_and_restarted_api_server_loses_and_doubles_nothing(
    cluster: Cluster, operator: OperatorProcess, jobs: Jobs
) -> None:
    jobs.submit()
    # In the midst of their lives: the gang has just been placed.
    eventually(lambda: jobs.team.jobs(), 30, what="a child", every=0.01)
    restart_component(cluster.dir, "kube-apiserver")
    # What the dead one did last may be missing in its log.
    took = jobs.have_ended(HEALED_WITHIN, said=1, audited=False)
    # It refuses every kind until it has read its roles.
    assert "kind is unknown" not in operator.log.read_text()
    print({"API server restarted": round(took, 1)})


@pytest.mark.parametrize("late_by", ["an operator that was off", "the network"])
def test_a_creation_that_arrives_late_is_no_second_child(
    late_by: str, operator: OperatorProcess, proxy: FaultProxy, fleet: Fleet, team: Team, audit: AuditLog
) -> None:
    """The first child of a job that is suspended and resumed meanwhile arrives after all."""
    fleet(h100=1)
    mark, arrived = audit.now(), list[int]()
    rule = proxy.play(on("create", "jobs"), late(6.0, arrived), 1)
    uid = team.submit("job", gpusPerNode=8)
    eventually(lambda: rule.met, 20, what="the creation", every=0.01)
    if late_by == "an operator that was off":
        operator.kill()
    team.change("job", suspend=True)
    if late_by == "an operator that was off":
        operator.start_without_waiting_for_the_lease()
    team.until("job", "Suspended", timeout=30)
    team.change("job", suspend=False)
    team.until("job", "Running", timeout=HEALED_WITHIN)
    eventually(lambda: arrived, 20, what="the late creation")
    eventually(lambda: len(living(team, uid)) == 1, HEALED_WITHIN, what="one live child")
    remains(lambda: len(living(team, uid)) == 1, 2, because="a second child would be made or found")
    assert team.state("job") == "Running"
    assert [pod["status"]["phase"] for pod in team.pods(uid)] == ["Running"]
    print({"late": arrived, "writes": audit.writes(mark, team.namespace, "job")})


def living(team: Team, uid: str) -> list[str]:
    """The child Jobs of a job that are neither ended nor being deleted."""
    return [
        job["metadata"]["name"]
        for job in team.jobs(uid)
        if "deletionTimestamp" not in job["metadata"] and not job["status"].get("conditions")
    ]


def test_a_kill_at_a_write_between_two_attempts_changes_nothing(
    operator: OperatorProcess, proxy: FaultProxy, fleet: Fleet, team: Team, audit: AuditLog
) -> None:
    """A suspension and the attempt after it."""
    fleet(h100=1)
    mark = audit.now()
    between = BetweenAttempts(operator, team)
    between.begin("first")
    proxy.begin()
    between.suspend_and_resume("first")
    writes = [each.resource for each in proxy.writes]
    assert writes[: len(WRITTEN)] == WRITTEN
    for number, effect in KILLS:
        name = f"w{number}-{'before' if effect is lost else 'after'}"
        between.begin(name)
        struck = proxy.play(nth_write(number), effect(lambda: operator.signal(9)), 1)
        between.suspend_and_resume(name)
        proxy.heal()
        assert struck.met, name
    assert_one_live_child(audit, mark, team)


WRITTEN: Final = ["gpujobs/status", "jobs", "gpujobs/status", "jobs", "gpujobs/status"]
"""The attempt is over, its child deleted, Suspended, the next child, and Running, or Placed where the pods need two seconds."""

KILLS: Final = ((2, lost), (3, lost), (4, lost), (4, reply_lost))
"""Writes before or after which the operator dies; the simulated world has all of them."""


class BetweenAttempts:
    """A job whose first attempt is suspended and whose second one runs, with an operator that is started again when it is dead."""

    def __init__(self, operator: OperatorProcess, team: Team) -> None:
        self.operator, self.team = operator, team

    def begin(self, name: str) -> None:
        """Submits a job of a node's GPUs and waits until all is written that its beginning brings."""
        self.team.submit(name, gpusPerNode=8)
        self._until(lambda: self.team.state(name) == "Running" and "Placed" in self.team.told(name), f"{name} Running")

    def suspend_and_resume(self, name: str) -> None:
        """Plays it, and deletes the job where one pod of the second attempt runs."""
        uid = self.team.job(name)["metadata"]["uid"]
        self.team.change(name, suspend=True)
        # The last write of a suspension is the plan; a job that is resumed before it goes without.
        self._until(lambda: bool(self.team.status(name).get("candidates")), f"the plan of {name}")
        self._until(lambda: self.team.state(name) == "Suspended" and not self.team.pods(uid), f"{name} Suspended")
        self.team.change(name, suspend=False)
        self._until(lambda: self.team.state(name) == "Running", f"{name} Running again")
        assert self.team.status(name)["attempt"] == 2
        (pod,) = self.team.pods(uid)
        assert pod["metadata"]["labels"]["gpujob.dev/attempt"] == "2"
        assert living(self.team, uid) == [self.team.status(name)["jobName"]]
        self.team.delete(name)

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        def there() -> bool:
            if not self.operator.alive:
                self.operator.start_without_waiting_for_the_lease()
            return condition()

        eventually(there, HEALED_WITHIN, what=what)


def test_an_operator_that_was_off_for_an_hour_finds_what_happened_meanwhile(
    operator: OperatorProcess, proxy: FaultProxy, fleet: Fleet, team: Team, audit: AuditLog
) -> None:
    fleet(h100=3)
    mark = audit.now()
    uids = {name: team.submit(name) for name in ("runs-on", "suspended", "deleted", "childless")}
    uids["lost"] = team.submit("lost", gpusPerNode=8)
    uids |= {name: team.submit(name, runs_for="6s", exit_code=code) for name, code in (("ends", 0), ("fails", 3))}
    team.until_all(uids, "Running")
    before = team.status("runs-on")
    operator.stop()

    team.change("suspended", suspend=True)
    team.delete("deleted")
    team.api.delete(JOBS.format(team.namespace), team.status("childless")["jobName"])
    (pod,) = team.pods(uids["lost"])
    shut_down(team, pod)
    team.api.delete(NODES, pod["spec"]["nodeName"])
    uids["created"] = team.submit("created", runs_for="0s")
    uids["planned"] = team.submit("planned", suspend=True)
    team.submit("brief")
    team.delete("brief")
    ended = {uids["ends"], uids["fails"], uids["lost"]}
    eventually(lambda: not ended & {uid for uid in ended if living(team, uid)}, 40, what="the ends while it is off")

    # The API server's clock is an hour on, of which all times in objects are.
    proxy.ahead = 3600.0
    operator.start_without_waiting_for_the_lease()
    began = time.monotonic()
    wanted = {
        "runs-on": "Running", "suspended": "Suspended", "childless": "Failed", "lost": "Running", "ends": "Succeeded",
        "fails": "Failed", "created": "Succeeded", "planned": "Suspended",
    }  # fmt: skip

    def states() -> dict[str, Any]:
        return {job["metadata"]["name"]: job.get("status", {}).get("state") for job in team.api.items(team.path)}

    eventually(lambda: states() == wanted and team.status("lost")["attempt"] == 2, HEALED_WITHIN, what="all caught up")
    print({"off for an hour": round(time.monotonic() - began, 1)})

    assert team.condition("childless", "Failed")["reason"] == "ChildLost"
    assert team.status("lost")["placement"]["nodeNames"] != [pod["spec"]["nodeName"]]
    assert [each["reason"] for each in team.status("lost")["attempts"]] == ["NodeLost"]
    assert team.status("runs-on") == before
    # What ended while it was off has the time and the cost of its own pods.
    for name in ("ends", "fails"):
        found = team.status(name)
        lasted = datetime.fromisoformat(found["completionTime"]) - datetime.fromisoformat(found["startTime"])
        assert 5 <= lasted.total_seconds() <= 30, name
    eventually(lambda: not team.pods(uids["suspended"]) and not team.jobs(uids["deleted"]), 30, what="nothing left")
    for name in ("runs-on", "lost"):
        assert len(living(team, uids[name])) == 1
    assert_one_live_child(audit, mark, team)
