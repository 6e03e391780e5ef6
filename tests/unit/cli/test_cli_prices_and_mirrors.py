"""Prices and mirrors of a plan: of the operator's ConfigMap in a cluster file, and of the options."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from cli_room import MIXED, Command, manifest


def chosen(plan: Command, *options: str | Path, cluster: Path = MIXED, **spec: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(plan(manifest(**spec), "-o", "json", *options, cluster=cluster).out)["chosen"]
    return found


def with_site(folder: Path, text: str, namespace: str = "gpujob-system") -> Path:
    """The mixed cluster with an operator that has this text."""
    metadata = {"name": "gpujob-site", "namespace": namespace}
    site = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"site.yaml": text}}
    (path := folder / "cluster.yaml").write_text(MIXED.read_text() + "---\n" + yaml.safe_dump(site))
    return path


def test_an_option_sets_a_price(plan: Command) -> None:
    before = chosen(plan, gpusPerNode=2)
    made = chosen(plan, "--price", "MI300X=9", "--price", "H100=0.2", gpusPerNode=2)
    assert (before["accelerator"], made["accelerator"]) == ("MI210", "H100-SXM")
    assert (made["pricePerHour"], made["priceSource"]) == ("0.40", "prices.H100")


def test_the_operator_s_prices_are_those_of_a_file_and_options_come_before_them(plan: Command, tmp_path: Path) -> None:
    cluster = with_site(tmp_path, "prices: {H100: 0.25}")
    assert chosen(plan, cluster=cluster, gpusPerNode=2)["pricePerHour"] == "0.50"
    assert chosen(plan, "--price", "H100=0.3", cluster=cluster, gpusPerNode=2)["pricePerHour"] == "0.60"


def test_a_config_map_of_another_namespace_is_anybody_s(plan: Command, tmp_path: Path) -> None:
    cluster = with_site(tmp_path, "prices: {H100: 0.25}", namespace="team")
    assert chosen(plan, cluster=cluster, gpusPerNode=2)["pricePerHour"] != "0.50"
    named = chosen(plan, "--operator-namespace", "team", cluster=cluster, gpusPerNode=2)
    assert named["pricePerHour"] == "0.50"


def test_images_of_plan_and_render_are_those_that_nodes_pull(gpujob: Command, plan: Command) -> None:
    job = manifest(
        gpusPerNode=2,
        images={"rocm": {"image": "team/train:1"}},
        code={"image": {"reference": "quay.io/team/code:3"}},
        volumes=[{"name": "w", "image": {"reference": "team/weights:1"}}],
        volumeMounts=[{"name": "w", "mountPath": "/w"}],
    )
    mirrors = [
        "--image-mirror",
        "docker.io/team=registry.example/team",
        "--image-mirror",
        "quay.io=registry.example/quay",
    ]
    assert json.loads(plan(job, "-o", "json", *mirrors).out)["chosen"]["image"] == "registry.example/team/train:1"
    made = gpujob("render", "-f", "-", "--cluster", MIXED, *mirrors, stdin=job)
    objects = list(yaml.safe_load_all(made.out))
    pod = next(each for each in objects if each["kind"] == "Job")["spec"]["template"]["spec"]
    images = {each["image"] for each in (*pod["initContainers"], *pod["containers"])}
    assert images == {"registry.example/team/train:1"}
    assert [each["image"]["reference"] for each in pod["volumes"] if "image" in each] == [
        "registry.example/quay/team/code:3",
        "registry.example/team/weights:1",
    ]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--price", "H100"], "--price: 'H100' is not NAME=DOLLARS"),
        (["--price", "=2"], "--price: '=' is not NAME=DOLLARS"),
        (["--price", "H100=0"], "prices.H100 is 0; leave out what is not known"),
        (["--image-mirror", "docker.io"], "--image-mirror: 'docker.io' is not FROM=TO"),
        (["--image-mirror", "rocm=a.b"], "--image-mirror row 1: from is 'rocm'; a registry with or without a path is wanted, "
         "such as docker.io/rocm"),
    ],
)  # fmt: skip
def test_a_wrong_option_is_told(plan: Command, options: list[str], sentence: str) -> None:
    answer = plan(manifest(), *options)
    assert (answer.code, answer.err) == (2, f"error: {sentence}\n")


def test_what_is_wrong_in_the_operator_s_config_map_is_told_and_the_rest_counts(plan: Command, tmp_path: Path) -> None:
    cluster = with_site(tmp_path, "prices: {H100: 0.25, L4: free}")
    answer = plan(manifest(gpusPerNode=2), "-o", "json", cluster=cluster)
    assert json.loads(answer.out)["chosen"]["pricePerHour"] == "0.50"
    assert answer.err == (
        "row of gpujob-site left out: prices.L4: 'free' is not a price in US dollars between 0 and 100000; "
        'write a decimal in quotes, such as "2.10"\n'
    )
    answer = plan(manifest(), cluster=with_site(tmp_path, "price: {}"))
    assert (answer.code, answer.err) == (
        2,
        "error: ConfigMap gpujob-system/gpujob-site: site.yaml: there is no field price; did you mean prices?\n",
    )


@pytest.mark.parametrize("word", ["NOPE", "H100-SXN", "p5.48xlrge"])
def test_a_price_of_nothing_is_told_and_refuses_nothing(
    plan: Command, gpujob: Command, tmp_path: Path, word: str
) -> None:
    said = f"note: prices.{word}: no accelerator and no known instance type has this name\n"
    answer = plan(manifest(gpusPerNode=1), "--price", f"{word}=3")
    assert (answer.code, answer.err) == (0, said)
    assert plan(manifest(gpusPerNode=1), cluster=with_site(tmp_path, f"prices: {{{word}: 3}}")).err == said
    assert said in gpujob("pools", "--cluster", MIXED, "--price", f"{word}=3").err


@pytest.mark.parametrize("word", ["H100", "mi300x", "p5.48xlarge", "P5.48XLARGE", "Standard_ND96isr_MI300X_v5"])
def test_a_price_of_an_accelerator_or_an_instance_type_is_not(plan: Command, word: str) -> None:
    assert plan(manifest(gpusPerNode=1), "--price", f"{word}=3").err == ""


def test_an_instance_type_of_a_node_is_known(plan: Command, tmp_path: Path) -> None:
    (cluster := tmp_path / "own.yaml").write_text(MIXED.read_text().replace("p5.48xlarge", "own-box"))
    assert plan(manifest(gpusPerNode=1), "--price", "Own-Box=3", cluster=cluster).err == ""
