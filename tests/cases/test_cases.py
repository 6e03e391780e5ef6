"""Cases as data: each folder is a cluster, its jobs and what shall become of them, planned as the command line does.

job.yaml and cluster.yaml are what a person would give to `kubectl gpujob plan -f job.yaml --cluster cluster.yaml`, with
`--catalog catalog.yaml` where there is one. What expect.yaml can say is in the README of this folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpujob.catalog.catalog import Catalog
from gpujob.catalog.files.load import load_catalog, read_catalog
from gpujob.cli.input.jobs import read_jobs
from gpujob.cli.planning.planner import Plan, plan_jobs
from gpujob.fleet.pools.fleet import Fleet
from gpujob.fleet.pools.pool import Pool
from gpujob.fleet.sources.cluster_file import fleet_of, read_cluster
from gpujob.placement.report import decision_json
from gpujob.placement.scoring.candidate import Candidate
from gpujob.render.children import Children, render
from gpujob.values.errors import BadInput
from gpujob.values.quantity import format_dollars

CASES = sorted(path.parent for path in Path(__file__).parent.glob("*/expect.yaml"))
ABSENT = "absent"


@pytest.mark.parametrize("folder", CASES, ids=lambda folder: folder.name)
def test_case(folder: Path) -> None:
    expected = yaml.safe_load((folder / "expect.yaml").read_text())
    own_catalog = folder / "catalog.yaml"
    catalog = read_catalog(own_catalog.read_text()) if own_catalog.exists() else load_catalog()
    assert [name for name, _ in catalog.refused] == expected.get("refusedRuntimes", [])
    fleet, known = fleet_of(read_cluster((folder / "cluster.yaml").read_text()), catalog)
    for where, pool in expected.get("pools", {}).items():
        assert_pool(_pool(fleet, where), pool)
    if "badInput" in expected:
        with pytest.raises(BadInput) as refusal:
            read_jobs((folder / "job.yaml").read_text(), None)
        assert str(refusal.value) == expected["badInput"]
        return
    plans = {plan.name: plan for plan in planned(folder, fleet, known)}
    assert plans.keys() == expected["jobs"].keys()
    for name, wanted in expected["jobs"].items():
        assert_plan(plans[name], wanted, fleet)


def test_every_case_names_its_source() -> None:
    named = {folder.name: yaml.safe_load((folder / "expect.yaml").read_text()).get("case") for folder in CASES}
    assert named
    assert not [name for name, case in named.items() if not isinstance(case, str) or len(case) != 3]


def planned(folder: Path, fleet: Fleet, catalog: Catalog) -> list[Plan]:
    """The plans of a folder's jobs, in their order."""
    return plan_jobs(read_jobs((folder / "job.yaml").read_text(), None), fleet, catalog, {})


def assert_pool(pool: Pool, wanted: dict[str, Any]) -> None:
    """What a pool is made of."""
    found = {"total": pool.total, "free": pool.free, "accelerator": pool.accelerator_id, "resource": pool.resource}
    assert wanted == {member: found[member] for member in wanted}


def assert_plan(plan: Plan, wanted: dict[str, Any], fleet: Fleet) -> None:
    """Everything that expect.yaml says of one job."""
    decision, told = plan.decision, decision_json.plan(plan.decision)
    rest = dict(wanted)
    assert decision.verdict == rest.pop("verdict"), told["message"]
    chosen = told["chosen"] or {}
    for member in ("nodes", "image", "runtime", "accelerator", "pricePerHour", "priceSource"):
        if member in rest:
            assert chosen.get("nodeNames" if member == "nodes" else member) == rest.pop(member), member
    if "message" in rest:
        assert told["message"] == rest.pop("message")
    if "fix" in rest:
        change = told["nearestFix"]["change"]
        assert {"field": change["field"], "to": change["to"]} == rest.pop("fix")
    for where, outcome in rest.pop("outcomes", {}).items():
        assert next(c.outcome for c in _candidates(plan, fleet, where)) == outcome, where
    for where, reasons in rest.pop("reasons", {}).items():
        assert _reasons(_candidates(plan, fleet, where)) == set(reasons), where
    for where, warnings in rest.pop("warnings", {}).items():
        first = _candidates(plan, fleet, where)[0]
        assert {warning.reason for warning in first.warnings} >= set(warnings), where
    for where, text in rest.pop("says", {}).items():
        messages = [reason.message for c in _candidates(plan, fleet, where) for reason in c.reasons]
        assert any(text in message for message in messages), messages
    for where, price in rest.pop("prices", {}).items():
        micro = _candidates(plan, fleet, where)[0].price_per_hour
        assert (None if micro is None else format_dollars(micro)) == price, where
    if "service" in rest:
        services = [child for child in children_of(plan, fleet).in_order if child["kind"] == "Service"]
        wanted_service = rest.pop("service")
        assert len(services) == (wanted_service != ABSENT)
        assert not services or not list(differences(wanted_service, services[0]["spec"]))
    if rest:
        assert_pod(pod_of(plan, fleet), rest)
    assert not rest, f"expect.yaml has unknown members: {sorted(rest)}"


def pod_of(plan: Plan, fleet: Fleet) -> dict[str, Any]:
    """The spec of the pod that a placed job would get."""
    pod: dict[str, Any] = children_of(plan, fleet).job["spec"]["template"]["spec"]
    return pod


def children_of(plan: Plan, fleet: Fleet) -> Children:
    """What would be created for a placed job."""
    assert plan.decision.choice is not None
    return render(plan.job, plan.decision.choice, 1, fleet.runtime_classes, plan.decision.digest)


def assert_pod(pod: dict[str, Any], rest: dict[str, Any]) -> None:
    """What a case says of the pod; takes off `rest` what it checked."""
    train = pod["containers"][0]
    for member in ("limits", "requests"):
        assert not list(differences(rest.pop(member, {}), train["resources"][member]))
    assert not list(differences(rest.pop("env", {}), {e["name"]: e.get("value") for e in train.get("env", [])}))
    assert not list(differences(rest.pop("pod", {}), pod))
    if "sharedMemory" in rest:
        mount = next(mount for mount in train["volumeMounts"] if mount["mountPath"] == "/dev/shm")
        volume = next(volume for volume in pod["volumes"] if volume["name"] == mount["name"])
        assert volume["emptyDir"] == {"medium": "Memory", "sizeLimit": rest.pop("sharedMemory")}
    if rest.pop("noHostPath", False):
        assert not [volume for volume in pod["volumes"] if "hostPath" in volume]


def differences(wanted: Any, found: Any, path: str = "") -> Iterator[str]:
    """Where a manifest is not as wanted; members that are not named are free, `absent` ones must not be there."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        for member, value in wanted.items():
            if value == ABSENT:
                if member in found:
                    yield f"{path}.{member} is there"
            elif member not in found:
                yield f"{path}.{member} is missing"
            else:
                yield from differences(value, found[member], f"{path}.{member}")
    elif isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        for index, (one, other) in enumerate(zip(wanted, found, strict=True)):
            yield from differences(one, other, f"{path}[{index}]")
    elif wanted != found:
        yield f"{path} is {found!r}, not {wanted!r}"


def _pool(fleet: Fleet, where: str) -> Pool:
    """The pool that holds a node, `node` or `node:resource`."""
    node, _, resource = where.partition(":")
    pools = [pool for pool in fleet.whole_pools if any(member.name == node for member in pool.nodes)]
    pools = [pool for pool in pools if resource in ("", pool.resource)]
    assert len(pools) == 1, f"{where} is in {[pool.name for pool in pools]}"
    return pools[0]


def _candidates(plan: Plan, fleet: Fleet, where: str) -> list[Candidate]:
    """The candidates of the pool that holds a node, best first, without images of another framework."""
    name = _pool(fleet, where).name
    own = [candidate for candidate in plan.decision.candidates if candidate.pool.name == name]
    return [candidate for candidate in own if not candidate.runtime.name.startswith("vllm")]


def _reasons(candidates: list[Candidate]) -> set[str]:
    return {reason.reason.value for candidate in candidates for reason in candidate.reasons}
