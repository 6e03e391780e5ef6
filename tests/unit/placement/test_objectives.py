"""Value, Cost and Speed: what each makes of the same pools."""

from __future__ import annotations

from typing import Any

import pytest
from builders import A100, H100, H200, L4, MI210, MI300X, MI355X, Object, decision, gpupool, node

from gpujob.catalog.devices.throughput import Speed, Work
from gpujob.catalog.files.load import load_catalog
from gpujob.placement.report import decision_json, summary
from gpujob.placement.report.behind import behind
from gpujob.placement.scoring.candidate import Decision, best_per_pool
from gpujob.values.vocabulary import Outcome, Verdict
from tests.e2e.cluster.nodes import Amd, Nvidia

MI100 = Amd("738c", "AMD_Instinct_MI100", 32, 120)
B200 = Nvidia("NVIDIA-B200", 183359, "blackwell", (10, 0), mig=True)
W7900 = Amd("7448", "AMD_Radeon_PRO_W7900", 48, 96)
W7700 = Amd("7470", "AMD_Radeon_PRO_W7700", 16, 48)
UNPRICED = {"node.kubernetes.io/instance-type": None}
# A part of the catalog without figures of its speed, at a dollar.
W7800 = node("w", labels={"amd.com/gpu.device-id": "745e"}, devices={"amd.com/gpu": "8"}, price="1")


def decided(*objects: Object, objective: str | None = "Value", **spec: Any) -> Decision:
    return decision(*objects, placement={"objective": objective} if objective else {}, **spec)


def order(*objects: Object, objective: str | None = "Value", **spec: Any) -> list[str]:
    found = best_per_pool(decided(*objects, objective=objective, **spec))
    return [c.pool.accelerator_id for c in found if c.outcome in (Outcome.CHOSEN, Outcome.FITS)]


NODES = [
    node("b", B200, price="5"),
    node("h", H100, price="3"),
    node("l", L4, price="0.7"),
    node("m", MI300X, price="2"),
]


@pytest.mark.parametrize(
    ("objective", "accelerators"),
    [
        # Dollars for what an H100 does in an hour: MI300X 2.31, B200 2.72, H100 3.00, L4 5.59.
        # How fast a job without model and profile runs is unknown.
        (None, ["L4", "MI300X", "H100-SXM", "B200"]),
        ("Value", ["MI300X", "B200", "H100-SXM", "L4"]),
        ("Cost", ["L4", "MI300X", "H100-SXM", "B200"]),
        ("Speed", ["B200", "H100-SXM", "MI300X", "L4"]),
    ],
)
def test_the_same_pools_under_each_objective(objective: str | None, accelerators: list[str]) -> None:
    assert order(*NODES, objective=objective) == accelerators


@pytest.mark.parametrize("objective", ["Value", "Cost"])
def test_an_unknown_price_ranks_last_however_fast(objective: str) -> None:
    # No list knows what an MI210 or an MI100 costs.
    unpriced = node("u", MI210)
    assert order(unpriced, node("l", L4, price="90"), objective=objective) == ["L4", "MI210"]
    found = decided(unpriced, objective=objective)
    assert found.candidates[0].price_per_hour is None
    assert found.candidates[0].price_of_work is None


def test_a_price_of_nothing_in_a_gpupool_is_a_price() -> None:
    free = gpupool("free", {"cost": "none"}, price={"perGPUHour": "0"})
    fast = gpupool("fast", {"cost": "too"}, price={"perGPUHour": "0"})
    small, large = node("o", L4, labels={"cost": "none"}), node("h", H100, labels={"cost": "too"})
    assert order(free, small, node("h", H100, price="2")) == ["L4", "H100-SXM"]
    assert order(free, fast, small, large) == ["H100-SXM", "L4"]


def test_speed_takes_an_unknown_price_and_of_equal_speeds_the_cheaper() -> None:
    assert order(node("u", MI210), node("l", L4, price="1"), objective="Speed") == ["MI210", "L4"]
    one, other = node("z", H100, price="2", labels=UNPRICED), node("a", H100, price="3", labels=UNPRICED)
    found = decided(one, other, objective="Speed")
    assert found.candidates[0].price_per_hour == 2_000_000


def test_where_a_speed_is_unknown_cost_decides_and_the_plan_says_so() -> None:
    assert order(*NODES, W7800) == ["L4", "W7800", "MI300X", "H100-SXM", "B200"]
    told = decision_json.plan(decided(*NODES, W7800))
    assert told["objective"] == "Cost"
    assert told["message"] == (
        "l4-ondemand is cheapest of 5 pools with room at $0.70 an hour, since no speed of W7800 is known"
    )
    assert decision_json.plan(decided(*NODES, W7800, objective="Cost"))["message"] == (
        "l4-ondemand is cheapest of 5 pools with room at $0.70 an hour"
    )
    assert order(*NODES, W7800, objective="Speed")[-1] == "W7800"


def test_an_unknown_speed_of_a_pool_without_room_changes_nothing() -> None:
    full = {**W7800, "spec": {"unschedulable": True}}
    assert order(*NODES, full) == ["MI300X", "B200", "H100-SXM", "L4"]


def test_the_sentence_says_what_the_winner_has_over_the_cheapest() -> None:
    assert summary.summary(decided(*NODES)) == (
        "mi300x-ondemand is best value of 4 pools with room at $2.00 an hour, about 6.9 times the speed of l4-ondemand"
    )
    two = [node("b", B200, price="4"), node("h", H100, price="3")]
    assert summary.summary(decided(*two)) == (
        "b200-ondemand is best value of 2 pools with room at $4.00 an hour, 1.9 times the speed of h100-sxm-ondemand"
    )
    assert (
        summary.summary(decided(*two, objective="Speed"))
        == "b200-ondemand is fastest of 2 pools with room at $4.00 an hour"
    )
    assert summary.summary(decided(*two, objective="Cost")) == (
        "h100-sxm-ondemand is cheapest of 2 pools with room at $3.00 an hour"
    )


def test_value_counts_the_whole_gang_and_of_equal_values_the_smaller_is_first() -> None:
    nodes = [node("h", H100, price="2"), node("m", MI300X, price="2")]
    shapes = [{"accelerator": "MI300X"}, {"accelerator": "H100-SXM", "gpusPerNode": 4}, {"accelerator": "H100-SXM"}]
    found = decided(*nodes, shapes=shapes)
    assert [(c.pool.accelerator_id, c.gang.shape) for c in found.candidates if c.outcome is not Outcome.REJECTED] == [
        ("H100-SXM", "1x1"), ("H100-SXM", "1x4"), ("MI300X", "1x1")
    ]  # fmt: skip
    fastest = decided(*nodes, shapes=shapes, objective="Speed").candidates[0]
    assert (fastest.gang.shape, fastest.speed_of_job) == ("1x4", 4_000_000)


def test_equals_end_in_the_name() -> None:
    pools = [gpupool(name, {"rack": name}, price={"perGPUHour": 2}) for name in ("b", "a", "c")]
    nodes = [node(name, MI355X, labels={"rack": name}) for name in ("c", "a", "b")]
    for objective in ("Value", "Cost", "Speed"):
        found = decided(*nodes, *pools, objective=objective)
        assert [c.pool.name for c in best_per_pool(found)] == ["a", "b", "c"]


@pytest.mark.parametrize(
    "spec", [{"model": {"parameters": "1B", "method": "LoRA"}, "gpusPerNode": 1}, {"profile": "p"}]
)
def test_a_job_of_whose_work_something_is_known_has_value_as_its_objective(spec: Object) -> None:
    assert decision_json.plan(decided(*NODES, objective=None, **spec))["objective"] == "Value"


def test_a_job_that_probes_has_value_as_its_objective() -> None:
    found = decision(*NODES, placement={"probe": {"steps": 5}})
    assert decision_json.plan(found)["objective"] == "Value"


def test_a_job_of_whose_work_nothing_is_known_takes_the_cheapest_and_says_what_value_would_take() -> None:
    assert summary.summary(decided(*NODES, objective=None)) == (
        "l4-ondemand is cheapest of 4 pools with room at $0.70 an hour; objective Value would take mi300x-ondemand at $2.00"
    )
    one = [node("h", H100, price="3"), node("l", L4, price="2.9")]
    assert summary.summary(decided(*one, objective=None)) == (
        "l4-ondemand is cheapest of 2 pools with room at $2.90 an hour; objective Value would take h100-sxm-ondemand at $3.00"
    )
    same = [node("h", H100, price="1"), node("l", L4, price="2")]
    assert summary.summary(decided(*same, objective=None)) == (
        "h100-sxm-ondemand is best value and cheapest of 2 pools with room at $1.00 an hour"
    )
    assert summary.summary(decided(*NODES, W7800, objective=None)) == (
        "l4-ondemand is cheapest of 5 pools with room at $0.70 an hour"
    )
    assert summary.summary(decided(*NODES, objective="Cost")) == (
        "l4-ondemand is cheapest of 4 pools with room at $0.70 an hour"
    )


def test_within_the_error_of_the_speeds_the_cheaper_hour_wins_and_the_sentence_says_so() -> None:
    # A B200 does 1.84 times what an H100 does, within 10 %: at 5.20 and 3.00 their values are 2.83 and 3.00.
    near = [node("b", B200, price="5.20"), node("h", H100, price="3")]
    assert order(*near) == ["H100-SXM", "B200"]
    assert summary.summary(decided(*near)) == (
        "h100-sxm-ondemand is cheapest of 2 pools with room at $3.00 an hour; b200-ondemand is no better value within the "
        "error of the speeds"
    )
    far = [node("b", B200, price="4.90"), node("h", H100, price="3")]
    assert order(*far) == ["B200", "H100-SXM"]


MODELS = {"A100-80GB": A100, "B200": B200, "H100-SXM": H100, "H200": H200, "L4": L4, "MI300X": MI300X, "MI355X": MI355X}


@pytest.mark.parametrize(
    ("dear", "cheap"),
    [
        # The reference, whose error is 0, with a faster and with a slower one; then two of which each has an error.
        ("H200", "H100-SXM"), ("B200", "H100-SXM"), ("MI355X", "H100-SXM"), ("H100-SXM", "A100-80GB"), ("H100-SXM", "MI300X"),
        ("H100-SXM", "L4"), ("B200", "MI300X"), ("H200", "A100-80GB"), ("MI355X", "A100-80GB"), ("MI300X", "L4"),
    ],
)  # fmt: skip
@pytest.mark.parametrize(("beside", "winner"), [(-0.003, "cheap"), (0.003, "dear")])
def test_the_cheaper_hour_wins_exactly_where_the_printed_errors_say_so(
    dear: str, cheap: str, beside: float, winner: str
) -> None:
    """The two prices of work differ by a little less, or a little more, than the printed errors allow."""
    one, other = (speed_of(name) for name in (dear, cheap))
    room = (1 + one.error / 100) * (1 + other.error / 100)
    price = 300 * other.millionths / one.millionths * (room + beside)
    found = order(node("d", MODELS[dear], price="300"), node("c", MODELS[cheap], price=f"{price:.6f}"))
    assert found[0] == {"dear": dear, "cheap": cheap}[winner]


def speed_of(name: str) -> Speed:
    """The speed of a job without a model; its printed figures are `source` and `error`."""
    found = load_catalog().speed(name, Work())
    assert found is not None
    assert f"± {found.error} %" in found.source
    return found


def test_two_pools_of_one_accelerator_are_in_the_order_of_their_prices() -> None:
    one, other = node("z", H100, price="2.99", labels=UNPRICED), node("a", H100, price="3", labels={"rack": "a"})
    assert decided(one, other).candidates[0].price_per_hour == 2_990_000


def test_of_those_that_are_equal_within_the_error_and_cost_the_same_the_faster_one_wins() -> None:
    assert order(node("h", H100, price="3"), node("m", MI300X, price="3")) == ["H100-SXM", "MI300X"]


def test_a_third_pool_cheaper_than_the_best_within_the_error_does_not_hide_behind_the_second() -> None:
    """All that are equal to the best are compared at once, not pair by pair."""
    three = [node("b", B200, price="5.20"), node("h", H100, price="3"), node("m", MI300X, price="2.70")]
    assert order(*three) == ["MI300X", "H100-SXM", "B200"]


def test_a_lower_price_never_makes_a_pool_lose() -> None:
    others = [node("h", H100, price="3"), node("m", MI300X, price="2.70"), node("l", L4, price="0.40")]
    won = False
    for cents in range(700, 100, -10):
        first = order(*others, node("b", B200, price=f"{cents / 100:.2f}"))[0]
        assert not won or first == "B200", cents
        won = first == "B200"
    assert won


def test_pools_without_a_price_are_ranked_by_what_is_known_and_the_sentence_says_so() -> None:
    unpriced = [node("u", MI210), node("v", MI100)]
    assert order(*unpriced) == ["MI210", "MI100"]
    assert summary.summary(decided(*unpriced)) == (
        "mi210-ondemand is fastest of 2 pools with room, of which none has a known price; set one in a GPUPool"
    )
    assert order(*unpriced, objective="Cost") == ["MI100", "MI210"]
    assert summary.summary(decided(*unpriced, objective="Cost")) == (
        "mi100-ondemand is smallest of 2 pools with room, of which none has a known price; set one in a GPUPool"
    )
    assert summary.summary(decided(*unpriced, node("l", L4, price="1"))) == (
        "l4-ondemand is best value and cheapest of 3 pools with room at $1.00 an hour; 2 of them have no known price"
    )


def test_where_no_price_is_known_each_pool_is_compared_by_what_decided() -> None:
    unpriced = [node("u", MI210), node("v", MI100)]
    by_speed, by_size = (decided(*unpriced, objective=objective) for objective in ("Value", "Cost"))
    assert [behind(each, by_speed) for each in best_per_pool(by_speed)] == [
        "",
        "takes about 1.6 times as long",
    ]
    assert [behind(each, by_size) for each in best_per_pool(by_size)] == [
        "",
        "has 32.31Gi more memory a GPU",
    ]


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (node("v", MI100), "mi100-ondemand is smallest of 2 pools with room"),
        (
            node("v", MI210, taints=["a:PreferNoSchedule"]),
            "mi210-ondemand-f1cbd0 is the first by name of 2 pools with room",
        ),
        (
            node("v", MI100, labels={"amd.com/gpu.driver-version": "7.99.0"}),
            "mi210-ondemand is the one with the fewest warnings of 2 pools with room",
        ),
    ],
)
def test_what_is_said_of_a_pool_without_a_price_is_what_decided(other: Object, said: str) -> None:
    found = decided(node("u", MI210), other, objective="Cost")
    assert summary.summary(found) == f"{said}, of which none has a known price; set one in a GPUPool"


def test_waiting_for_a_busy_pool_is_worth_it_only_beyond_the_error() -> None:
    def waits(price: str) -> bool:
        busy = node("b", B200, price=price, allocatable={"nvidia.com/gpu": "0"})
        found = decision(node("h", H100, price="3"), busy, placement={"objective": "Value", "waitSeconds": 60})
        return found.verdict is Verdict.WAITING

    assert waits("4.00")
    assert not waits("5.20")


A_DOLLAR = {"h": H100, "l": L4, "m": MI300X, "i": MI210}


@pytest.mark.parametrize(
    ("names", "winner", "why"),
    [
        ("hl", "h100-sxm", ", about 8.0 times the speed of l4-ondemand at the same price"),
        ("ml", "mi300x", ", about 6.9 times the speed of l4-ondemand at the same price"),
        ("lih", "h100-sxm", ", about 5.1 times the speed of mi210-ondemand at the same price"),
        ("hm", "h100-sxm", ", 1.2 times the speed of mi300x-ondemand at the same price"),
    ],
)
def test_at_an_equal_price_the_faster_device_wins_and_the_sentence_says_so(names: str, winner: str, why: str) -> None:
    nodes = [node(name, A_DOLLAR[name], price="1") for name in names]
    told = f"{winner}-ondemand is cheapest of {len(names)} pools with room at $1.00 an hour{why}"
    assert summary.summary(decided(*nodes, objective="Cost")) == told
    assert summary.summary(decided(*nodes, objective=None)) == told.replace("cheapest", "best value and cheapest")


def test_a_cent_less_is_still_cheaper_than_any_speed() -> None:
    assert order(node("h", H100, price="1"), node("l", L4, price="0.99"), objective="Cost") == ["L4", "H100-SXM"]


def test_at_an_equal_price_fewer_warnings_come_before_speed() -> None:
    smaller = {"nvidia.com/gpu.memory": "70000"}
    found = decided(node("h", H100, price="1", labels=smaller), node("l", L4, price="1"), objective="Cost")
    assert summary.summary(found) == (
        "l4-ondemand is cheapest of 2 pools with room at $1.00 an hour, with fewer warnings than h100-sxm-ondemand at the same price"
    )
    assert behind(best_per_pool(found)[1], found) == "same price, 1 more warning"


def test_at_an_equal_price_an_unknown_speed_comes_last() -> None:
    labels = {**W7800["metadata"]["labels"], "amd.com/gpu.driver-version": "6.16.6"}
    unmeasured = node("w", labels=labels, devices={"amd.com/gpu": "8"}, price="1")
    found = decided(node("l", L4, price="1"), unmeasured, objective="Cost")
    assert summary.summary(found) == (
        "l4-ondemand is cheapest of 2 pools with room at $1.00 an hour, since no speed of w7800-ondemand at the same price is known"
    )
    assert behind(best_per_pool(found)[1], found) == "same price, no speed is known"


@pytest.mark.parametrize(("objective", "price", "said"), [
    ("Cost", "1", "a is cheapest of 3 pools with room at $1.00 an hour, the first by name of 2 that rank equally"),
    ("Value", "1", "a is best value and cheapest of 3 pools with room at $1.00 an hour, the first by name of 2 that rank equally"),
    ("Speed", "1", "a is fastest of 3 pools with room at $1.00 an hour, the first by name of 2 that rank equally"),
    ("Value", None, "a is fastest of 3 pools with room, the first by name of 2 that rank equally, of which none has a known price; "
     "set one in a GPUPool"),
])  # fmt: skip
def test_a_tie_that_the_name_decides_is_said(objective: str, price: str | None, said: str) -> None:
    device = L4 if price else MI210
    nodes = [node(name, device, price=price, labels={"pool": name}) for name in ("z", "a")]
    worse = node("m", device, price=price and "2", labels={"pool": "m"}, taints=["a:PreferNoSchedule"])
    found = decided(*(gpupool(name, {"pool": name}) for name in "zam"), *nodes, worse, objective=objective)
    assert summary.summary(found) == said
    third, last = best_per_pool(found)[1:]
    assert (third.pool.name, behind(third, found)) == ("z", "ranks equally, later by name")
    assert (last.pool.name, behind(last, found)) != ("m", "ranks equally, later by name")


def test_a_pool_that_something_else_puts_behind_is_not_called_equal() -> None:
    """A gang of another size, a price and a warning decide before the name."""
    one, two = node("a", L4, price="1", labels={"pool": "a"}), node("z", L4, price="1.01", labels={"pool": "z"})
    found = decided(*(gpupool(name, {"pool": name}) for name in "za"), one, two, objective="Cost")
    assert summary.summary(found) == "a is cheapest of 2 pools with room at $1.00 an hour"
    assert behind(best_per_pool(found)[1], found) == "costs $0.01 an hour more"


def test_a_gang_that_pays_the_same_for_more_speed_wins() -> None:
    two, one = node("t", L4, price="1"), node("h", H100, price="2")
    shapes = [{"accelerator": "L4", "gpusPerNode": 2}, {"accelerator": "H100-SXM", "gpusPerNode": 1}]
    found = decided(two, one, objective="Cost", shapes=shapes)
    assert found.candidates[0].pool.accelerator_id == "H100-SXM"
    assert behind(best_per_pool(found)[1], found) == "same price, takes about 4.0 times as long"


@pytest.mark.parametrize("objective", ["Cost", "Value", "Speed"])
def test_a_cheaper_pool_whose_nodes_must_be_added_says_so(objective: str) -> None:
    burst = gpupool("burst", {"of": "burst"}, accelerator="H100-SXM", price={"perGPUHour": "0.60"},
                    provision={"maxNodes": 1, "gpusPerNode": 1})  # fmt: skip
    found = decided(node("a", H100, price="1"), burst, objective=objective)
    other = next(each for each in found.candidates if each.pool.name == "burst")
    assert behind(other, found) == "an autoscaler must add nodes first"


@pytest.mark.parametrize(
    ("objective", "first", "second", "said"),
    [
        ("Value", "3.00", "3.10", "costs slightly more for the same work"),
        ("Value", "3.00", "3.60", "costs about 1.2 times as much for the same work"),
    ],
)
def test_a_ratio_of_one_in_two_digits_is_said_in_words(objective: str, first: str, second: str, said: str) -> None:
    pools = [node("a", H100, price=first), node("b", H100, price=second)]
    found = decision(*pools, model={"name": "llama-3.1-8b", "method": "LoRA"}, placement={"objective": objective})
    assert behind(best_per_pool(found)[1], found) == said


@pytest.mark.parametrize(
    ("objective", "prices"), [("Speed", (None, None)), ("Speed", ("1", "2")), ("Value", (None, None))]
)
def test_a_pool_that_lacks_a_speed_says_so_where_speed_decides(
    objective: str, prices: tuple[str | None, str | None]
) -> None:
    pools = [node("a", W7900, price=prices[0]), node("b", W7700, price=prices[1])]
    model = {"name": "llama-3.2-1b", "method": "LoRA"}
    found = decision(*pools, catalog=load_catalog(), model=model, placement={"objective": objective})
    first, second = best_per_pool(found)
    assert (first.pool.accelerator_id, second.pool.accelerator_id) == ("W7900", "W7700")
    assert behind(second, found) == "no speed is known"
