"""Two operators: one writes. A dead leader is followed within half a minute; a frozen one wakes up silent."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import pytest

from gpujob.cluster.client.kubeconfig import connection_from_kubeconfig
from tests.e2e.api_server import ApiServer, AuditLog
from tests.e2e.cluster import Cluster, eventually
from tests.e2e.conftest import Fleet, Operators
from tests.e2e.operator_process import OperatorProcess
from tests.e2e.tcp_proxy import TcpProxy
from tests.e2e.team import Team

pytestmark = pytest.mark.e2e


Pair = tuple[OperatorProcess, OperatorProcess]


@pytest.fixture
def pair(no_operator: None, operators: Operators) -> Iterator[Pair]:
    """A leader, and one that waits."""
    yield from led(operators("first"), operators("second"))


@pytest.fixture
def hasty_pair(no_operator: None, operators: Operators) -> Iterator[Pair]:
    """The same with shorter times, for what does not depend on how long they are."""
    yield from led(operators("hasty-first").in_haste(), operators("hasty-second").in_haste())


def led(first: OperatorProcess, second: OperatorProcess) -> Iterator[Pair]:
    first.start_without_waiting_for_the_lease()
    second.start()
    yield first, second
    for each in (first, second):
        each.stop()


def writers(audit: AuditLog, mark: int) -> set[str]:
    """The tokens of those who wrote anything but the Lease."""
    return {
        entry["user"]["extra"]["authentication.kubernetes.io/credential-id"][0]
        for entry in audit.since(mark)
        if entry["verb"] in ("create", "patch", "delete") and entry["objectRef"]["resource"] != "leases"
    }


def test_a_dead_leader_is_followed_within_half_a_minute(pair: Pair, fleet: Fleet, team: Team, audit: AuditLog) -> None:
    first, second = pair
    fleet(h100=2)
    mark = audit.now()
    jobs = start(team, "before")
    team.until_all(jobs, "Succeeded")
    assert writers(audit, mark) == {first.credential}

    # In the midst of work: some are placed, some wait, some just got their status.
    jobs |= start(team, "during")
    eventually(lambda: len(team.jobs()) > 9, what="some of the jobs placed", every=0.01)
    first.kill()
    took = second.until_leading(timeout=30)
    # Not from the kill on: what the dead had just sent is answered, and logged, after its end.
    led = audit.now()
    print({"seconds until another led": round(took, 1)})
    team.until_all(jobs, "Succeeded")
    assert writers(audit, led) == {second.credential}
    each_was_created_once(audit, mark, team, jobs)


def test_a_frozen_leader_wakes_up_silent(hasty_pair: Pair, fleet: Fleet, team: Team, audit: AuditLog) -> None:
    first, second = hasty_pair
    fleet(h100=2)
    mark = audit.now()
    eventually(lambda: '"jobs seen"' in second.log.read_text(), what="a standby")
    jobs = start(team, "frozen")
    eventually(lambda: len(team.jobs()) > 1, what="some of the jobs placed", every=0.01)
    first.signal(signal.SIGSTOP)
    second.until_leading(timeout=30)
    team.until_all(jobs, "Succeeded")
    quiet = audit.now()
    first.signal(signal.SIGCONT)
    eventually(lambda: "lease lost" in first.log.read_text(), what="the frozen one noticing", every=0.01)
    # The second is for the one request that was already on its way.
    noticed = (datetime.now(UTC) + timedelta(seconds=1)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    jobs["after"] = team.submit("after", runs_for="0s")
    jobs["later"] = team.submit("later", runs_for="0s")
    team.until_all(jobs, "Succeeded")
    # Of the frozen one nothing arrives after it woke up, events included, but what asks for the Lease, and the one request at most that
    # lay between its check and its system call when it froze. That one changes nothing: its version, uid or name is taken by now.
    late = writes_of(first, audit, quiet)
    assert len(late) <= 1, late
    assert writes_of(first, audit, quiet, after=noticed) == []
    assert all(code in (404, 409) or "/events" in path for _, path, code in late), late
    assert second.credential in writers(audit, quiet) <= {second.credential, *([first.credential] if late else [])}
    each_was_created_once(audit, mark, team, jobs)


def writes_of(operator: OperatorProcess, audit: AuditLog, mark: int, after: str = "") -> list[tuple[str, str, int]]:
    """The verb, path and response code of each write that came of that operator, of whatever kind but the Lease; `after`: since when
    (RFC 3339, microseconds)."""
    return [
        (entry["verb"], entry["requestURI"], entry.get("responseStatus", {}).get("code", 0))
        for entry in audit.since(mark)
        if entry["user"].get("extra", {}).get("authentication.kubernetes.io/credential-id", [""])[0]
        == operator.credential
        and entry["verb"] not in ("get", "list", "watch")
        and entry["requestReceivedTimestamp"] > after
        and entry.get("objectRef", {}).get("resource") != "leases"
    ]


def start(team: Team, when: str) -> dict[str, str]:
    """Eight jobs that need both nodes twice; their uids by name."""
    names = [f"{when}-{number}" for number in range(8)]
    return {name: team.submit(name, runs_for="1s", gpusPerNode=4) for name in names}


def each_was_created_once(audit: AuditLog, mark: int, team: Team, jobs: dict[str, str]) -> None:
    created = created_jobs(audit, mark, team)
    assert len(created) == len(set(created)) == len(jobs)
    assert sorted(len(pods) for pods in pods_by_job(team).values()) == [1] * len(jobs)


async def test_a_new_leader_that_sees_an_old_state_doubles_nothing(
    no_operator: None, operators: Operators, cluster: Cluster, api: ApiServer, fleet: Fleet, team: Team, audit: AuditLog
) -> None:
    """The watches of the second are dead without its knowing while the first makes children; then it has to lead."""
    address = urlsplit(connection_from_kubeconfig(cluster.kubeconfig).server)
    first, second = operators("before-a-dead-network").in_haste(), operators("behind-a-dead-network").in_haste()
    fleet(h100=2)
    async with TcpProxy(str(address.hostname), address.port or 443) as proxy:
        second.reach(f"https://127.0.0.1:{proxy.port}")
        mark = audit.now()
        try:
            jobs = await asyncio.to_thread(_until_the_second_must_lead, first, second, team, proxy)
            created = created_jobs(audit, mark, team)
            assert len(created) == len(set(created)) == len(jobs)
            assert {uid: len(pods) for uid, pods in pods_by_job(team).items()} == jobs
        finally:
            for each in (first, second):
                await asyncio.to_thread(each.stop)


def _until_the_second_must_lead(
    first: OperatorProcess, second: OperatorProcess, team: Team, proxy: TcpProxy
) -> dict[str, int]:
    """Plays it through; gives the pods that each job must have by its uid."""
    first.start_without_waiting_for_the_lease()
    second.start()
    eventually(lambda: '"jobs seen"' in second.log.read_text(), what="a standby that sees all kinds")
    # Both see the jobs, and none of them has a child when the second goes blind.
    first.signal(signal.SIGSTOP)
    # In whatever order they come, which within a second is that of their uids, the gang finds room on both nodes.
    pods = {"gang": 2, **{f"single-{number}": 1 for number in range(3)}}
    uids = {name: team.submit(name, nodes=count, gpusPerNode=2) for name, count in pods.items()}
    wanted = {f"{team.namespace}/{name}" for name in pods}
    eventually(lambda: wanted <= set(second.seen()), what="a standby that sees the jobs")
    proxy.freeze()
    proxy.heal()
    first.signal(signal.SIGCONT)
    # On a slow machine the pause may have cost the first its Lease; then the second leads blind until it looks again.
    team.until_all(uids, "Running", timeout=150)
    first.kill()
    second.until_leading(timeout=60)
    # What it does now, it does on the state that it last saw; and when it sees again, nothing is to be undone.
    uids["after"] = team.submit("after", gpusPerNode=2)
    team.until("after", "Running", timeout=150)
    team.until_all(uids, "Running", timeout=150)
    return {uids[name]: count for name, count in {**pods, "after": 1}.items()}


def created_jobs(audit: AuditLog, mark: int, team: Team) -> list[str]:
    """The names of the child Jobs that were created in the team's namespace since a mark, each as often as it was."""
    return [
        entry["objectRef"]["name"]
        for entry in audit.since(mark)
        if entry["verb"] == "create" and entry["objectRef"]["resource"] == "jobs"
        and entry["objectRef"]["namespace"] == team.namespace and entry["responseStatus"]["code"] == 201
    ]  # fmt: skip


def pods_by_job(team: Team) -> dict[str, list[Any]]:
    """The pods of each job's uid."""
    found: dict[str, list[Any]] = {}
    for pod in team.pods():
        found.setdefault(pod["metadata"]["labels"]["gpujob.dev/job-uid"], []).append(pod)
    return found
