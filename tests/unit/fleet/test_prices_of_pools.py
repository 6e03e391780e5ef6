"""What a pool's devices cost and where the figure comes from."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import pytest
from builders import H100, MI300X, Object, fleet, gpupool, node, pool_of
from hypothesis import given
from hypothesis import strategies as st

from gpujob.fleet.ownership import HOURS_A_YEAR, Ownership
from gpujob.fleet.pools import Pool

SHOP = {
    "gpuPurchase": "15000", "hostPurchase": "90000", "years": "4", "watts": "10200", "pricePerKWh": "0.12",
    "pue": "1.3", "utilization": "0.7", "yearlyOperations": "12000",
}  # fmt: skip


def priced(price: Any, *nodes: Object) -> Pool:
    """The admin's pool of these nodes (one of eight MI300X) with this price."""
    pool = gpupool("shop", {"rack": "a"}, price=price)
    made = nodes or (node("n", MI300X, labels={"rack": "a"}),)
    return pool_of(fleet(pool, *made), "n")


def owned(**members: Any) -> Pool:
    return priced({"ownership": {"gpuPurchase": "15000", "years": "4", **members}})


def test_a_node_is_paid_by_purchase_power_and_operations_over_the_hours_of_use() -> None:
    # (15000 x 8 + 90000) / (4 x 8760) = 5.993151; 10.2 kW x 1.3 x 0.12 = 1.5912; 12000 / 8760 = 1.369863;
    # the sum, 8.954214, by 8 GPUs and 0.7 of the hours: 1.598967.
    price = priced({"ownership": SHOP}).price
    assert price is not None
    assert price.per_gpu_hour == 1_598_967
    assert price.source == "GPUPool spec.price.ownership over 4 years, 0.7 used, 8 GPUs a node"


def test_what_is_absent_costs_nothing_and_is_used_all_the_time() -> None:
    price = owned().price
    assert price is not None
    assert price.per_gpu_hour == round(Fraction(15000 * 10**6, 4 * HOURS_A_YEAR)) == 428_082
    assert price.source == "GPUPool spec.price.ownership over 4 years, 1 used, 8 GPUs a node"
    whole = owned(hostPurchase=0, watts=0, pricePerKWh="0", pue=1, utilization=1, yearlyOperations="0")
    assert whole.price == price


@pytest.mark.parametrize(("counts", "smallest"), [((8, 4), 4), ((1, 8), 1)])
def test_a_pool_of_unequal_nodes_is_priced_by_its_smallest(counts: tuple[int, int], smallest: int) -> None:
    nodes = [node(name, MI300X, count, labels={"rack": "a"}) for name, count in zip("nm", counts, strict=True)]
    price = priced({"ownership": SHOP}, *nodes).price
    assert price is not None
    assert price.per_gpu_hour == shop().per_gpu_hour(smallest)


def test_an_absurd_sum_is_no_price() -> None:
    pool = owned(gpuPurchase="10000000", utilization="0.000001")
    assert pool.price is None
    assert [doubt.message for doubt in pool.doubts] == [
        "spec.price.ownership comes to $285388127.85 an hour for a GPU, above $100000.00; correct it"
    ]


def test_the_pool_s_price_is_before_the_node_s_and_that_before_the_list() -> None:
    listed = {"node.kubernetes.io/instance-type": "p5.48xlarge", "topology.kubernetes.io/region": "us-east-1"}
    own = node("n", H100, labels={"rack": "a", **listed}, price="3")
    sources = [
        pool_of(fleet(*objects), "n").price
        for objects in ([gpupool("shop", {"rack": "a"}, price={"ownership": SHOP}), own], [own])
    ]
    assert [price and price.source for price in sources] == [
        "GPUPool spec.price.ownership over 4 years, 0.7 used, 8 GPUs a node",
        "node annotation gpujob.dev/price-per-gpu-hour",
    ]


def shop() -> Ownership:
    return Ownership(*(Fraction(SHOP[name]) for name in (
        "gpuPurchase", "years", "hostPurchase", "watts", "pricePerKWh", "pue", "utilization", "yearlyOperations",
    )))  # fmt: skip


amounts = st.decimals(0, 10**6, places=2).map(Fraction)
shares = st.decimals("0.01", 1, places=2).map(Fraction)
ownerships = st.builds(
    Ownership, amounts, st.decimals("0.5", 20, places=1).map(Fraction), amounts, amounts, shares,
    st.decimals(1, 3, places=2).map(Fraction), shares, amounts,
)  # fmt: skip


@given(owned=ownerships, gpus=st.integers(1, 72))
def test_the_formula_is_exact_to_half_a_micro_dollar(owned: Ownership, gpus: int) -> None:
    with localcontext() as context:
        context.prec = 60
        gpu, years, host, watts, kwh, pue, used, yearly = (
            Decimal(part.numerator) / Decimal(part.denominator)
            for part in (
                owned.gpu_purchase, owned.years, owned.host_purchase, owned.watts, owned.price_per_kwh, owned.pue,
                owned.utilization, owned.yearly_operations,
            )
        )  # fmt: skip
        node_hour = (gpu * gpus + host) / (years * 8760) + watts / 1000 * pue * kwh + yearly / 8760
        assert abs(node_hour / gpus / used * 10**6 - owned.per_gpu_hour(gpus)) <= Decimal("0.500000000001")


@given(owned=ownerships, gpus=st.integers(1, 72))
def test_a_fuller_node_never_makes_a_gpu_dearer(owned: Ownership, gpus: int) -> None:
    assert owned.per_gpu_hour(gpus + 1) <= owned.per_gpu_hour(gpus)
