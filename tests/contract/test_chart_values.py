"""Single values of the chart: what each makes of the manifests, and the sentence for those that cannot be meant."""

from __future__ import annotations

from typing import Any

import pytest

from gpujob.catalog.catalog import Catalog
from gpujob.catalog.files.load import load_catalog
from gpujob.catalog.files.site import CONFIG_MAP, FILE, with_site
from gpujob.values.vocabulary import CapacityType, HostAccess
from tests.contract.test_chart_rendering import (
    CHART,
    DIGEST,
    NAMESPACE,
    RELEASE,
    SAMPLES,
    helm,
    of_kind,
    one,
    rendered,
    with_image,
)

REMEDY = "and must be text: write --set-string in place of --set, or put it in quotes in a values file"


def refusal(*arguments: str, values: dict[str, Any] | None = None, release: str = RELEASE) -> str:
    """What helm says of values that it must refuse."""
    done = helm("template", release, str(CHART), *arguments, values=with_image(values or {}))
    assert done.returncode != 0
    return done.stderr


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("image.tag=1", "image.tag is a number"),
        ("image.tag=20261129", "image.tag is a number"),
        ("image.tag=true", "image.tag is a boolean"),
        ("image.digest=5", "image.digest is a number"),
        ("image.repository=5", "image.repository is a number"),
        ("image.registry=5", "image.registry is a number"),
        ("global.imageRegistry=5", "global.imageRegistry is a number"),
        ("nameOverride=5", "nameOverride is a number"),
        ("fullnameOverride=5", "fullnameOverride is a number"),
        ("priorityClassName=100", "priorityClassName is a number"),
        ("serviceAccount.name=0", "serviceAccount.name is a number"),
        ("imagePullSecrets[0].name=7", "imagePullSecrets[].name is a number"),
        ("nodeSelector.gpu=true", "nodeSelector.gpu is a boolean"),
        ("commonLabels.team=7", "commonLabels.team is a number"),
        ("podLabels.inject=false", "podLabels.inject is a boolean"),
        ("podAnnotations.scrape=true", "podAnnotations.scrape is a boolean"),
        ("serviceAccount.annotations.number=1", "serviceAccount.annotations.number is a number"),
        ("monitoring.podMonitor.labels.release=1", "monitoring.podMonitor.labels.release is a number"),
        ("monitoring.dashboards.labels.grafana_dashboard=1", "monitoring.dashboards.labels.grafana_dashboard is a number"),
        ("monitoring.dashboards.annotations.folder=1", "monitoring.dashboards.annotations.folder is a number"),
        ("monitoring.dashboards.namespace=1", "monitoring.dashboards.namespace is a number"),
    ],
)  # fmt: skip
def test_a_number_in_place_of_text_is_refused_with_the_remedy(written: str, said: str) -> None:
    assert f"{said}, {REMEDY}" in refusal(f"--set={written}")


def test_a_number_of_a_values_file_is_refused_because_it_may_have_lost_digits() -> None:
    assert f"image.tag is a number, {REMEDY}" in refusal(values={"image": {"tag": 1.10}})
    assert f"extraEnv LEVEL is a number, {REMEDY}" in refusal(values={"extraEnv": [{"name": "LEVEL", "value": 1}]})


@pytest.mark.parametrize("tag", ["1", "1.10", "007", "true", "1e3"])
def test_a_tag_that_looks_like_a_number_is_kept_as_text(tag: str) -> None:
    (container,) = one(rendered({}, f"--set-string=image.tag={tag}"), "Deployment")["spec"]["template"]["spec"][
        "containers"
    ]
    assert container["image"] == f"registry.example/gpujob-operator:{tag}"


@pytest.mark.parametrize(
    ("registry", "repository", "reference"),
    [
        ("mirror.example", "registry.example/gpu/operator", "mirror.example/gpu/operator"),
        ("mirror.example:5000", "registry.example:443/gpu/operator", "mirror.example:5000/gpu/operator"),
        ("mirror.example/proxy", "localhost/operator", "mirror.example/proxy/operator"),
        ("mirror.example", "gpu/operator", "mirror.example/gpu/operator"),
        ("mirror.example", "operator", "mirror.example/operator"),
        ("", "registry.example/gpu/operator", "registry.example/gpu/operator"),
    ],
)
@pytest.mark.parametrize("at", ["image", "global"])
def test_a_registry_takes_the_place_of_the_repositorys_own(
    at: str, registry: str, repository: str, reference: str
) -> None:
    image = {"repository": repository, "digest": DIGEST}
    values: dict[str, Any] = {"image": image, "global": {}}
    values[at] = values[at] | {"registry" if at == "image" else "imageRegistry": registry}
    (container,) = one(rendered(values), "Deployment")["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"{reference}@{DIGEST}"


def test_the_registry_of_the_image_comes_before_that_of_all_charts() -> None:
    values = {"image": {"registry": "near.example"}, "global": {"imageRegistry": "far.example"}}
    (container,) = one(rendered(values), "Deployment")["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "near.example/gpujob-operator:0.1.0"


def test_pull_secrets_of_all_charts_are_added_once() -> None:
    values = {"imagePullSecrets": [{"name": "a"}], "global": {"imagePullSecrets": [{"name": "a"}, {"name": "b"}]}}
    pod = one(rendered(values), "Deployment")["spec"]["template"]["spec"]
    assert pod["imagePullSecrets"] == [{"name": "a"}, {"name": "b"}]


@pytest.mark.parametrize(
    "where", ["commonLabels", "podLabels", "monitoring.podMonitor.labels", "monitoring.dashboards.labels"]
)
@pytest.mark.parametrize("key", ["app.kubernetes.io/name", "app.kubernetes.io/instance", "helm.sh/chart"])
def test_a_label_that_the_chart_sets_is_not_replaced_in_silence(where: str, key: str) -> None:
    written = f"{where}.{key.replace('.', chr(92) + '.')}=mine"
    assert f"{where} has the key {key}, which the chart sets: choose another key" in refusal(f"--set-string={written}")


def test_a_label_of_one_kind_comes_before_the_common_one() -> None:
    values = {
        "commonLabels": {"release": "all", "team": "gpu"},
        "monitoring": {"podMonitor": {"enabled": True, "labels": {"release": "prometheus"}}},
    }
    objects = rendered(values)
    assert one(objects, "PodMonitor")["metadata"]["labels"].items() >= {"release": "prometheus", "team": "gpu"}.items()
    assert one(objects, "Service")["metadata"]["labels"]["release"] == "all"


@pytest.mark.parametrize("name", ["GPUJOB_LOG_LEVEL", "GPUJOB_NAMESPACE"])
def test_a_variable_that_a_value_sets_is_not_set_twice(name: str) -> None:
    said = refusal(values={"extraEnv": [{"name": name, "value": "x"}]})
    assert f"extraEnv sets {name}, which is set already: leave it out of extraEnv" in said


def test_a_variable_is_given_once() -> None:
    said = refusal(values={"extraEnv": [{"name": "A", "value": "x"}, {"name": "A", "value": "y"}]})
    assert "extraEnv sets A, which is set already: leave it out of extraEnv" in said


@pytest.mark.parametrize("release", ["123", "a.b"])
def test_a_release_whose_name_no_service_can_have_is_refused(release: str) -> None:
    sentence = "set fullnameOverride to lower-case letters, digits and hyphens, with a letter first"
    assert f"no Service can be named {release}-gpujob-operator: {sentence}" in refusal(release=release)
    objects = rendered({"fullnameOverride": "gpus"}, release=release)
    assert one(objects, "Service")["metadata"] | {"labels": 0} == {"name": "gpus", "namespace": NAMESPACE, "labels": 0}
    assert one(objects, "Service")["metadata"]["labels"]["app.kubernetes.io/instance"] == release


def test_a_namespace_of_digits_stays_a_name() -> None:
    assert {each["metadata"].get("namespace", "1") for each in rendered({}, "--namespace=1")} == {"1"}


def test_a_spread_without_a_selector_selects_the_operators_pods() -> None:
    own = {"matchLabels": {"app": "other"}}
    spread = {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}
    template = one(
        rendered({"topologySpreadConstraints": [spread, spread | {"labelSelector": own}]}), "Deployment"
    )["spec"]["template"]  # fmt: skip
    first, second = template["spec"]["topologySpreadConstraints"]
    assert first["labelSelector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    assert first | {"labelSelector": 0} == spread | {"labelSelector": 0}
    assert second == spread | {"labelSelector": own}


@pytest.mark.parametrize("replicas", [2, 5])
def test_a_broken_operator_blocks_no_drain(replicas: int) -> None:
    budget = one(rendered({"replicaCount": replicas}), "PodDisruptionBudget")["spec"]
    assert (budget["maxUnavailable"], budget["unhealthyPodEvictionPolicy"]) == (1, "AlwaysAllow")
    off = {"replicaCount": replicas, "podDisruptionBudget": {"enabled": False}}
    assert not of_kind(rendered(off), "PodDisruptionBudget")


def test_the_grace_period_is_said() -> None:
    assert one(rendered(), "Deployment")["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == 30


def test_the_network_policy_lets_in_metrics_and_probes_and_out_what_the_operator_calls() -> None:
    assert not of_kind(rendered(), "NetworkPolicy")
    objects = rendered({"networkPolicy": {"enabled": True}})
    policy = one(objects, "NetworkPolicy")["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    labels = one(objects, "Deployment")["spec"]["template"]["metadata"]["labels"]
    assert policy["podSelector"]["matchLabels"].items() <= labels.items()
    assert policy["ingress"] == [
        {"ports": [{"protocol": "TCP", "port": "metrics"}]},
        {"ports": [{"protocol": "TCP", "port": "health"}]},
    ]
    api, pods, nodes = policy["egress"]
    assert api == {"ports": [{"protocol": "TCP", "port": 443}, {"protocol": "TCP", "port": 6443}]}
    of_jobs = {"matchExpressions": [{"key": "gpujob.dev/job-uid", "operator": "Exists"}]}
    assert pods == {
        "to": [{"namespaceSelector": {}, "podSelector": of_jobs}],
        "ports": [{"protocol": "TCP", "port": 1024, "endPort": 65535}],
    }
    assert nodes["to"] == [{"ipBlock": {"cidr": "0.0.0.0/0"}}, {"ipBlock": {"cidr": "::/0"}}]
    assert nodes["ports"] == [{"protocol": "TCP", "port": 62000, "endPort": 64999}]


def test_the_network_policy_names_peers_where_they_are_given() -> None:
    peer = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    address = {"ipBlock": {"cidr": "10.0.0.1/32"}}
    values = {"enabled": True, "metricsFrom": [peer], "apiServerTo": [address], "nodeCIDRs": []}
    policy = one(rendered({"networkPolicy": values}), "NetworkPolicy")["spec"]
    assert policy["ingress"][0]["from"] == [peer]
    assert policy["egress"][0]["to"] == [address]
    assert len(policy["egress"]) == 2


def test_roles_are_added_to_built_in_ones_only_where_that_is_wanted() -> None:
    roles = of_kind(rendered({"userRoles": {"aggregate": False}}), "ClusterRole")
    assert not [label for role in roles for label in role["metadata"]["labels"] if "aggregate-to" in label]
    assert {role["metadata"]["name"] for role in roles} == {
        RELEASE, "gpujob-viewer", "gpujob-editor", "gpujob-pool-viewer", "gpujob-pool-admin"
    }  # fmt: skip


@pytest.mark.parametrize("sample", SAMPLES)
def test_common_labels_are_on_every_object_and_on_the_pods(sample: str) -> None:
    objects = rendered({**SAMPLES[sample], "commonLabels": {"example.com/team": "gpu"}})
    template = one(objects, "Deployment")["spec"]["template"]
    for labelled in (*objects, template):
        assert labelled["metadata"]["labels"]["example.com/team"] == "gpu"
    # A selector can never be changed, so it has none of them.
    assert "example.com/team" not in one(objects, "Deployment")["spec"]["selector"]["matchLabels"]


def site_of(values: dict[str, Any]) -> Catalog:
    """The catalog of an operator of a chart with these values."""
    (found,) = (
        each for each in rendered(values) if each["kind"] == "ConfigMap" and each["metadata"]["name"] == CONFIG_MAP
    )
    return with_site(load_catalog(), found["data"][FILE])


def test_prices_rows_and_mirrors_of_the_chart_are_those_of_the_operator() -> None:
    made = site_of(SAMPLES["everything"])
    assert made.refused == ()
    assert {word: dict(price.amounts) for word, price in made.own_prices.items()} == {
        "H100-SXM": dict.fromkeys(CapacityType, 2_100_000),
        "MI300X": dict.fromkeys(CapacityType, 1_000_000),
        "p5.48xlarge": {CapacityType.ON_DEMAND: 40_000_000, CapacityType.SPOT: 18_500_000},
    }
    assert made.machine("rack-8").devices == 8  # type: ignore[union-attr]
    assert made.pulled_as("rocm/pytorch:7") == "registry.example:5000/rocm/pytorch:7"
    default = site_of({})
    assert (default.own_prices, default.mirrors, default.refused) == ({}, (), ())


@pytest.mark.parametrize(
    ("admission", "allowed"),
    [
        ({}, set()),
        ({"hostDevices": True}, {HostAccess.DEVICES}),
        ({"hostNetwork": True}, {HostAccess.NETWORK}),
        ({"hostNetwork": True, "hostDevices": True}, set(HostAccess)),
        # Without the policies nothing refuses the pods.
        ({"limitOperator": False}, set(HostAccess)),
    ],
)
def test_the_operator_knows_what_its_policies_allow_of_the_host(
    admission: dict[str, bool], allowed: set[HostAccess]
) -> None:
    made = site_of({"admission": admission})
    assert (made.host_access, made.refused) == (allowed, ())


@pytest.mark.parametrize("price", [0.01, 1, 98.32, 6400000, 0.1 + 0.2, "2.10", "100000"])
def test_a_price_means_the_same_however_helm_writes_the_number(price: float | str) -> None:
    (own,) = site_of({"prices": {"our-rack": price}}).own_prices.values()
    assert own.amounts[CapacityType.SPOT] == round(float(price) * 10**6)


@pytest.mark.parametrize(
    ("price", "rule"),
    [
        ("two", "at '/prices/H100': 'two' does not match pattern '^[0-9]{1,7}([.][0-9]+)?$'"),
        (-1, "at '/prices/H100': exclusiveMinimum: got -1, want 0"),
        (True, "at '/prices/H100': got boolean, want number or string or object"),
        ({}, "at '/prices/H100': minProperties: got 0, want 1"),
        ({"Spot": "two"}, "at '/prices/H100/Spot': 'two' does not match pattern '^[0-9]{1,7}([.][0-9]+)?$'"),
        ({"Spot": 0}, "at '/prices/H100/Spot': exclusiveMinimum: got 0, want 0"),
    ],
)
def test_a_price_is_refused_by_the_rule_that_it_breaks(price: Any, rule: str) -> None:
    assert rule in refusal(values={"prices": {"H100": price}})


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"prices": {"H100": "two"}}, "/prices/H100"),
        ({"prices": {"H100": 0}}, "/prices/H100"),
        ({"prices": {"H100": {"Weekly": 1}}}, "/prices/H100"),
        ({"catalog": {"gpus": []}}, "/catalog"),
        ({"catalog": {"runtimes": ["x"]}}, "/catalog/runtimes/0"),
        ({"imageMirrors": [{"from": "rocm", "to": "a.b"}]}, "/imageMirrors/0/from"),
        ({"imageMirrors": [{"from": "a.b"}]}, "/imageMirrors/0"),
        ({"watchNamespaces": ["team.a"]}, "/watchNamespaces/0"),
        ({"watchNamespaces": ["a,b"]}, "/watchNamespaces/0"),
        ({"imageMirrors": [{"from": "a.b", "to": "https://c.d"}]}, "/imageMirrors/0/to"),
        ({"admission": {"allowedServiceAccounts": ["a/b"]}}, "/admission/allowedServiceAccounts/0"),
        ({"admission": {"allowedServiceAccounts": ["a'] || true || ['"]}}, "/admission/allowedServiceAccounts/0"),
        ({"admission": {"allowedServiceAccounts": ["a", "a"]}}, "/admission/allowedServiceAccounts"),
    ],
)
def test_what_is_no_price_row_mirror_or_account_is_refused_by_its_path(values: dict[str, Any], named: str) -> None:
    assert f"at '{named}'" in refusal(values=values)


def test_a_change_of_the_prices_replaces_the_operators_pods() -> None:
    def digest(values: dict[str, Any]) -> str:
        found: str = one(rendered(values), "Deployment")["spec"]["template"]["metadata"]["annotations"][
            "gpujob.dev/site"
        ]
        return found

    assert digest({}) == digest({"prices": {}}) != digest({"prices": {"H100": 2}})
