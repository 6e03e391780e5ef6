"""A running operator reads which container runtime a node has, and follows when the runtime is upgraded."""

from __future__ import annotations

import pytest

from tests.e2e.api_server import NODES, ApiServer
from tests.e2e.cluster import eventually
from tests.e2e.conftest import Fleet
from tests.e2e.operator_process import OperatorProcess
from tests.e2e.team import Team

pytestmark = pytest.mark.e2e


def has_runtime(api: ApiServer, node: str, runtime: str) -> None:
    info = api.get(NODES, node)["status"]["nodeInfo"]
    api.patch(NODES, node, {"status": {"nodeInfo": {**info, "containerRuntimeVersion": runtime}}}, "status")


def test_code_of_an_image_waits_for_nothing_but_a_runtime_that_mounts_it(
    operator: OperatorProcess, api: ApiServer, fleet: Fleet, team: Team
) -> None:
    (node,) = fleet(mi300x=1)
    has_runtime(api, node, "containerd://1.7.28")
    code = {"image": {"reference": "team.example/code:3"}}
    team.submit("plain", runs_for="0s")
    team.until("plain", "Succeeded")
    uid = team.submit("coded", code=code)
    team.until("coded", "Impossible")
    (refused,) = {each["reason"] for each in team.status("coded")["candidates"]}
    assert refused == "ImageVolumeUnsupported"
    assert f"its node cannot mount an image as a volume ({node} has containerd 1.7.28)" in str(team.status("coded"))
    assert team.jobs(uid) == []
    has_runtime(api, node, "containerd://2.2.1")
    team.until("coded", "Running")
    volumes = eventually(lambda: team.jobs(uid), 10)[0]["spec"]["template"]["spec"]["volumes"]
    assert {"name": "gpujob-source", "image": {**code["image"], "pullPolicy": "IfNotPresent"}} in volumes
