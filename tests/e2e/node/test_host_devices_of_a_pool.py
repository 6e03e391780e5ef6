"""A pool of host devices on a real node: the pod opens every device of it, once its namespace allows such pods."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.e2e.api_server import NAMESPACES, ApiServer
from tests.e2e.cluster import eventually
from tests.e2e.node.devices import GPUS, RENDER_GROUP
from tests.e2e.node.test_who_may_open_devices import seen
from tests.e2e.node.training import Trainers
from tests.e2e.operator_process import OperatorProcess

pytestmark = [pytest.mark.e2e, pytest.mark.node]

ACCELERATOR = "MI210"
ONLY = {"pools": {"allow": ["all-amd"]}}
RENDER_NODES = [f"/dev/dri/renderD{128 + number}" for number in range(GPUS)]


def allow(api: ApiServer, namespace: str) -> None:
    """Labels a namespace as the operator asks for."""
    labels = {"pod-security.kubernetes.io/enforce": "privileged"}
    api.patch(NAMESPACES, namespace, {"metadata": {"labels": labels}})


def test_a_job_is_told_the_label_and_then_opens_all_devices_of_its_node(
    operator: OperatorProcess, api: ApiServer, team: Trainers, pools: Callable[..., None]
) -> None:
    pools("amd", deviceMode="HostDevices", accelerator=ACCELERATOR, supplementalGroups=[RENDER_GROUP])
    team.run("waits", "true", placement=ONLY, gpusPerNode=GPUS)

    def told() -> bool:
        return "label it pod-security.kubernetes.io/enforce=privileged" in team.condition("waits", "Placed")["message"]

    team.until("waits", "Misconfigured")
    eventually(told, 30, what="the label to set")
    assert team.pods() == []
    allow(api, team.namespace)
    found = seen(team, "opens", placement=ONLY, gpusPerNode=GPUS)
    assert found["uid"] == 1000
    assert {path: what for path, what in found["devices"].items() if "nvidia" not in path} == dict.fromkeys(
        ["/dev/kfd", *RENDER_NODES], "opens"
    )


def test_without_the_group_a_job_that_is_not_root_opens_none(
    operator: OperatorProcess, api: ApiServer, team: Trainers, pools: Callable[..., None]
) -> None:
    pools("amd", deviceMode="HostDevices", accelerator=ACCELERATOR)
    allow(api, team.namespace)
    found = seen(team, "closed", placement=ONLY, gpusPerNode=GPUS)
    assert {found["devices"][path] for path in ("/dev/kfd", *RENDER_NODES)} == {"EACCES"}
