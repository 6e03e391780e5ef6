"""kill -9 at every write of a gang job, before and after the API server has it: the end is that of an undisturbed run."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from gpujob.cluster.client.kubeconfig import connection_from_kubeconfig
from tests.e2e.api_server import ApiServer, AuditLog
from tests.e2e.cluster import Cluster, eventually
from tests.e2e.conftest import Fleet
from tests.e2e.killing_proxy import KillingProxy, Plan
from tests.e2e.operator_process import OperatorProcess, operator_kubeconfig
from tests.e2e.team import Team, pinned_nodes

pytestmark = pytest.mark.e2e

WRITES = ["services", "jobs", "status", "events", "status", "events"]
"""A gang's writes in their order: Service, Job, Running (with Placed) and its event, Succeeded and its event."""

SLOWLY = ["services", "jobs", "status", "events", "status", "status", "events"]
"""The same where the pods do not run within two seconds: Placed is a write of its own."""


@pytest.fixture
def victim(cluster: Cluster, api: ApiServer, no_operator: None) -> Iterator[tuple[KillingProxy, OperatorProcess]]:
    """An operator that reaches the API server through a proxy which can kill it."""
    made: list[OperatorProcess] = []
    connection = connection_from_kubeconfig(cluster.kubeconfig)
    with KillingProxy(connection, lambda: made[0].signal(9)) as proxy:
        kubeconfig = operator_kubeconfig(api, cluster.dir / "victim.kubeconfig", f"http://127.0.0.1:{proxy.port}")
        made.append(OperatorProcess(cluster, api, kubeconfig, "victim"))
        made[0].start_without_waiting_for_the_lease()
        yield proxy, made[0]
        made[0].stop()


def test_a_kill_at_any_write_of_a_gang_changes_nothing_in_the_end(
    fleet: Fleet, team: Team, audit: AuditLog, victim: tuple[KillingProxy, OperatorProcess]
) -> None:
    proxy, operator = victim
    fleet(h100=2)
    # The first job of a namespace brings the runner, which the others find.
    run(team, audit, "first")
    proxy.arm(None)
    undisturbed = run(team, audit, "undisturbed")
    writes = [each.rpartition("/")[2].split("?")[0] for each in proxy.writes]
    assert writes in (WRITES, SLOWLY)
    assert undisturbed["created"] == {"services": 1, "jobs": 1, "events": 2, "pods": 2}

    for number in range(1, len(writes) + 1):
        for plan in (Plan(number, before=True), Plan(number, before=False)):
            proxy.arm(plan)
            found = run(team, audit, f"w{number}-{'before' if plan.before else 'after'}", (proxy, operator))
            # What the dead operator did not report stays unreported: an event is for watchers, the status is the record.
            told = found["created"].pop("events", 0)
            assert told <= 2, plan
            wanted = {**undisturbed, "created": {"services": 1, "jobs": 1, "pods": 2}}
            assert found == wanted, f"{plan}: {json.dumps(found, indent=1)}\ninstead of\n{json.dumps(wanted, indent=1)}"


def run(
    team: Team, audit: AuditLog, name: str, killed: tuple[KillingProxy, OperatorProcess] | None = None
) -> dict[str, Any]:
    """One gang from its creation to its end, with what it left; the operator is started again as soon as it is dead."""
    mark = audit.now()
    uid = team.submit(name, runs_for="1s", nodes=2, gpusPerNode=8)
    if killed is not None:
        proxy, operator = killed
        assert proxy.killed.wait(20), f"{name}: the operator made only {proxy.writes}"
        operator.start_without_waiting_for_the_lease()
    team.until(name, "Succeeded")
    if killed is None:
        eventually(lambda: len(team.told(name)) == 2, what="both events")
    status = team.status(name)
    left = {
        "status": masked(status, uid, name),
        "pinned": [sorted(pinned_nodes(job["spec"]["template"]["spec"])) for job in team.jobs(uid)],
        "nodes": sorted(pod["spec"]["nodeName"] for pod in team.pods(uid)),
        "services": len(team.services(uid)),
        "created": created(audit, mark, name) + Counter(pods=len(team.pods(uid))),
    }
    team.delete(name)
    team.api.delete(f"/apis/batch/v1/namespaces/{team.namespace}/jobs", status["jobName"])
    return left


def created(audit: AuditLog, mark: int, name: str) -> Counter[str]:
    """What was created for one job since a mark, by resource."""
    return Counter(
        entry["objectRef"]["resource"]
        for entry in audit.since(mark)
        if entry["verb"] == "create"
        and entry["responseStatus"]["code"] == 201
        and entry["objectRef"].get("name", "").startswith(name)
    )


def masked(status: dict[str, Any], uid: str, name: str) -> Any:
    """A status without what differs from run to run: names with a hash of the uid, times, and what they cost."""
    status = {**status, "cost": "COST", "jobUID": "UID OF THE CHILD", "display": {**status["display"], "cost": "COST"}}
    status["attempts"] = [{**entry, "cost": "COST" if "cost" in entry else None} for entry in status["attempts"]]
    text = json.dumps(status, sort_keys=True).replace(uid, "UID")
    text = re.sub(rf"{name}-[0-9a-f]{{8}}-1(-\d-[a-z0-9]{{5}})?", "CHILD", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME", text)
    return json.loads(text)
