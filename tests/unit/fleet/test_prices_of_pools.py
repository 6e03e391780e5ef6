"""What a pool's devices cost and where the figure comes from."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import pytest
from builders import H100, MI300X, Object, decision, fleet, gpupool, node, pool_of
from hypothesis import given
from hypothesis import strategies as st

from gpujob.catalog.files.load import load_catalog
from gpujob.catalog.files.site import with_site
from gpujob.fleet.gpupools.ownership_cost import HOURS_A_YEAR, Ownership
from gpujob.fleet.pools.pool import Pool
from gpujob.values.quantity import format_dollars
from gpujob.values.vocabulary import Reason

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
    # the sum, 8.954214, by 8 GPUs and 0.7 of the hours: 1.5989667, rounded down.
    price = priced({"ownership": SHOP}).price
    assert price is not None
    assert price.per_gpu_hour == 1_598_966
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


def test_a_partition_of_an_owned_gpu_costs_its_part() -> None:
    cut = node("n", MI300X, labels={"rack": "a", "amd.com/gpu.compute-memory-partition": "cpx_nps4"},
               devices={"amd.com/gpu": "64"})  # fmt: skip
    price = priced({"ownership": SHOP}, cut).price
    assert price is not None
    assert price.per_gpu_hour == 199_870  # an eighth of 1.598966
    assert price.source == "GPUPool spec.price.ownership over 4 years, 0.7 used, 8 GPUs a node in 64 devices"


@pytest.mark.parametrize("price", ["10", "32.77", "0.07", "98.32"])
@pytest.mark.parametrize("gpus", [3, 6, 7])
def test_a_job_of_a_whole_node_costs_no_more_than_the_node(price: str, gpus: int) -> None:
    pool = gpupool("p", {"rack": "a"}, price={"perNodeHour": price})
    found = decision(node("n", MI300X, gpus, labels={"rack": "a"}), pool, gpusPerNode=gpus,
                     placement={"maxPricePerHour": price})  # fmt: skip
    assert found.choice is not None
    assert format_dollars(found.choice.candidate.price_per_hour or 0) == f"{Decimal(price):.2f}"


def test_an_absurd_sum_is_no_price() -> None:
    pool = owned(gpuPurchase="10000000", utilization="0.000001")
    assert pool.price is None
    assert [warning.message for warning in pool.warnings] == [
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


NEW = {"maxNodes": 2, "gpusPerNode": 8}


@pytest.mark.parametrize("written", ["0", "0.00", " 0 ", "000", "0.0000001"])
def test_a_price_of_nothing_on_a_node_is_none_and_the_pool_says_what_to_write(written: str) -> None:
    pool = pool_of(fleet(node("n", MI300X, price=written)), "n")
    assert pool.price is None or pool.price.per_gpu_hour > 0
    said = [warning.message for warning in pool.warnings if warning.reason is Reason.PRICE_INVALID]
    assert said == [
        f"annotation gpujob.dev/price-per-gpu-hour of node n is ignored: {written!r} often means that the price is not known; where "
        'these GPUs cost nothing, set spec.price.perGPUHour of a GPUPool to "0"'
    ]


def test_a_price_of_nothing_is_believed_of_an_admin() -> None:
    price = priced({"perGPUHour": "0"}).price
    assert price is not None
    assert (price.per_gpu_hour, price.source) == (0, "GPUPool spec.price.perGPUHour")


def test_a_price_of_nothing_draws_no_node_into_the_pool_of_a_price() -> None:
    both = fleet(node("n", MI300X, price="2.10"), node("m", MI300X, price="0"))
    priced_one, other = (pool_of(both, name).price for name in "nm")
    assert priced_one is not None
    assert (priced_one.per_gpu_hour, priced_one.source.startswith("node annotation")) == (2_100_000, True)
    assert other is None or not other.source.startswith("node annotation")


def test_nodes_to_be_added_have_the_price_that_the_pool_says_of_them() -> None:
    per_node = gpupool("new", {"a": "b"}, accelerator="MI300X", price={"perNodeHour": "12"}, provision=NEW)
    bought = gpupool("own", {"a": "c"}, accelerator="MI300X", price={"ownership": SHOP}, provision=NEW)
    found = {pool.name: pool.price and pool.price.per_gpu_hour for pool in fleet(per_node, bought).pools}
    assert found == {"new": 1_500_000, "own": 1_598_966}


@pytest.mark.parametrize(
    ("labels", "source", "micro", "warnings"),
    [
        ({"node.kubernetes.io/instance-type": "p5.48xlarge", "topology.kubernetes.io/region": "us-east-1"},
         "list price aws p5.48xlarge us-east-1, 2026-07-20", 6_880_000, []),
        ({"node.kubernetes.io/instance-type": "a3-highgpu-8g", "topology.kubernetes.io/region": "us-central1",
          "karpenter.sh/capacity-type": "spot"},
         "list price gcp a3-highgpu-8g us-central1, 2026-08-03", 6_326_187, []),
        ({"karpenter.sh/nodepool": "gpu"}, "indicative: median of", None, ["PriceIndicative"]),
    ],
)  # fmt: skip
def test_nodes_to_be_added_have_the_list_price_of_what_the_selector_demands(
    labels: dict[str, str], source: str, micro: int | None, warnings: list[str]
) -> None:
    pool = fleet(gpupool("new", labels, accelerator="H100-SXM", provision=NEW)).pools[0]
    assert pool.price is not None
    assert pool.price.source.startswith(source)
    assert micro is None or pool.price.per_gpu_hour == micro
    assert [warning.reason for warning in pool.warnings if warning.reason.startswith("Price")] == warnings
    assert (pool.capacity_type == "Spot") is (labels.get("karpenter.sh/capacity-type") == "spot")


@pytest.mark.parametrize(
    ("instance_type", "capacity", "source", "micro"),
    [
        ("a3-highgpu-8g", "spot", "list price gcp a3-highgpu-8g us-central1, 2026-08-03", 6_326_187),
        ("a3-highgpu-8g", "reserved", "list price gcp a3-highgpu-8g us-central1, 2026-08-03 (on demand)", 11_061_250),
        ("unknown", "spot", "indicative: median of 4 clouds' list prices 2026-03-03 to 2026-11-27", None),
    ],
)
def test_spot_has_its_own_price_and_on_demand_stands_for_what_nobody_lists(
    instance_type: str, capacity: str, source: str, micro: int | None
) -> None:
    labels = {"node.kubernetes.io/instance-type": instance_type, "topology.kubernetes.io/region": "us-central1"}
    pool = fleet(node("n", H100, labels={**labels, "karpenter.sh/capacity-type": capacity})).pools[0]
    assert pool.price is not None
    assert pool.price.source == source
    assert micro is None or pool.price.per_gpu_hour == micro
    said = [warning.message for warning in pool.warnings]
    stands = "no Reserved price is known, the price on demand stands for it; set one in a GPUPool"
    assert (stands in said) is (capacity == "reserved")


def test_a_cloud_that_sells_by_the_gpu_has_its_own_price_for_a_model() -> None:
    made = node("n", MI300X, labels={"node.kubernetes.io/instance-type": "mi300x-192gb-ib.8x"})
    made["spec"]["providerID"] = "crusoe://n"
    price = fleet(made).pools[0].price
    assert price is not None
    assert (price.per_gpu_hour, price.source) == (3_450_000, "list price crusoe MI300X any, 2026-03-03")


@pytest.mark.parametrize(
    ("provider_id", "source"),
    [
        ("ocid1.instance.oc1.iad.anuwcljt", "list price oci BM.GPU.MI300X.8 any, 2026-11-27"),
        ("oci://ocid1.instance.oc1.iad.anuwcljt", "list price oci BM.GPU.MI300X.8 any, 2026-11-27"),
        ("i-0123456789", "list price oci BM.GPU.MI300X.8 any, 2026-11-27"),
        ("kind://docker/kind/n", "indicative: "),
    ],
)
def test_a_node_of_oracle_is_known_by_its_id(provider_id: str, source: str) -> None:
    made = node("n", MI300X, labels={"node.kubernetes.io/instance-type": "BM.GPU.MI300X.8"})
    made["spec"]["providerID"] = provider_id
    price = fleet(made).pools[0].price
    assert price is not None
    assert price.source.startswith(source)


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
def test_the_formula_is_exact_to_a_micro_dollar_below(owned: Ownership, gpus: int) -> None:
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
        above = node_hour / gpus / used * 10**6 - owned.per_gpu_hour(gpus)
        assert Decimal("-0.000000000001") <= above <= 1


@given(owned=ownerships, gpus=st.integers(1, 72))
def test_a_fuller_node_never_makes_a_gpu_dearer(owned: Ownership, gpus: int) -> None:
    assert owned.per_gpu_hour(gpus + 1) <= owned.per_gpu_hour(gpus)


def of_the_site(prices: str, *objects: Object) -> tuple[int, str]:
    """Price and source of the pool of node n where an installation has prices of its own."""
    price = pool_of(fleet(*objects, catalog=with_site(load_catalog(), f"prices: {{{prices}}}")), "n").price
    assert price is not None
    return price.per_gpu_hour, price.source


P5 = {"node.kubernetes.io/instance-type": "p5.48xlarge", "topology.kubernetes.io/region": "us-east-1"}
CPX = {"amd.com/gpu.compute-memory-partition": "cpx_nps4"}


@pytest.mark.parametrize(
    ("prices", "made", "price", "source"),
    [
        ("H100-SXM: 2.1", node("n", H100), 2_100_000, "prices.H100-SXM"),
        ("H100: 2.1", node("n", H100, labels=P5), 2_100_000, "prices.H100"),
        ("p5.48xlarge: 40, H100: 2.1", node("n", H100, labels=P5), 5_000_000, "prices.p5.48xlarge / 8 GPUs"),
        ("P5.48XLARGE: 40", node("n", H100, 7, labels=P5), 5_000_000, "prices.P5.48XLARGE / 8 GPUs"),
        ("our-rack: 10", node("n", H100, 4, labels={"node.kubernetes.io/instance-type": "our-rack"}),
         2_500_000, "prices.our-rack / 4 GPUs"),
        ("MI300X: 1.6", node("n", MI300X, labels=CPX, devices={"amd.com/gpu": "64"}), 200_000,
         "prices.MI300X, 1/8 of a device"),
        ("p5.48xlarge: {Spot: 8, OnDemand: 40}", node("n", H100, labels={**P5, "karpenter.sh/capacity-type": "spot"}),
         1_000_000, "prices.p5.48xlarge / 8 GPUs"),
        ("p5.48xlarge: {Spot: 8}", node("n", H100, labels=P5), 6_880_000,
         "list price aws p5.48xlarge us-east-1, 2026-07-20"),
        ("MI300X: 1", node("n", H100, labels=P5), 6_880_000, "list price aws p5.48xlarge us-east-1, 2026-07-20"),
        ("H100: 2", node("n", H100, price="3"), 3_000_000, "node annotation gpujob.dev/price-per-gpu-hour"),
    ],
)  # fmt: skip
def test_an_installation_s_price_is_before_the_list_and_after_the_node_s(
    prices: str, made: Object, price: int, source: str
) -> None:
    assert of_the_site(prices, made) == (price, source)


def test_an_admin_s_pool_is_before_an_installation_s_price_and_one_without_a_price_has_it() -> None:
    own = node("n", MI300X, labels={"rack": "a"})
    assert of_the_site("MI300X: 9", gpupool("shop", {"rack": "a"}, price={"perGPUHour": "2"}), own)[0] == 2_000_000
    assert of_the_site("MI300X: 9", gpupool("shop", {"rack": "a"}), own)[0] == 9_000_000


def test_nodes_to_be_added_have_an_installation_s_price() -> None:
    catalog = with_site(load_catalog(), "prices: {MI300X: 9}")
    (pool,) = fleet(gpupool("new", {"a": "b"}, accelerator="MI300X", provision=NEW), catalog=catalog).pools
    assert pool.price is not None
    assert pool.price.per_gpu_hour == 9_000_000
