"""Devices that no node lists: drivers publish them, pods claim them, and the real scheduler allocates what was chosen.

What drivers publish is written by `dra_drivers`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.e2e.api_server import GPUPOOLS, ApiServer
from tests.e2e.cluster import eventually
from tests.e2e.dra_drivers import A100, AMD, CLAIMS, H100, MI300X, MIG, NVIDIA, TEMPLATES, WHOLE, Drivers, device
from tests.e2e.operator_process import OperatorProcess
from tests.e2e.team import Team

pytestmark = pytest.mark.e2e


@pytest.fixture
def drivers(api: ApiServer, request: pytest.FixtureRequest) -> Iterator[Drivers]:
    made = Drivers(api, f"dra{abs(hash(request.node.name)) % 10_000}")
    yield made
    made.clear()


@pytest.fixture
def crew(drivers: Drivers, team: Team) -> Team:
    """A team that goes before the nodes do."""
    return team


def allocated(api: ApiServer, namespace: str) -> list[str]:
    """The devices that claims of a namespace hold."""
    claims = api.items(CLAIMS.format(namespace))
    results = [claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", []) for claim in claims]
    return sorted(result["device"] for found in results for result in found)


def free_of(api: ApiServer, accelerator: str) -> tuple[int, int] | None:
    """Free and all GPUs of the published pool of an accelerator that DRA offers."""
    for pool in api.items(GPUPOOLS):
        status = pool.get("status", {})
        if status.get("accelerator") == accelerator and status.get("resourceName", "").startswith("gpu."):
            return status["gpus"]["free"], status["gpus"]["total"]
    return None


def until(what: str, holds: Callable[[], object], timeout: float = 60) -> None:
    eventually(holds, timeout, what=what, every=0.2)


def test_claims_are_allocated_as_chosen_and_counted(
    hasty: OperatorProcess, api: ApiServer, drivers: Drivers, crew: Team
) -> None:
    """A class without a resource name: each pod gets a claim of its own, for the chosen model of a mixed node."""
    node = drivers.node("mixed")
    drivers.device_class(NVIDIA, WHOLE)
    drivers.publish(
        node, NVIDIA,
        *(device(f"h100-{index}", H100) for index in range(4)), *(device(f"a100-{index}", A100) for index in range(2)),
        device("odd", {"type": {"string": "gpu"}}),
    )  # fmt: skip
    uid = crew.submit("three", gpusPerNode=3, placement={"accelerators": {"allow": ["H100-SXM"]}})
    crew.until("three", "Running")
    assert allocated(api, crew.namespace) == ["h100-0", "h100-1", "h100-2"]
    template = api.items(TEMPLATES.format(crew.namespace))[0]
    assert template["metadata"]["ownerReferences"][0]["uid"] == uid
    pod = crew.pods(uid)[0]["spec"]
    assert pod["nodeName"] == node
    assert pod["resourceClaims"][0]["resourceClaimTemplateName"] == template["metadata"]["name"]
    assert not [key for key in pod["containers"][0]["resources"]["limits"] if "nvidia" in key]
    # One H100 is left, which the next job knows before it asks.
    crew.submit("two-more", gpusPerNode=2, placement={"accelerators": {"allow": ["H100-SXM"]}})
    crew.until("two-more", "Queued")
    assert "needs 2 free GPUs on one node, 1 of 4 are free" in crew.status("two-more")["candidates"][0]["message"]
    crew.submit("other-model", gpusPerNode=2, placement={"accelerators": {"allow": ["A100-80GB"]}})
    crew.until("other-model", "Running")
    until("free counts that follow claims", lambda: free_of(api, "H100-SXM") == (1, 4))
    crew.delete("three")
    crew.until("two-more", "Running")
    until("the template gone with its job", lambda: len(api.items(TEMPLATES.format(crew.namespace))) == 2)
    until("free counts after it", lambda: free_of(api, "H100-SXM") == (2, 4))


def test_a_gang_gets_a_claim_for_each_pod(
    operator: OperatorProcess, api: ApiServer, drivers: Drivers, crew: Team
) -> None:
    drivers.device_class(AMD, f"device.driver == '{AMD}'")
    for name in ("a", "b"):
        drivers.publish(drivers.node(name), AMD, *(device(f"gpu-{index}", MI300X) for index in range(2)))
    uid = crew.submit("gang", nodes=2, gpusPerNode=2, runs_for="2s")
    crew.until("gang", "Running")
    assert len({pod["spec"]["nodeName"] for pod in crew.pods(uid)}) == 2
    assert allocated(api, crew.namespace) == ["gpu-0", "gpu-0", "gpu-1", "gpu-1"]
    crew.until("gang", "Succeeded")
    until("claims taken back", lambda: allocated(api, crew.namespace) == [])
    crew.submit("after", nodes=2, gpusPerNode=2)
    crew.until("after", "Running")


def test_a_deletion_that_orphans_leaves_no_template(
    hasty: OperatorProcess, api: ApiServer, drivers: Drivers, crew: Team
) -> None:
    """The API server takes the owner from all children: nothing of them ends by itself."""
    node = drivers.node("orphans")
    drivers.device_class(NVIDIA, WHOLE)
    drivers.publish(node, NVIDIA, *(device(f"h100-{index}", H100) for index in range(2)))
    crew.submit("left", gpusPerNode=2)
    crew.until("left", "Running")
    (template,) = api.items(TEMPLATES.format(crew.namespace))
    # One of a user, which only has the labels, is none of the operator's.
    body = {**template, "metadata": {"name": "mine", "labels": {"app": "mine"}}}
    api.create(TEMPLATES.format(crew.namespace), body)
    api.delete(crew.path, "left", "Orphan")

    def left() -> list[str]:
        return [each["metadata"]["name"] for each in api.items(TEMPLATES.format(crew.namespace))]

    until("the template deleted", lambda: left() == ["mine"])
    until("nothing left", lambda: not crew.pods() and not crew.jobs() and not api.items(CLAIMS.format(crew.namespace)))
    api.delete(TEMPLATES.format(crew.namespace), "mine")


def test_the_name_of_a_class_is_all_that_a_pod_needs(
    operator: OperatorProcess, api: ApiServer, drivers: Drivers, crew: Team
) -> None:
    """Extended resources: the scheduler makes the claim, and what it holds is counted once."""
    node = drivers.node("named")
    drivers.device_class(NVIDIA, WHOLE, "nvidia.com/gpu")
    drivers.publish(node, NVIDIA, *(device(f"gpu-{index}", H100) for index in range(4)))
    uid = crew.submit("three", gpusPerNode=3)
    crew.until("three", "Running")
    assert len(allocated(api, crew.namespace)) == 3
    assert api.items(TEMPLATES.format(crew.namespace)) == []
    assert crew.pods(uid)[0]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "3"
    crew.submit("one", gpusPerNode=1)
    crew.until("one", "Running")
    crew.submit("none-left", gpusPerNode=1)
    crew.until("none-left", "Queued")
    assert "0 of 4 are free" in crew.status("none-left")["candidates"][0]["message"]


def test_slices_of_a_card_and_sick_devices(
    operator: OperatorProcess, api: ApiServer, drivers: Drivers, crew: Team
) -> None:
    """MIG by DRA: a job that admits parts gets one; a device with a taint is not offered until it is well again."""
    node = drivers.node("parts")
    drivers.device_class(
        "mig.nvidia.com", f"device.driver == '{NVIDIA}' && device.attributes['{NVIDIA}'].type == 'mig'"
    )
    sick = [{"key": "xid", "effect": "NoSchedule"}]
    drivers.publish(node, NVIDIA, device("mig-0", MIG), device("mig-1", MIG, taints=sick))
    crew.submit("first", placement={"devices": ["Partition"]})
    crew.until("first", "Running")
    crew.submit("second", placement={"devices": ["Partition"]})
    crew.until("second", "Queued")
    assert allocated(api, crew.namespace) == ["mig-0"]
    drivers.publish(node, NVIDIA, device("mig-0", MIG), device("mig-1", MIG), generation=2)
    crew.until("second", "Running")
    assert allocated(api, crew.namespace) == ["mig-0", "mig-1"]


def test_devices_that_an_admin_taints_are_not_free(
    operator: OperatorProcess, api: ApiServer, drivers: Drivers, crew: Team
) -> None:
    node = drivers.node("tainted")
    drivers.device_class(NVIDIA, WHOLE, "nvidia.com/gpu")
    drivers.taint(f"{node}-broken", pool=node, device="gpu-0")
    drivers.publish(node, NVIDIA, device("gpu-0", H100), device("gpu-1", H100))
    # As soon as the operator knows of the devices it knows that one of them is tainted.
    crew.submit("both", gpusPerNode=2)
    crew.until("both", "Queued")
    assert "1 of 2 are free" in crew.status("both")["candidates"][0]["message"]
    drivers.untaint(f"{node}-broken")
    crew.until("both", "Running")
    assert allocated(api, crew.namespace) == ["gpu-0", "gpu-1"]
