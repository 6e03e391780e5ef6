"""What a job's reporter says comes into its status, its profile and the next decision; the pods are simulated, the reading is not."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

from gpujob.cluster.cache.object_cache import ObjectCache
from gpujob.cluster.cache.watched_kinds import mirrored
from gpujob.cluster.client.api_errors import Conflict
from gpujob.cluster.client.client import ApiClient
from gpujob.cluster.client.kubeconfig import connection_from_kubeconfig
from gpujob.cluster.writer.writes import Writer
from gpujob.placement.request.profile_measurements import Profile, profile_of
from gpujob.status.profile import Ran, after_run
from tests.e2e.api_server import GPUPOOLS, ApiServer, AuditLog
from tests.e2e.cluster import Cluster, eventually
from tests.e2e.conftest import MADE_BY, Fleet
from tests.e2e.operator_process import OperatorProcess
from tests.e2e.reporter import PROFILES, Reporter, reach
from tests.e2e.team import Team

pytestmark = pytest.mark.e2e


@pytest.fixture
def reporter() -> Iterator[Reporter]:
    made = Reporter()
    yield made
    made.close()


def profile(team: Team, name: str) -> dict[str, Any]:
    return team.api.find(PROFILES.format(team.namespace), name) or {}


def test_progress_throughput_cost_and_profile_of_a_job(
    attentive: OperatorProcess, fleet: Fleet, team: Team, reporter: Reporter, audit: AuditLog
) -> None:
    fleet(h100=1)
    mark = audit.now()
    uid = team.submit("llama", runs_for="25s", profile="llama", telemetry={"port": reporter.port})
    team.until("llama", "Running")
    reach(team, uid)

    def measured() -> dict[str, Any] | None:
        status = team.status("llama")
        return status if status.get("progress", {}).get("percent") == 50 else None

    status = eventually(measured, 20, what="progress in the status") or {}
    assert status["checkpoint"]["step"] == 7
    assert status["progress"]["estimatedEnd"] > status["progress"]["updated"]
    assert status["display"]["progress"] == "50 %"
    assert team.condition("llama", "TelemetryReachable")["reason"] == "ReporterRead"

    ended = team.until("llama", "Succeeded", timeout=60)
    assert float(ended["throughput"]["tokensPerSecond"]) == pytest.approx(1000, rel=0.1)
    hour = float(ended["placement"]["pricePerHour"])
    assert float(ended["cost"]["accrued"]) == pytest.approx(hour * 25 / 3600, rel=0.2)
    # Job, two or three states, one for its progress; the profile is its namespace's.
    eventually(lambda: team.told("llama") == ["Placed", "Succeeded"], what="its two events")
    writes = audit.writes(mark, team.namespace, "llama")
    assert (writes["jobs"], writes["events"]) == (1, 2)
    assert writes["gpujobs/status"] <= 5

    (measurement,) = profile(team, "llama")["status"]["measurements"]
    assert (measurement["device"], measurement["shape"], measurement["unit"]) == ("H100-SXM", "1x1", "tokens")
    assert float(measurement["perSecond"]) == pytest.approx(1000, rel=0.1)
    team.submit("next", profile="llama", runs_for="1s")
    team.until("next", "Placed", "Running", "Succeeded")
    message = team.condition("next", "Placed")["message"]
    assert "H100-SXM" in message or "only pool" in message or "measured 1,000 tokens/s on 1 run" in message


def test_runs_that_end_at_the_same_time_are_both_in_their_profile(
    attentive: OperatorProcess, fleet: Fleet, team: Team, reporter: Reporter
) -> None:
    fleet(h100=1)
    jobs = ("one", "other")
    uids = [team.submit(name, runs_for="23s", profile="pair", telemetry={"port": reporter.port}) for name in jobs]
    for name, uid in zip(jobs, uids, strict=True):
        team.until(name, "Running")
        reach(team, uid)
    team.until_all(jobs, "Succeeded")
    (measurement,) = profile(team, "pair")["status"]["measurements"]
    assert measurement["count"] == 2
    assert sorted(run["job"] for run in measurement["runs"]) == sorted(f"{uid}.1" for uid in uids)


async def test_a_profile_that_somebody_changed_or_deleted_meanwhile_is_not_overwritten(
    cluster: Cluster, team: Team
) -> None:
    def body(held: Profile) -> dict[str, Any]:
        ended = datetime(2026, 1, 1, tzinfo=UTC)
        ran = Ran("u.1", "MI300X", "MI300X", "1x1", "Mixed", {"tokens": 9.0}, 60, None, ended)
        made = after_run(team.namespace, "shared", held._replace(measurements=()), ran)
        assert made is not None
        return made

    async with ApiClient(connection_from_kubeconfig(cluster.kubeconfig)) as client:
        writer = Writer(client, ObjectCache(mirrored("gpujob-runner-x")), lambda: True, "here")
        await writer.apply_profile(body(Profile()))
        first = profile_of(profile(team, "shared"))
        team.api.patch(PROFILES.format(team.namespace), "shared", {"metadata": {"labels": {"seen": "yes"}}})
        with pytest.raises(Conflict):
            await writer.apply_profile(body(first))
        second = profile_of(profile(team, "shared"))
        await writer.apply_profile(body(second))
        team.api.delete(PROFILES.format(team.namespace), "shared")
        with pytest.raises(Conflict):
            await writer.apply_profile(body(second))
    assert profile(team, "shared") == {}


def test_a_probe_tries_each_device_and_then_runs_on_the_best(
    attentive: OperatorProcess, fleet: Fleet, team: Team, reporter: Reporter
) -> None:
    fleet(h100=1, mi300x=1)
    uid = team.submit("probes", placement={"probe": {"steps": 4}}, telemetry={"port": reporter.port})
    pools = []
    for attempt in (1, 2):
        status = eventually(partial(at_attempt, team, attempt), 30, what=f"trial {attempt} that runs") or {}
        assert status["placement"]["probe"] == 4
        pools.append(status["placement"]["accelerator"])
        reach(team, uid)
    last = eventually(lambda: at_attempt(team, 3), 60, what="the real run") or {}
    assert set(pools) == {"H100-SXM", "MI300X"}
    assert "probe" not in last["placement"]
    assert {each["pool"] for each in last["probes"]} == {p["pool"] for p in last["probes"] if float(p["perSecond"]) > 0}
    assert len(last["probes"]) == 2
    eventually(lambda: len(team.jobs(uid)) == 1, what="only the real run's child")


def at_attempt(team: Team, attempt: int) -> dict[str, Any] | None:
    status = team.status("probes")
    return status if status.get("attempt") == attempt and status.get("state") == "Running" else None


def test_what_is_no_report_is_said_with_the_remedy(
    attentive: OperatorProcess, fleet: Fleet, team: Team, reporter: Reporter
) -> None:
    fleet(l4=1)
    reporter.body = b"<html>my own server</html>"
    uid = team.submit("busy-port", telemetry={"port": reporter.port})
    team.until("busy-port", "Running")
    reach(team, uid)
    found = eventually(lambda: team.condition("busy-port", "TelemetryReachable"), 90, what="the condition")
    assert (found["status"], found["reason"]) == ("False", "ReportUnreadable")
    assert found["message"].endswith("give the reporter another one in spec.telemetry.port")
    assert team.state("busy-port") == "Running"


@pytest.fixture
def on_their_network(api: ApiServer, fleet: Fleet, team: Team) -> Iterator[None]:
    """Two nodes whose gangs are on their own network."""
    mine, _ = fleet(h100=2)
    spec = {"nodeSelector": {"matchLabels": {MADE_BY: mine.partition("-")[0]}}, "fabric": {"hostNetwork": True}}
    api.create(
        GPUPOOLS, {"apiVersion": "gpujob.dev/v1alpha1", "kind": "GPUPool", "metadata": {"name": "rails"}, "spec": spec}
    )
    yield
    team.clear()
    api.delete(GPUPOOLS, "rails")


def test_a_gang_on_the_network_of_its_nodes_is_read_and_who_else_has_its_port_is_not(
    on_their_network: None, attentive: OperatorProcess, team: Team
) -> None:
    uid = team.submit(
        "gang", nodes=2, gpusPerNode=8, telemetry={"port": 10250}, placement={"pools": {"allow": ["rails"]}}
    )
    team.until("gang", "Running")
    (train,) = team.pods(uid)[0]["spec"]["containers"]
    told = {entry["name"]: entry.get("value") for entry in train["env"]}
    assert "ports" not in train
    reporter = Reporter(int(told["GPUJOB_REPORT_PORT"]), whose=("6f1c1f0e-52a4-4f6c-9d3b-0a8d2f3f7a11", "1"))
    reach(team, uid)

    def reading() -> str:
        return str(team.condition("gang", "TelemetryReachable").get("reason", ""))

    eventually(lambda: reading() == "ReportOfAnother", 60, what="the report of another job", every=0.2)
    assert "progress" not in team.status("gang")
    assert "throughput" not in team.status("gang")
    reporter.whose = (told["GPUJOB_JOB_UID"], told["GPUJOB_ATTEMPT"])
    eventually(lambda: reading() == "ReporterRead", 60, what="its own report", every=0.2)
    eventually(lambda: team.status("gang").get("progress", {}).get("percent") == 50, 60, what="its progress", every=0.2)
    reporter.close()
