"""List prices: invariants of the shipped rows, and the two questions asked of them."""

from __future__ import annotations

from datetime import date

from gpujob.catalog.catalog import Catalog
from gpujob.catalog.entities import Accelerator, Price
from gpujob.catalog.files.load import load_catalog
from gpujob.values.quantity import MICRO
from gpujob.values.vocabulary import CapacityType, Vendor

CATALOG = load_catalog()
ON_DEMAND, SPOT = CapacityType.ON_DEMAND, CapacityType.SPOT


def test_every_price_is_positive_believable_dated_and_of_a_known_device() -> None:
    for row in CATALOG.prices:
        assert MICRO // 100 < row.per_gpu_hour < 50 * MICRO, row
        assert row.source
        assert date(2026, 1, 1) <= date.fromisoformat(row.checked_on)
        assert CATALOG.accelerator(row.accelerator) is not None, row
        if row.instance_type is not None:
            machine = CATALOG.instance_types[row.instance_type]
            assert (machine.cloud, machine.accelerator) == (row.cloud, row.accelerator)


def test_one_price_for_each_machine_region_and_capacity_type() -> None:
    keys = {(row.cloud, row.instance_type, row.accelerator, row.region, row.capacity_type) for row in CATALOG.prices}
    assert len(keys) == len(CATALOG.prices)


def test_spot_is_cheaper_than_on_demand() -> None:
    dear = {
        (row.cloud, row.instance_type, row.accelerator, row.region): row.per_gpu_hour
        for row in CATALOG.prices
        if row.capacity_type is ON_DEMAND
    }
    spot = [row for row in CATALOG.prices if row.capacity_type is SPOT]
    assert spot
    assert all(row.per_gpu_hour < dear[row.cloud, row.instance_type, row.accelerator, row.region] for row in spot)


def test_instance_types_have_whole_known_devices() -> None:
    for name, row in CATALOG.instance_types.items():
        assert row.name == name
        assert 1 <= row.devices <= 16
        assert CATALOG.by_instance_type(name) is CATALOG.accelerator(row.accelerator) is not None
        assert row.source
        assert date.fromisoformat(row.checked_on)


def test_a_node_price_is_shared_by_its_devices() -> None:
    price = CATALOG.price_of("azure", "Standard_ND96isr_MI300X_v5", "eastus2", ON_DEMAND)
    assert price is not None
    assert price.per_gpu_hour == 6 * MICRO
    assert price.checked_on == "2026-06-18"


def test_a_machine_of_sagemaker_has_not_the_price_of_the_same_machine_at_ec2() -> None:
    assert CATALOG.price_of("aws", "p5.48xlarge", "us-east-1", ON_DEMAND) is not None
    assert CATALOG.price_of("aws", "ml.p5.48xlarge", "us-east-1", ON_DEMAND) is None


def test_the_exact_region_wins() -> None:
    price = CATALOG.price_of("azure", "Standard_ND96isr_H100_v5", "westeurope", ON_DEMAND)
    assert price is not None
    assert (price.region, price.per_gpu_hour) == ("westeurope", 15_977_000)


def test_another_region_is_the_one_of_the_nearest_name_and_shows() -> None:
    price = CATALOG.price_of("azure", "Standard_ND96isr_H100_v5", "eastus3", ON_DEMAND)
    assert price is not None
    assert price.region == "eastus"


def test_a_price_of_all_regions_comes_with_the_region_asked_for() -> None:
    price = CATALOG.price_of("oci", "BM.GPU.MI300X.8", "uk-london-1", ON_DEMAND)
    assert price is not None
    assert (price.region, price.per_gpu_hour) == ("uk-london-1", 6 * MICRO)


def test_the_cloud_may_be_unknown_but_not_another() -> None:
    assert CATALOG.price_of(None, "p5.48xlarge", "us-east-1", ON_DEMAND) is not None
    assert CATALOG.price_of("gcp", "p5.48xlarge", "us-east-1", ON_DEMAND) is None


def test_no_price_is_made_up() -> None:
    assert CATALOG.price_of("aws", "p5.48xlarge", "us-east-1", SPOT) is None
    assert CATALOG.price_of("aws", "p99.48xlarge", "us-east-1", ON_DEMAND) is None
    assert CATALOG.indicative_price("MI308X", ON_DEMAND) is None


def _catalog(*amounts: tuple[str, int]) -> Catalog:
    device = Accelerator("X1", "X1", Vendor.AMD, "gfx942")
    rows = [
        Price(cloud, None, "X1", f"r{n}", ON_DEMAND, amount, "s", f"2026-0{n + 1}-01")
        for n, (cloud, amount) in enumerate(amounts)
    ]
    return Catalog(accelerators=(device,), prices=tuple(rows))


def test_an_indicative_price_is_the_median_of_the_clouds_and_says_so() -> None:
    price = _catalog(("a", 5), ("b", 1), ("c", 9)).indicative_price("X1", ON_DEMAND)
    assert price is not None
    assert price.per_gpu_hour == 5
    assert price.source == "indicative: median of 3 clouds' list prices 2026-01-01 to 2026-03-01"
    assert (price.cloud, price.instance_type, price.region, price.checked_on) == ("", None, "", "2026-03-01")


def test_a_cloud_with_many_rows_counts_once() -> None:
    price = _catalog(("long", 10), ("long", 12), ("long", 11), ("a", 2), ("b", 3)).indicative_price("X1", ON_DEMAND)
    assert price is not None
    assert price.per_gpu_hour == 3


def test_an_even_median_is_the_mean_of_the_middle_two() -> None:
    price = _catalog(("a", 4), ("b", 1), ("c", 9), ("d", 7)).indicative_price("X1", ON_DEMAND)
    assert price is not None
    assert price.per_gpu_hour == 5


def test_the_price_of_a_single_cloud_is_told_with_its_date() -> None:
    price = _catalog(("a", 4)).indicative_price("X1", ON_DEMAND)
    assert price is not None
    assert price.source == "indicative: list price of a 2026-01-01"
