"""kill -9 at every write of a gang job, before and after the API server has it: the end is that of an undisturbed run."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from gpujob.cluster.client.kubeconfig import connection_from_kubeconfig
from tests.e2e.api_server import ApiServer, AuditLog
from tests.e2e.cluster import Cluster, eventually
from tests.e2e.conftest import Fleet
from tests.e2e.end_state import assert_one_live_child, created, masked
from tests.e2e.fault_proxy import Asked, FaultProxy, Meets, Rule, lost, reply_lost
from tests.e2e.operator_process import OperatorProcess, operator_kubeconfig
from tests.e2e.team import Team, pinned_nodes

pytestmark = pytest.mark.e2e

WRITES = ["services", "jobs", "status Running", "events", "status Succeeded", "events"]
"""A gang's writes in their order: Service, Job, Running (with Placed) and its event, Succeeded and its event."""

SLOWLY = ["services", "jobs", "status Placed", "events", "status Running", "status Succeeded", "events"]
"""The same where the pods do not run within two seconds: Placed is a write of its own. Starting is one more after five."""

KILLS = [
    ("services", 1),
    ("jobs", 1),
    ("status", 1),
    ("events", 1),
    ("status Running", 1),
    ("status Succeeded", 1),
    ("events", 2),
]
"""Each write, as the number of its kind, so that each is there however fast pods start."""


Victim = tuple[FaultProxy, OperatorProcess]


@pytest.fixture
def victim(cluster: Cluster, api: ApiServer, no_operator: None) -> Iterator[Victim]:
    """An operator that reaches the API server through a proxy which can kill it."""
    with FaultProxy(connection_from_kubeconfig(cluster.kubeconfig)) as proxy:
        kubeconfig = operator_kubeconfig(api, cluster.dir / "victim.kubeconfig", f"http://127.0.0.1:{proxy.port}")
        operator = OperatorProcess(cluster, api, kubeconfig, "victim")
        operator.start_without_waiting_for_the_lease()
        yield proxy, operator
        operator.stop()


def test_a_kill_at_any_write_of_a_gang_changes_nothing_in_the_end(
    fleet: Fleet, team: Team, audit: AuditLog, victim: Victim
) -> None:
    proxy, operator = victim
    fleet(h100=2)
    # The first job of a namespace brings the runner, which the others find.
    run(team, audit, "first")
    proxy.begin()
    undisturbed = run(team, audit, "undisturbed")
    assert [what for each in proxy.writes if (what := kind_of(each)) != "status Starting"] in (WRITES, SLOWLY)
    assert undisturbed["created"] == {"services": 1, "jobs": 1, "events": 2, "pods": 2}

    mark = audit.now()
    for place, (kind, number) in enumerate(KILLS, 1):
        for when, effect in (("before", lost), ("after", reply_lost)):
            plan = f"w{place}-{when}"
            struck = proxy.play(nth_of(kind, number), effect(lambda: operator.signal(9)), 1)
            found = run(team, audit, plan, (struck, operator))
            proxy.heal()
            # What the dead operator did not report stays unreported: an event is for watchers, the status is the record.
            told = found["created"].pop("events", 0)
            assert told <= 2, plan
            wanted = {**undisturbed, "created": {"services": 1, "jobs": 1, "pods": 2}}
            assert found == wanted, f"{plan}: {json.dumps(found, indent=1)}\ninstead of\n{json.dumps(wanted, indent=1)}"
    assert_one_live_child(audit, mark, team)


def kind_of(asked: Asked) -> str:
    """The resource of a write, without its group, with the state that a status changes to."""
    return f"{asked.resource.rpartition('/')[2]} {asked.state}".strip()


def nth_of(kind: str, number: int) -> Meets:
    """The write of this kind, or of any kind that begins with it, with that number, from 1."""
    came = 0

    def meets(asked: Asked) -> bool:
        nonlocal came
        of_it = asked.writes and f"{kind_of(asked)} ".startswith(f"{kind} ")
        came += of_it
        return of_it and came == number

    return meets


def run(team: Team, audit: AuditLog, name: str, killed: tuple[Rule, OperatorProcess] | None = None) -> dict[str, Any]:
    """One gang from its creation to its end, with what it left; the operator is started again as soon as it is dead."""
    mark = audit.now()
    uid = team.submit(name, runs_for="1s", nodes=2, gpusPerNode=8)
    if killed is not None:
        rule, operator = killed
        eventually(lambda: rule.met, 20, what=f"write at which {name} kills the operator", every=0.01)
        eventually(lambda: not operator.alive, 10, what="an operator that is dead", every=0.01)
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
