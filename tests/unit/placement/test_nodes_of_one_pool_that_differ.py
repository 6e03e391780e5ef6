"""The nodes of an admin's pool differ in a fact: the worst counts for all, and a job that accepts only the best is never impossible."""

from __future__ import annotations

from typing import Any

import pytest
from builders import H100, L4, Object, demand, fleet, gpupool, node
from hypothesis import given
from hypothesis import strategies as st

from gpujob.catalog.files.load import load_catalog
from gpujob.placement.engine.choose import choose
from gpujob.placement.engine.decide import decide
from gpujob.placement.scoring.candidate import Decision
from gpujob.values.vocabulary import Reason, Verdict

CATALOG = load_catalog()
X = {"pool": "x"}
SPOT = {"cloud.google.com/gke-spot": "true"}
OLD = {"nvidia.com/cuda.driver-version.full": "470.10.1"}
SMALL = {"nvidia.com/gpu.memory": "20000"}


def member(name: str, labels: dict[str, str] | None = None, price: str = "1.00", **more: Any) -> Object:
    return node(name, L4, 4, labels=X | (labels or {}), price=price, **more)


def decided(*nodes: Object, admin: dict[str, Any] | None = None, **spec: Any) -> Decision:
    """The decision, with the same choice as the search that ends at the first candidate."""
    known, wanted = fleet(gpupool("mix", X, **(admin or {})), *nodes, catalog=CATALOG), demand(**spec)
    decision = decide(wanted, known, CATALOG)
    pick = choose(wanted, known, CATALOG)
    assert (pick.verdict, pick.choice) == (decision.verdict, decision.choice)
    return decision


NARROW = "; narrow spec.nodeSelector of the GPUPool"


@pytest.mark.parametrize(
    ("other", "spec", "message"),
    [
        (member("r2", SPOT), {}, f"its nodes are OnDemand and Spot, and Spot counts for all of them{NARROW}"),
        (member("r2", SPOT, cordoned=True), {}, f"its nodes are OnDemand and Spot, and Spot counts for all of them{NARROW}"),
        (member("r2", price="3.00"), {"placement": {"maxPricePerHour": "1.50"}},
         f"its GPUs cost $1.00 to $3.00 an hour, and $3.00 counts for all of them{NARROW}"),
        (member("r2", price="3.00"), {"gpusPerNode": 2, "placement": {"maxPricePerHour": "2"}},
         f"its GPUs cost $1.00 to $3.00 an hour, and $3.00 counts for all of them{NARROW}"),
        (member("r2", SMALL), {"gpuMemory": "23G"},
         f"its GPUs have 19.33Gi to 22.26Gi, and 19.33Gi counts for all of them{NARROW}, or set memoryPerGPU"),
    ],
)  # fmt: skip
def test_a_node_that_joins_makes_no_job_impossible(other: Object, spec: dict[str, Any], message: str) -> None:
    assert decided(member("r1"), **spec).verdict is Verdict.PLACED
    found = decided(member("r1"), other, **spec)
    assert found.verdict is Verdict.MISCONFIGURED
    (reason,) = found.candidates[0].reasons
    assert (reason.reason, reason.message) == (Reason.MODELS_DIFFER, message)


def test_an_older_driver_that_joins_is_to_be_upgraded() -> None:
    found = decided(member("r1"), member("r2", OLD))
    assert found.verdict is Verdict.MISCONFIGURED
    said = {
        reason.message for each in found.candidates for reason in each.reasons if reason.reason is Reason.MODELS_DIFFER
    }
    assert any(message.startswith("its nodes have drivers 470.10.1 to 580.95.05, the image needs ") for message in said)
    assert all(message.endswith(f"the oldest counts for all of them; upgrade it, or{NARROW[1:]}") for message in said)


@pytest.mark.parametrize(
    ("nodes", "admin", "spec", "verdict"),
    [
        # What none of the nodes has can never run.
        ([member("r1"), member("r2", price="3.00")], {}, {"placement": {"maxPricePerHour": "0.99"}}, Verdict.IMPOSSIBLE),
        ([member("r1"), member("r2", SMALL)], {}, {"gpuMemory": "30G"}, Verdict.IMPOSSIBLE),
        ([member("r1", SPOT), member("r2", SPOT)], {}, {}, Verdict.IMPOSSIBLE),
        # What the admin says counts for every node.
        ([member("r1"), member("r2", SPOT)], {"capacityType": "OnDemand"}, {}, Verdict.PLACED),
        ([member("r1"), member("r2", price="3.00")], {"price": {"perGPUHour": "1"}}, {"placement": {"maxPricePerHour": "1.50"}},
         Verdict.PLACED),
        ([member("r1"), member("r2", SMALL)], {"memoryPerGPU": "22Gi"}, {"gpuMemory": "23G"}, Verdict.PLACED),
        # A job that accepts the worst is placed on any of them.
        ([member("r1"), member("r2", SPOT)], {}, {"placement": {"capacityTypes": ["Spot"]}}, Verdict.PLACED),
        ([member("r1"), member("r2", price="3.00")], {}, {}, Verdict.PLACED),
    ],
)  # fmt: skip
def test_a_job_that_all_nodes_or_none_accept_is_decided_as_before(
    nodes: list[Object], admin: dict[str, Any], spec: dict[str, Any], verdict: Verdict
) -> None:
    assert decided(*nodes, admin=admin, **spec).verdict is verdict


traits = st.sampled_from([{}, SPOT, OLD, SMALL])
members = st.lists(st.tuples(traits, st.sampled_from(["1.00", "3.00", "8"])), min_size=1, max_size=4)
wanted = st.fixed_dictionaries(
    {},
    optional={
        "gpuMemory": st.sampled_from(["16G", "21G", "23G", "30G"]),
        "gpusPerNode": st.sampled_from([1, 2, 4, 8]),
        "placement": st.sampled_from(
            [{"maxPricePerHour": "2"}, {"maxPricePerHour": "0.5"}, {"capacityTypes": ["Spot"]}]
        ),
    },
)


@given(members, traits, wanted)
def test_a_node_that_joins_never_makes_a_job_impossible(
    there: list[tuple[dict[str, str], str]], joins: dict[str, str], spec: dict[str, Any]
) -> None:
    nodes = [member(f"n{number}", labels, price) for number, (labels, price) in enumerate(there)]
    others = [node("h", H100, 1, price="9")]
    before = decided(*nodes, *others, **spec).verdict
    after = decided(*nodes, *others, member("z", joins, "2.00"), **spec).verdict
    assert before is Verdict.IMPOSSIBLE or after is not Verdict.IMPOSSIBLE
