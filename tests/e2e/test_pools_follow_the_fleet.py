"""GPUPool objects: discovered ones come and go with their nodes, an admin's claims nodes and changes the plan."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.api_server import GPUPOOLS, NODES, ApiServer, AuditLog, Object
from tests.e2e.cluster import eventually
from tests.e2e.conftest import Fleet
from tests.e2e.operator_process import OperatorProcess
from tests.e2e.team import Team

pytestmark = pytest.mark.e2e


def pool(name: str, **spec: Any) -> Object:
    return {"apiVersion": "gpujob.dev/v1alpha1", "kind": "GPUPool", "metadata": {"name": name}, "spec": spec}


def condition(api: ApiServer, name: str, kind: str) -> Object:
    conditions = api.get(GPUPOOLS, name).get("status", {}).get("conditions", [])
    return next((each for each in conditions if each["type"] == kind), {})


def test_an_admins_pool_claims_nodes_and_discovered_pools_come_and_go(
    hasty: OperatorProcess, api: ApiServer, fleet: Fleet, team: Team, audit: AuditLog
) -> None:
    nodes = fleet(mi300x=2, h100=1)
    mine = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": nodes[:1]}]}
    both = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": nodes[:2]}]}
    admins = ["admins-first", "admins-second"]
    dear, discovered = "h100-sxm-p5-48xlarge-ondemand", "mi300x-standard-nd96isr-mi300x-v5-ondemand"
    team.submit("market", runs_for="0s", placement={"objective": "Cost"})
    team.until("market", "Succeeded")
    market = team.status("market")["placement"]
    assert (market["pool"], market["pricePerHour"]) == (discovered, "6.00")
    try:
        groups = {"price": {"perGPUHour": "1.25"}, "supplementalGroups": [44, 109], "resourceName": "amd.com/gpu"}
        first = api.create(GPUPOOLS, pool(admins[0], nodeSelector=mine, **groups))
        # The second of its creation says which is older.
        eventually(lambda: later(api, first), 5, what="a later second")
        api.create(GPUPOOLS, pool(admins[1], nodeSelector=both, price={"perNodeHour": "400"}))

        uid = team.submit("cheap", runs_for="0s")
        team.until("cheap", "Succeeded")
        cheap = team.status("cheap")["placement"]
        assert (cheap["pool"], cheap["pricePerHour"], cheap["nodeNames"]) == (admins[0], "1.25", nodes[:1])
        (pod,) = team.pods(uid)
        assert pod["spec"]["securityContext"]["supplementalGroups"] == [44, 109]
        team.submit("dearest", runs_for="0s", gpusPerNode=8, placement={"pools": {"allow": [admins[1]]}})
        team.until("dearest", "Succeeded")
        dearest = team.status("dearest")["placement"]
        assert (dearest["pricePerHour"], dearest["nodeNames"]) == ("400.00", nodes[1:2])

        # A new leader shows at once what is there, the rest of the time when what changed has gathered for a while.
        hasty.stop()
        hasty.start().until_leading()
        wanted = {dear: 1, admins[0]: 1, admins[1]: 1}
        eventually(lambda: nodes_by_pool(api) == wanted, 45, what=f"pools with nodes {wanted}")
        overlaps = condition(api, admins[1], "Overlaps")
        assert (overlaps["status"], overlaps["reason"]) == ("True", "Overlaps")
        assert overlaps["message"] == (
            f"the older GPUPool {admins[0]} claims node {nodes[0]} too and has it; narrow spec.nodeSelector"
        )
        assert condition(api, admins[0], "Overlaps")["status"] == "False"
        free = {"total": 8, "free": 8}
        eventually(
            lambda: api.get(GPUPOOLS, admins[0])["status"]["gpus"] == free, 45, what="all of its GPUs free again"
        )
        assert api.get(GPUPOOLS, admins[0])["status"]["pricePerGPUHour"] == "1.25"

        mark = audit.now()
        for name in admins:
            api.delete(GPUPOOLS, name)
        for name in nodes[1:]:
            api.delete(NODES, name)
        eventually(lambda: nodes_by_pool(api) == {discovered: 1}, 45, what="one pool for the node that is left")
        # At once what an admin's GPUPool gives back, and once what gathers after that.
        assert audit.writes(mark)["gpupools/status"] <= 4
    finally:
        for name in admins:
            api.delete(GPUPOOLS, name)


def nodes_by_pool(api: ApiServer) -> dict[str, int]:
    """How many nodes each pool says it has."""
    return {each["metadata"]["name"]: each.get("status", {}).get("nodes", -1) for each in api.items(GPUPOOLS)}


def later(api: ApiServer, created: Object) -> bool:
    """Whether an object that is created now is younger by a second than this one."""
    probe = pool("probe", nodeSelector={"matchLabels": {"a": "b"}})
    now = api.try_out(GPUPOOLS, probe)["metadata"]["creationTimestamp"]
    return str(now) > str(created["metadata"]["creationTimestamp"])
