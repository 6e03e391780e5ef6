"""A namespace's monthly budget in virtual time: jobs that run go on, those that wait do not start, and deleting a job gains nothing."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from tests.simulation.api_server import Program
from tests.simulation.operator_process import OperatorProcess
from tests.simulation.virtual_time import run
from tests.simulation.world import TEAM, Story, World

KEY = "gpujob.dev/monthly-budget"


def budget(world: World, dollars: str) -> None:
    metadata = {"name": TEAM, "uid": "ns", "annotations": {KEY: dollars}}
    world.server.put("namespaces", "MODIFIED", {"kind": "Namespace", "metadata": metadata})


def spent(world: World) -> float:
    data = world.server.objects["configmaps"]["gpujob-system", "gpujob-spending"]["data"]
    return float(json.loads(data[TEAM])["spent"])


class Budgeted(World):
    """A world that notes what the status of job `k` said, and when."""

    def __init__(self, story: Story) -> None:
        super().__init__(story)
        self.said: list[tuple[float, str, str]] = []
        self.server.on_change.append(self._note)

    def status(self, name: str) -> Any:
        """The status of a job."""
        return self.server.objects["gpujobs"][TEAM, name]["status"]

    def _note(self, plural: str, _: str, obj: Any) -> None:
        if plural == "gpujobs" and obj["metadata"]["name"] == "k" and (status := obj.get("status")):
            self.said.append((self.server.loop.time(), status["state"], status["display"]["reason"]))


def play(*deeds: Any, until: float = 400.0, runs_for: float = 120.0) -> Budgeted:
    async def main() -> Budgeted:
        world = Budgeted(Story("budget", deeds, Program(runs_for=runs_for), until=until))
        await world.run()
        return world

    return run(main())  # type: ignore[no-any-return]


def job(name: str) -> Any:
    return lambda world: world.submit(name, gpusPerNode=8)


def test_jobs_wait_once_the_budget_is_spent_and_start_when_it_is_raised() -> None:
    # 8 H100 at $31.56 an hour: $1.05 in 120 seconds.
    world = play(
        (0.5, lambda world: budget(world, "1.00")), (1.0, job("j")), (140.0, job("k")), (300.0, lambda world: budget(world, "9"))
    )  # fmt: skip
    assert world.server.objects["gpujobs"][TEAM, "j"]["status"]["state"] == "Succeeded", "what runs goes on"
    assert world.said[0][1:] == ("Queued", "NamespaceBudgetExceeded")
    starts = [at for at, state, _ in world.said if state in ("Placed", "Running")]
    assert 300.0 <= starts[0] <= 334.0
    assert spent(world) > 1.0


def test_what_a_waiting_job_says_of_the_spending_follows_it_with_few_writes() -> None:
    """It is looked at every 30 seconds, and another job goes on to spend $0.53 a minute."""
    world = play(
        (0.5, lambda world: budget(world, "1.00")), (1.0, job("j")), (140.0, job("k")), until=1000.0, runs_for=1e6
    )
    at = [at for at, _, _ in world.said]
    assert len(at) <= 4, "one that tells of the wait, and one each five minutes"
    (placed,) = (each for each in world.status("k")["conditions"] if each["type"] == "Placed")
    (dollars,) = re.findall(r"have cost \$([0-9.]+) in 2026-01", placed["message"])
    assert spent(world) - 0.53 * 6 <= float(dollars) <= spent(world)
    assert float(dollars) > 4.0


def test_a_job_that_is_deleted_stays_counted_also_after_a_restart() -> None:
    def restart(world: World) -> None:
        world.processes[-1].kill()
        world.start()

    world = play(
        (0.5, lambda world: budget(world, "0.90")), (1.0, job("j")), (115.0, lambda world: world.remove("j")),
        (150.0, restart), (200.0, job("k")),
    )  # fmt: skip
    assert {said[1:] for said in world.said} == {("Queued", "NamespaceBudgetExceeded")}
    assert 0.95 <= spent(world) <= 1.30


def test_what_ran_while_no_operator_did_is_counted() -> None:
    """The next one reads the jobs before it counts: its cache is complete a moment before its index is."""

    def off(world: World) -> None:
        world.processes[-1].kill()
        world.server.loop.call_later(60.0, world.start)

    world = play((0.5, lambda world: budget(world, "9")), (1.0, job("j")), (40.0, off))
    status = world.server.objects["gpujobs"][TEAM, "j"]["status"]
    assert spent(world) == pytest.approx(float(status["cost"]["accrued"]), abs=0.02)


def test_without_a_budget_nothing_is_metered_or_written() -> None:
    world = play((1.0, job("j")), (2.0, job("k")))
    assert "gpujob-system" not in {namespace for namespace, _ in world.server.objects["configmaps"]}
    assert world.said[-1][1] == "Succeeded"


def test_a_budget_that_is_none_lets_nothing_start() -> None:
    world = play((0.5, lambda world: budget(world, "plenty")), (1.0, job("k")))
    assert {said[1:] for said in world.said} == {("Queued", "NamespaceBudgetExceeded")}


class WrongDates(Budgeted):
    """A world whose API server says another time from 25 to 70 s, also in the answers about the Lease."""

    def __init__(self, story: Story, off: float) -> None:
        super().__init__(story)
        server = self.server
        server.date = lambda: format_datetime(  # type: ignore[method-assign]
            server.time() + timedelta(seconds=off if 25.0 <= server.loop.time() < 70.0 else 0.0), usegmt=True
        )

    def start(self) -> OperatorProcess:
        process = super().start()

        def renew() -> None:
            process.clock.note(self.server.date())
            if process.leads:
                self.server.loop.call_later(2.0, renew)

        renew()
        return process


@pytest.mark.parametrize(
    "off", [3600.0, -3600.0, 40 * 86400.0], ids=["an hour ahead", "an hour behind", "40 days ahead"]
)
def test_a_clock_that_is_wrong_for_a_while_books_nothing(off: float) -> None:
    async def main() -> Budgeted:
        deeds = ((0.5, lambda world: budget(world, "20.00")), (1.0, job("j")), (200.0, job("k")))
        world = WrongDates(Story("dates", deeds, Program(runs_for=120.0), until=400.0), off)
        await world.run()
        return world

    world = run(main())
    assert [state for _, state, _ in world.said] == ["Running", "Succeeded"], "the budget is not spent"
    assert 2.0 <= spent(world) <= 2.2
