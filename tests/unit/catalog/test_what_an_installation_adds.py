"""Prices, rows and mirrors of an installation: what they change, and what is left out of them with which sentence."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpujob.catalog.files.load import load_catalog
from gpujob.catalog.files.site import with_site
from gpujob.catalog.images.mirrors import Mirror, mirrored
from gpujob.values.errors import BadInput
from gpujob.values.vocabulary import CapacityType, HostAccess

NO_PRICE = 'is not a price in US dollars between 0 and 100000; write a decimal in quotes, such as "2.10"'
NO_REGISTRY = "a registry with or without a path is wanted, such as docker.io/rocm"
SHIPPED = load_catalog()


def site(**members: Any) -> Any:
    return with_site(SHIPPED, json.dumps(members))


@pytest.mark.parametrize("text", ["", "---\n", "prices: {}\ncatalog: {}\nimageMirrors: []\n"])
def test_an_empty_site_changes_nothing(text: str) -> None:
    made = with_site(SHIPPED, text)
    assert (made.own_prices, made.mirrors, made.refused) == ({}, (), ())
    assert (made.accelerators, made.runtimes, made.prices) == (SHIPPED.accelerators, SHIPPED.runtimes, SHIPPED.prices)


@pytest.mark.parametrize("text", ["", "prices: {}\n", "serviceAccounts: []\n"])
def test_an_installation_that_names_no_service_account_allows_none(text: str) -> None:
    assert SHIPPED.service_accounts is None
    assert with_site(SHIPPED, text).service_accounts == frozenset()


def test_access_to_the_host_is_allowed_by_name() -> None:
    assert SHIPPED.host_access is None
    assert with_site(SHIPPED, "").host_access == frozenset()
    assert site(serviceAccounts=[]).host_access == frozenset()
    made = site(hostAccess=["hostNetwork", "hostPID", True, "HostDevices", "hostNetwork"])
    assert made.host_access == {HostAccess.NETWORK}
    assert [sentence for _, sentence in made.refused] == [
        f"hostAccess row {row}: {word!r} is none of hostDevices, hostNetwork"
        for row, word in ((2, "hostPID"), (3, "True"), (4, "HostDevices"))
    ]


def test_service_accounts_are_allowed_by_name() -> None:
    made = site(serviceAccounts=["reader", "a.b-c", "Upper", "a/b", "", {}, "reader", "x" * 254, "a\n"])
    assert made.service_accounts == {"reader", "a.b-c"}
    wrong = "is not the name of a ServiceAccount, such as dataset-reader"
    assert [sentence for _, sentence in made.refused] == [
        f"serviceAccounts row 3: 'Upper' {wrong}",
        f"serviceAccounts row 4: 'a/b' {wrong}",
        f"serviceAccounts row 5: '' {wrong}",
        f"serviceAccounts row 6: '{{}}' {wrong}",
        f"serviceAccounts row 8: '{'x' * 100}' {wrong}",
        f"serviceAccounts row 9: 'a\\n' {wrong}",
    ]


@pytest.mark.parametrize(
    ("word", "ids"),
    [
        ("H100-SXM", {"H100-SXM"}),
        ("h100 sxm5", {"H100-SXM"}),
        ("MI300X", {"MI300X"}),
        ("H100", set(SHIPPED.named("H100"))),
        ("p5.48xlarge", {"p5.48xlarge"}),
        ("Standard_ND96isr_H100_v5", {"standard_nd96isr_h100_v5"}),
        ("dgx-of-ours", {"dgx-of-ours"}),
    ],
)
def test_a_price_is_of_an_accelerator_or_of_an_instance_type(word: str, ids: set[str]) -> None:
    made = site(prices={word: "2.10"})
    assert set(made.own_prices) == ids
    assert made.refused == ()
    assert {price.amounts[each] for price in made.own_prices.values() for each in CapacityType} == {2_100_000}


@pytest.mark.parametrize(
    "prices",
    [{"h100": "2.10", "H100-NVL": "1.90"}, {"H100-NVL": "1.90", "h100": "2.10"}, {"h100-nvl": "1.90", "H100": "2.10"}],
)
def test_the_price_of_one_board_counts_before_its_family_s(prices: dict[str, str]) -> None:
    own = site(prices=prices).own_prices
    assert [own[name].amounts[CapacityType.ON_DEMAND] for name in ("H100-NVL", "H100-SXM")] == [1_900_000, 2_100_000]


def test_a_price_can_differ_by_the_way_of_paying() -> None:
    price = site(prices={"MI300X": {"OnDemand": 3, "Spot": "1.25"}}).own_prices["MI300X"]
    assert price.amounts == {CapacityType.ON_DEMAND: 3_000_000, CapacityType.SPOT: 1_250_000}
    assert price.per_gpu_hour(CapacityType.RESERVED, 8) is None


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ("free", f"prices.MI300X: 'free' {NO_PRICE}"),
        (0, "prices.MI300X is 0; leave out what is not known"),
        (-1, f"prices.MI300X: '-1' {NO_PRICE}"),
        ({"Spot": 1, "Weekly": 2}, "prices.MI300X: there is no field Weekly; the fields are OnDemand, Reserved, Spot"),
        ([1], f"prices.MI300X: ['1'] {NO_PRICE}"),
        (None, f"prices.MI300X: None {NO_PRICE}"),
    ],
)  # fmt: skip
def test_a_price_that_is_none_is_left_out_alone(said: Any, sentence: str) -> None:
    made = site(prices={"MI300X": said, "H100-SXM": "2"})
    assert made.refused == (("prices.MI300X", sentence),)
    assert set(made.own_prices) == {"H100-SXM"}


def test_rows_come_on_top_of_the_shipped_ones() -> None:
    shipped = SHIPPED.runtimes[0]
    row = {
        "name": shipped.name, "image": "registry.example/own:1", "backend": "ROCm", "backendVersion": "7.2",
        "framework": {"name": "pytorch", "version": "2.12"}, "architectures": ["gfx942"],
    }  # fmt: skip
    machine = {"cloud": "ours", "accelerator": "MI300X", "devices": {"rack-8": 8}}
    made = site(catalog={"runtimes": [row, {"name": "broken"}], "instanceTypes": [machine]})
    assert len(made.runtimes) == len(SHIPPED.runtimes)
    assert next(each for each in made.runtimes if each.name == shipped.name).image == "registry.example/own:1"
    assert made.machine("rack-8").devices == 8
    assert len(made.instance_types) == len(SHIPPED.instance_types) + 1
    assert made.refused == (("broken", "runtime broken: image is missing"),)


def test_a_new_accelerator_is_known_by_its_labels_and_has_its_price() -> None:
    row = {"id": "MI999X", "name": "Instinct MI999X", "architecture": "gfx942", "memory": "512Gi",
           "deviceIds": ["99aa"], "products": ["AMD_Instinct_MI999X"]}  # fmt: skip
    made = site(catalog={"accelerators": [row]}, prices={"MI999X": 9})
    assert made.refused == ()
    assert made.by_device_id("99aa").id == "MI999X"
    assert made.own_price(None, "MI999X").of_node is False
    assert len(made.accelerators) == len(SHIPPED.accelerators) + 1


def test_prices_of_the_list_may_name_machines_of_both_catalogs() -> None:
    group = {"cloud": "ours", "region": "any", "perNodeHour": {"p5.48xlarge": 40, "rack-8": 16}}
    machine = {"cloud": "ours", "accelerator": "MI300X", "devices": {"rack-8": 8}}
    made = site(catalog={"instanceTypes": [machine], "prices": [group]})
    assert made.refused == ()
    assert made.price_of("ours", "rack-8", "here", CapacityType.ON_DEMAND).per_gpu_hour == 2_000_000
    assert made.price_of("ours", "p5.48xlarge", "here", CapacityType.ON_DEMAND).per_gpu_hour == 5_000_000
    assert len(made.prices) == len(SHIPPED.prices) + 2


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("price: {}", "site.yaml: there is no field price; did you mean prices?"),
        ("catalog: {gpus: []}", "the catalog has no section gpus; the sections are accelerators, features, instanceTypes, runtimes, "
         "stacks, prices, throughputs, models"),
        ("prices: [1]", "site.yaml: prices is a list; a table of fields is wanted"),
        ("imageMirrors: {from: a}", "site.yaml: imageMirrors is a table; a list of rows is wanted"),
        ("- a", "site.yaml is a list; a table of fields is wanted"),
        ("a: b: c", "the catalog is neither YAML nor JSON at line 1: mapping values are not allowed in this context"),
        ("prices: {}\n---\nprices: {}", "site.yaml has 2 documents; write one"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_at_all_is_told(text: str, sentence: str) -> None:
    with pytest.raises(BadInput) as told:
        with_site(SHIPPED, text)
    assert str(told.value) == sentence


MIRRORS = (
    Mirror("docker.io", "registry.example/hub"),
    Mirror("docker.io/rocm", "registry.example:5000/amd"),
    Mirror("docker.io/rocm/pytorch", "registry.example/pytorch-of-amd"),
    Mirror("registry.old", "registry.new"),
)
DIGEST = "@sha256:" + "0" * 64


@pytest.mark.parametrize(
    ("image", "pulled"),
    [
        ("busybox", "registry.example/hub/library/busybox"),
        ("docker.io/busybox:1", "registry.example/hub/library/busybox:1"),
        ("pytorch/pytorch:2.10", "registry.example/hub/pytorch/pytorch:2.10"),
        (f"rocm/dev{DIGEST}", f"registry.example:5000/amd/dev{DIGEST}"),
        ("docker.io/rocm/pytorch:7", "registry.example/pytorch-of-amd:7"),
        (f"rocm/pytorch:7{DIGEST}", f"registry.example/pytorch-of-amd:7{DIGEST}"),
        ("rocm/pytorch-training:1", "registry.example:5000/amd/pytorch-training:1"),
        ("rocmish/x", "registry.example/hub/rocmish/x"),
        ("registry.old/a/b:1", "registry.new/a/b:1"),
        ("registry.old:5000/a", "registry.old:5000/a"),
        ("registry.older/a", "registry.older/a"),
        ("nvcr.io/nvidia/pytorch:26.01-py3", "nvcr.io/nvidia/pytorch:26.01-py3"),
        ("", ""),
    ],
)
def test_the_longest_mirror_of_a_path_counts(image: str, pulled: str) -> None:
    assert mirrored(image, MIRRORS) == pulled
    assert mirrored(image, MIRRORS[::-1]) == pulled


@given(st.from_regex(r"([a-z]{1,5}[.]io/)?[a-z]{1,5}(/[a-z]{1,5}){0,2}(:[a-z0-9]{1,4})?", fullmatch=True))
def test_a_mirror_keeps_all_that_follows(image: str) -> None:
    pulled = mirrored(image, MIRRORS)
    assert pulled.endswith(image.rpartition("/")[2]) or "pytorch-of-amd" in pulled
    assert mirrored(image, ()) == image


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ({"from": "rocm", "to": "a.b"}, f"imageMirrors row 1: from is 'rocm'; {NO_REGISTRY}"),
        ({"from": "docker.io/rocm:1", "to": "a.b"}, f"imageMirrors row 1: from is 'docker.io/rocm:1'; {NO_REGISTRY}"),
        ({"from": "a.b", "to": "https://c.d"}, f"imageMirrors row 1: to is 'https://c.d'; {NO_REGISTRY}"),
        ({"from": "a.b", "to": "c.d/"}, f"imageMirrors row 1: to is 'c.d/'; {NO_REGISTRY}"),
        ({"from": "a.b"}, "imageMirrors row 1: to is missing"),
        ({"from": "a.b", "to": "c.d", "mode": "x"}, "imageMirrors row 1: there is no field mode; the fields are from, to"),
        ("a.b=c.d", "imageMirrors row 1 is a word; a table of fields is wanted"),
    ],
)  # fmt: skip
def test_a_mirror_that_is_none_is_left_out_alone(row: Any, sentence: str) -> None:
    made = site(imageMirrors=[row, {"from": "ghcr.io", "to": "localhost:5000/ghcr"}])
    assert made.refused == (("imageMirrors row 1", sentence),)
    assert made.mirrors == (Mirror("ghcr.io", "localhost:5000/ghcr"),)


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        ("https://docs.example/gpujob/", "https://docs.example/gpujob"),
        ("http://[fd00::1]:8080", "http://[fd00::1]:8080"),
    ],
)
def test_the_address_of_the_documentation_is_kept_without_its_last_slash(url: str, kept: str) -> None:
    made = site(docsURL=url)
    assert (made.docs_url, made.refused) == (kept, ())


@pytest.mark.parametrize(
    "url", ["docs.example", "javascript:alert(1)", "https://a b", "https://a/?q=1", "https://a\n", "ftp://a"]
)
def test_what_is_no_address_of_a_site_is_left_out(url: str) -> None:
    made = site(docsURL=url)
    sentence = f"docsURL is {url!r}; the address of the site is wanted, such as https://docs.example/gpujob"
    assert (made.docs_url, made.refused) == ("", (("docsURL", sentence),))
