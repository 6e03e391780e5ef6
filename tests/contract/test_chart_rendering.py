"""What the chart renders, without a cluster: snapshots, the values schema, rights without excess, CRDs as generated.

After a wanted change: `UPDATE_GOLDEN=1 python -m pytest tests/contract/test_chart_rendering.py`, then read the diff.
"""

import functools
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import gpujob
from gpujob.catalog.files.site import CONFIG_MAP
from gpujob.render.runner_files import load_runner
from gpujob.values.vocabulary import SPENDING
from tests.e2e.cluster.binaries import CLIENTS, CONTROL_PLANE, build, folder
from tests.e2e.cluster.state import REPOSITORY

CHART = REPOSITORY / "charts" / "gpujob-operator"
SNAPSHOTS = Path(__file__).parent / "chart_snapshots"
NAMESPACE = "gpujob-system"
RELEASE = "gpujob-operator"
DIGEST = "sha256:" + "0123456789abcdef" * 4
REPOSITORY_OF_AN_ADMIN = "registry.example/gpujob-operator"
LEASE = "gpujob-operator"
NO_IMAGE = (
    "image.repository is empty and no image is published: build images/operator, push it to your registry, "
    "and set image.repository to its name there (replicaCount=0 needs no image)"
)

EVERYTHING: dict[str, Any] = {
    "nameOverride": "operator",
    "fullnameOverride": "gpus",
    "replicaCount": 3,
    "image": {"repository": "images.example:5000/gpu/operator", "tag": "v1", "digest": DIGEST, "pullPolicy": "Always"},
    "imagePullSecrets": [{"name": "pull"}],
    "logLevel": "debug",
    "logFormat": "text",
    "global": {"imagePullSecrets": [{"name": "everywhere"}]},
    "commonLabels": {"example.com/cost-center": "42"},
    "prices": {"H100-SXM": 2.1, "p5.48xlarge": {"OnDemand": "40", "Spot": 18.5}, "MI300X": 1.0},
    "catalog": {"instanceTypes": [{"cloud": "ours", "accelerator": "MI300X", "devices": {"rack-8": 8}}]},
    "imageMirrors": [{"from": "docker.io/rocm", "to": "registry.example:5000/rocm"}],
    "docsURL": "https://docs.example/gpujob/",
    "podLabels": {"sidecar.istio.io/inject": "false"},
    "metrics": {"port": 9000, "tlsSecret": "metrics-tls", "authentication": {"enabled": True}},
    "health": {"port": 9001},
    "extraEnv": [
        {"name": "GPUJOB_WRITE_RATE", "value": "50"},
        {"name": "ZONE", "valueFrom": {"configMapKeyRef": {"name": "site", "key": "zone"}}},
    ],
    "terminationGracePeriodSeconds": 60,
    "podDisruptionBudget": {"maxUnavailable": "50%", "unhealthyPodEvictionPolicy": "IfHealthyBudget"},
    "networkPolicy": {
        "enabled": True,
        "metricsFrom": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}],
        "apiServerTo": [{"ipBlock": {"cidr": "10.0.0.0/28"}}],
        "apiServerPorts": [6443],
        "nodeCIDRs": ["10.0.0.0/16"],
        "extraIngress": [{"from": [{"podSelector": {"matchLabels": {"app": "debug"}}}]}],
        "extraEgress": [{"ports": [{"port": 53, "protocol": "UDP"}]}],
    },
    "resources": {"requests": {"cpu": 2, "memory": "1Gi"}, "limits": {"memory": "2Gi"}},
    "nodeSelector": {"kubernetes.io/arch": "amd64"},
    "tolerations": [{"key": "infra", "operator": "Exists", "effect": "NoSchedule"}],
    "affinity": {
        "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1, "preference": {"matchExpressions": [{"key": "infra", "operator": "Exists"}]}}
            ]
        }
    },
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}
    ],
    "priorityClassName": "system-cluster-critical",
    "podAnnotations": {"example.com/team": "platform"},
    "serviceAccount": {"create": True, "name": "gpu-account", "annotations": {"example.com/role": "gpus"}},
    "rbac": {"create": True},
    "userRoles": {"create": True},
    "crds": {"enabled": True, "keep": False},
    "admission": {
        "requirePodsCreate": True,
        "protectChildren": True,
        "limitOperator": True,
        "hostDevices": True,
        "hostNetwork": True,
        "allowedImages": ["registry.example", "docker.io/rocm"],
        "allowedServiceAccounts": ["bucket-reader", "a.training"],
    },
    "monitoring": {
        "serviceMonitor": {"enabled": True, "interval": "30s", "labels": {"release": "kube-prometheus-stack"}},
        "podMonitor": {"enabled": True, "interval": "1m", "labels": {"release": "kube-prometheus-stack"}},
        "prometheusRule": {"enabled": False, "labels": {"release": "kube-prometheus-stack"}},
        "dashboards": {"enabled": False},
    },
}
SAMPLES: dict[str, dict[str, Any]] = {
    "default": {},
    "no-replicas": {"replicaCount": 0},
    "everything": EVERYTHING,
    "nothing": {
        "podDisruptionBudget": {"enabled": False},
        "serviceAccount": {"create": False},
        "rbac": {"create": False},
        "userRoles": {"create": False},
        "crds": {"enabled": False},
        "admission": {"requirePodsCreate": False, "protectChildren": False, "limitOperator": False},
    },
}


@functools.cache
def client_program(name: str) -> str:
    """helm or kubectl of the test cluster's programs; else the one of the PATH; else it is built."""
    ours = [folder(packages) / name for packages in (CONTROL_PLANE, CLIENTS)]
    found = next((str(path) for path in ours if path.exists()), None) or shutil.which(name)
    return found or str(build(CLIENTS) / name)


def helm_program() -> str:
    """Helm of version 4."""
    return client_program("helm")


def helm(*arguments: str, values: dict[str, Any] | None = None) -> subprocess.CompletedProcess[str]:
    """One run of helm that needs no cluster."""
    command = [helm_program(), *arguments, *(["--values=-"] if values is not None else [])]
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("HELM_", "KUBE"))}
    # Helm's YAML knows no pairs of surrogates.
    stdin = json.dumps(values, ensure_ascii=False) if values is not None else None
    return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, env=clean, timeout=60)


def template(values: dict[str, Any] | None = None, *arguments: str, release: str = RELEASE) -> str:
    """The manifests as text, as an admin renders them who has an image."""
    values = with_image(values or {})
    done = helm("template", release, str(CHART), f"--namespace={NAMESPACE}", *arguments, values=values)
    assert done.returncode == 0, done.stderr
    return done.stdout


def with_image(values: dict[str, Any]) -> dict[str, Any]:
    """The values with an image's name, where they name none."""
    return {**values, "image": {"repository": REPOSITORY_OF_AN_ADMIN, **values.get("image", {})}}


def rendered(values: dict[str, Any] | None = None, *arguments: str, release: str = RELEASE) -> list[dict[str, Any]]:
    """The manifests as objects, without those of `helm test`."""
    return [each for each in documents(template(values, "--skip-tests", *arguments, release=release)) if each]


def hooks(values: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """The objects of `helm test`."""
    found = (each for each in documents(template(values)) if each)
    return [each for each in found if each["metadata"].get("annotations", {}).get("helm.sh/hook") == "test"]


def documents(text: str) -> Iterator[Any]:
    """The objects of a chart: the CRDs among them are long, and libyaml reads them seven times as fast as Python."""
    return yaml.load_all(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def of_kind(objects: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [each for each in objects if each["kind"] == kind]


def one(objects: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    (found,) = of_kind(objects, kind)
    return found


def notes(values: dict[str, Any]) -> str:
    """What a user reads after the installation."""
    arguments = ("install", RELEASE, str(CHART), f"--namespace={NAMESPACE}", "--dry-run=client")
    done = helm(*arguments, values=with_image(values))
    assert done.returncode == 0, done.stderr
    return done.stdout.partition("\nNOTES:\n")[2]


def crd_files(where: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(where.glob("*.yaml"))}


@pytest.mark.parametrize("sample", SAMPLES)
def test_lint_finds_nothing(sample: str) -> None:
    done = helm("lint", "--strict", str(CHART), values=SAMPLES[sample])
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[WARNING]" not in done.stdout


@pytest.mark.parametrize("sample", SAMPLES)
def test_templates_render_as_in_the_snapshot(sample: str) -> None:
    # The CRDs are compared with their source below; here they would hide the rest.
    # The runner's name changes with each of its files.
    text = template(SAMPLES[sample], "--set=crds.enabled=false").replace(load_runner().name, "gpujob-runner-0")
    golden = SNAPSHOTS / f"{sample}.yaml"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(text)
    assert text == golden.read_text(), "wanted? run again with UPDATE_GOLDEN=1 and read the diff"


def test_the_chart_carries_the_generated_crds() -> None:
    source = crd_files(REPOSITORY / "crds")
    assert source, "crds/ is empty: run `make generate`"
    assert crd_files(CHART / "files" / "crds") == source, "the chart's copy is stale: run `make generate`"


def test_the_chart_grants_the_runner_that_the_operator_has() -> None:
    named = (CHART / "files" / "runner-name").read_text()
    assert named == f"{load_runner().name}\n", "the chart names another runner: run `make generate`"


@pytest.mark.parametrize("keep", [True, False])
def test_crds_are_rendered_unchanged_but_for_labels_and_the_keep_policy(keep: bool) -> None:
    files = [yaml.safe_load(content) for content in crd_files(CHART / "files" / "crds").values()]
    crds = of_kind(rendered({"crds": {"keep": keep}}), "CustomResourceDefinition")
    assert [each["spec"] for each in crds] == [each["spec"] for each in files]
    for crd, file in zip(crds, files, strict=True):
        policy = {"helm.sh/resource-policy": "keep"} if keep else {}
        assert crd["metadata"]["name"] == file["metadata"]["name"]
        assert crd["metadata"].get("annotations", {}) == file["metadata"].get("annotations", {}) | policy


def test_without_crds_none_is_rendered() -> None:
    assert not of_kind(rendered({"crds": {"enabled": False}}), "CustomResourceDefinition")


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"replicas": 2}, "replicas"),
        ({"image": {"registri": "x"}}, "registri"),
        ({"image": {"registry": "https://x"}}, "registry"),
        ({"commonLabels": {"team": "a b"}}, "commonLabels"),
        ({"podLabels": {"-": "a"}}, "podLabels"),
        ({"extraEnv": [{"name": "A-B", "value": "1"}]}, "extraEnv"),
        ({"extraEnv": [{"name": "A", "value": "1", "valueFrom": {"fieldRef": {}}}]}, "extraEnv"),
        ({"terminationGracePeriodSeconds": 0}, "terminationGracePeriodSeconds"),
        ({"topologySpreadConstraints": [{"topologyKey": "zone"}]}, "maxSkew"),
        ({"podDisruptionBudget": {"maxUnavailable": "half"}}, "maxUnavailable"),
        ({"podDisruptionBudget": {"unhealthyPodEvictionPolicy": "Never"}}, "unhealthyPodEvictionPolicy"),
        ({"networkPolicy": {"apiServerPorts": []}}, "apiServerPorts"),
        ({"networkPolicy": {"metricsFrom": [{"namespace": "monitoring"}]}}, "metricsFrom"),
        ({"networkPolicy": {"nodeCIDRs": ["10.0.0.1"]}}, "nodeCIDRs"),
        ({"userRoles": {"aggregated": True}}, "aggregated"),
        ({"image": {"repository": "images.example/operator@sha256:0"}}, "repository"),
        ({"image": {"digest": "sha256:short"}}, "digest"),
        ({"image": {"pullPolicy": "Sometimes"}}, "pullPolicy"),
        ({"imagePullSecrets": ["pull"]}, "imagePullSecrets"),
        ({"replicaCount": -1}, "replicaCount"),
        ({"replicaCount": "2"}, "replicaCount"),
        ({"logLevel": "loud"}, "logLevel"),
        ({"logFormat": "xml"}, "logFormat"),
        ({"metrics": {"port": 80}}, "metrics"),
        ({"health": {"port": "8080"}}, "health"),
        ({"resources": {"request": {"cpu": "1"}}}, "request"),
        ({"serviceAccount": {"creat": False}}, "creat"),
        ({"rbac": {"rules": []}}, "rules"),
        ({"userRoles": {"create": "yes"}}, "userRoles"),
        ({"crds": {"keep": "yes"}}, "crds"),
        ({"admission": {"requirePodCreate": True}}, "requirePodCreate"),
        ({"monitoring": {"serviceMonitor": {"enabled": "yes"}}}, "serviceMonitor"),
        ({"monitoring": {"podMonitor": {"interval": "15"}}}, "interval"),
        ({"monitoring": {"prometheusRule": {"runbooks": "our wiki"}}}, "runbooks"),
        ({"monitoring": {"dashboards": {"enabled": "auto"}}}, "dashboards"),
        ({"monitoring": {"grafana": {}}}, "grafana"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_a_value_that_the_chart_does_not_know_is_refused_by_name(values: dict[str, Any], named: str) -> None:
    done = helm("template", RELEASE, str(CHART), values=values)
    assert done.returncode != 0
    assert named in done.stderr


def test_one_port_for_two_things_is_refused() -> None:
    values = with_image({"metrics": {"port": 9000}, "health": {"port": 9000}})
    done = helm("template", RELEASE, str(CHART), values=values)
    assert done.returncode != 0
    assert "health.port and metrics.port are the same" in done.stderr


def test_schema_knows_every_value_with_its_default() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())

    def compare(part: dict[str, Any], defaults: dict[str, Any], where: str) -> None:
        # What a parent chart gives to all of its charts is not all for this one.
        assert part["additionalProperties"] is (where == "values.global"), where
        for name, sub in part["properties"].items():
            assert sub["description"], f"{where}.{name}"
            if isinstance(defaults.get(name), dict) and "properties" in sub:
                compare(sub, defaults[name], f"{where}.{name}")
        assert set(defaults) == set(part["properties"]), where

    compare(schema, values, "values")


def test_readme_has_a_row_for_every_value() -> None:
    free = {"resources", "monitoring.dashboards.labels", "monitoring.dashboards.annotations"}

    def leaves(values: dict[str, Any], prefix: str = "") -> set[str]:
        found: set[str] = set()
        for name, value in values.items():
            nested = isinstance(value, dict) and value and prefix + name not in free
            found |= leaves(value, f"{prefix}{name}.") if nested else {prefix + name}
        return found

    rows = re.findall(r"^\| ((?:`[\w.]+`(?:, )?)+) \|", (CHART / "README.md").read_text(), flags=re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`([\w.]+)`", row)} == leaves(
        yaml.safe_load((CHART / "values.yaml").read_text())
    )


def test_the_chart_is_usable_as_a_dependency(tmp_path: Path) -> None:
    (tmp_path / "charts").mkdir()
    shutil.copytree(CHART, tmp_path / "charts" / "gpujob-operator")
    parent = {"apiVersion": "v2", "name": "platform", "version": "1.0.0"}
    dependency = {"name": "gpujob-operator", "version": "*", "repository": ""}
    (tmp_path / "Chart.yaml").write_text(yaml.safe_dump({**parent, "dependencies": [dependency]}))
    values = {"global": {"anything": 1}, "gpujob-operator": with_image({"replicaCount": 0})}
    done = helm("template", "mine", str(tmp_path), values=values)
    assert done.returncode == 0, done.stderr
    assert one(list(documents(done.stdout)), "Deployment")["metadata"]["name"] == "mine-gpujob-operator"


@pytest.mark.parametrize(
    ("release", "name"),
    [("gpujob-operator", "gpujob-operator"), ("my-gpujob-operator", "my-gpujob-operator"), ("x", "x-gpujob-operator")],
)
def test_a_release_name_with_the_charts_name_in_it_is_not_doubled(release: str, name: str) -> None:
    objects = rendered(release=release)
    assert one(objects, "ServiceAccount")["metadata"]["name"] == name
    assert one(objects, "Deployment")["spec"]["template"]["spec"]["serviceAccountName"] == name


def test_every_object_has_the_usual_labels() -> None:
    for each in rendered():
        labels = each["metadata"]["labels"]
        assert labels["app.kubernetes.io/name"] == "gpujob-operator", each["metadata"]["name"]
        assert labels["app.kubernetes.io/instance"] == RELEASE
        assert labels["app.kubernetes.io/managed-by"] == "Helm"
        assert labels["app.kubernetes.io/version"] == gpujob.__version__


def test_versions_of_chart_and_operator_agree() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == gpujob.__version__


@pytest.mark.parametrize(
    ("version", "accepted"),
    [("1.30.14", False), ("1.31.0", True), ("v1.31.2-gke.100", True), ("v1.33.4-eks-1234567", True), ("1.37.2", True)],
)
def test_kubernetes_from_1_31_is_accepted(version: str, accepted: bool) -> None:
    done = helm("template", RELEASE, str(CHART), f"--kube-version={version}", values=with_image({}))
    assert (done.returncode == 0) is accepted, done.stderr


@pytest.mark.parametrize(
    ("image", "reference"),
    [
        ({"repository": "a.example/b"}, f"a.example/b:{gpujob.__version__}"),
        ({"repository": "a.example/b", "tag": "v9"}, "a.example/b:v9"),
        ({"repository": "a.example/b", "tag": "v9", "digest": DIGEST}, f"a.example/b@{DIGEST}"),
    ],
)
def test_the_image_is_by_digest_then_tag_then_version(image: dict[str, str], reference: str) -> None:
    deployment = one(rendered({"image": image}), "Deployment")
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == reference


@pytest.mark.parametrize("image", [{}, {"repository": ""}, {"tag": "v9"}, {"digest": DIGEST}, {"repository": None}])
def test_an_operator_without_the_name_of_an_image_is_refused_with_a_sentence(image: dict[str, str]) -> None:
    for verb in ("template", "install"):
        done = helm(
            verb, RELEASE, str(CHART), *(["--dry-run=client"] if verb == "install" else []), values={"image": image}
        )
        assert done.returncode != 0
        assert NO_IMAGE in done.stderr


def test_without_replicas_no_image_is_needed() -> None:
    done = helm("template", RELEASE, str(CHART), values={"replicaCount": 0})
    assert done.returncode == 0, done.stderr
    assert not of_kind(list(filter(None, documents(done.stdout))), "Deployment")
    done = helm("install", RELEASE, str(CHART), "--dry-run=client", values={"replicaCount": 0})
    assert (
        "--reset-then-reuse-values --set replicaCount=2 --set image.repository=YOUR-REGISTRY/gpujob-operator"
        in done.stdout
    )


def test_a_published_image_is_not_pretended() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert values["image"]["repository"] == ""


def test_the_operators_pod_has_memory_for_temporary_files_and_a_read_only_root() -> None:
    spec = one(rendered(), "Deployment")["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    mount, site = container["volumeMounts"]
    volume, _ = spec["volumes"]
    assert site["readOnly"] is True
    assert (mount["mountPath"], mount["name"]) == ("/tmp", volume["name"])
    assert volume["emptyDir"] == {"medium": "Memory", "sizeLimit": "16Mi"}


def test_helm_test_plans_a_suspended_job_in_a_confined_pod_that_nothing_of_the_release_selects() -> None:
    objects = rendered()
    account, role, binding, pod = (one(hooks(), kind) for kind in ("ServiceAccount", "Role", "RoleBinding", "Pod"))
    assert pod["spec"]["containers"][0]["command"] == ["python", "-m", "gpujob.cluster.app.installed"]
    assert (
        pod["spec"]["containers"][0]["image"]
        == one(objects, "Deployment")["spec"]["template"]["spec"]["containers"][0]["image"]
    )
    assert pod["spec"]["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    assert pod["spec"]["containers"][0]["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    selector = one(objects, "Service")["spec"]["selector"]
    assert not selector.items() <= pod["metadata"]["labels"].items()
    assert rights(role) == {("gpujob.dev", "gpujobs"): {"create", "delete", "get"}, ("", "pods"): {"create"}}
    (subject,) = binding["subjects"]
    assert (subject["name"], pod["spec"]["serviceAccountName"]) == (account["metadata"]["name"],) * 2
    own = {each["metadata"]["name"] for each in objects if each["kind"] == "ServiceAccount"}
    assert account["metadata"]["name"] not in own


def test_without_an_image_there_is_nothing_to_test() -> None:
    text = helm("template", RELEASE, str(CHART), values={"replicaCount": 0}).stdout
    assert "helm.sh/hook: test" not in text


@pytest.mark.parametrize(("replicas", "budgets"), [(0, 0), (1, 0), (2, 1), (3, 1)])
def test_a_disruption_budget_exists_only_for_several_operators(replicas: int, budgets: int) -> None:
    objects = rendered({"replicaCount": replicas})
    assert len(of_kind(objects, "PodDisruptionBudget")) == budgets
    assert one(objects, "Deployment")["spec"]["replicas"] == replicas


# --- Rights -----------------------------------------------------------------------------------------------------------

OPERATOR_MAY = {
    ("", "namespaces"): {"list", "watch"},
    ("", "nodes"): {"list", "watch"},
    ("", "persistentvolumeclaims"): {"list", "watch"},
    ("", "persistentvolumes"): {"list", "watch"},
    ("", "pods"): {"list", "watch"},
    ("", "resourcequotas"): {"list", "watch"},
    ("", "limitranges"): {"list", "watch"},
    ("", "configmaps"): {"create", "delete", "list", "patch", "watch"},
    ("", "services"): {"create", "delete", "get", "list", "watch"},
    ("batch", "jobs"): {"create", "delete", "get", "list", "watch"},
    ("events.k8s.io", "events"): {"create", "list"},
    ("gpujob.dev", "gpujobs"): {"delete", "list", "watch"},
    ("gpujob.dev", "gpujobs/status"): {"patch"},
    ("gpujob.dev", "gpujobprofiles"): {"create", "list", "patch", "watch"},
    ("gpujob.dev", "gpupools"): {"create", "delete", "list", "watch"},
    ("gpujob.dev", "gpupools/status"): {"patch"},
    ("gpujob.dev", "gpuruntimes"): {"list", "watch"},
    ("node.k8s.io", "runtimeclasses"): {"list", "watch"},
    ("scheduling.k8s.io", "priorityclasses"): {"list", "watch"},
    ("storage.k8s.io", "storageclasses"): {"list", "watch"},
    ("resource.k8s.io", "deviceclasses"): {"list", "watch"},
    ("resource.k8s.io", "devicetaintrules"): {"list", "watch"},
    ("resource.k8s.io", "resourceclaims"): {"list", "watch"},
    ("resource.k8s.io", "resourceclaimtemplates"): {"create", "delete", "get"},
    ("resource.k8s.io", "resourceslices"): {"list", "watch"},
}


def rights(role: dict[str, Any]) -> dict[tuple[str, str], set[str]]:
    """What a role allows, by API group and resource."""
    found: dict[tuple[str, str], set[str]] = {}
    for rule in role["rules"]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                found.setdefault((group, resource), set()).update(rule["verbs"])
    return found


def role_named(objects: list[dict[str, Any]], name: str) -> dict[str, Any]:
    (found,) = [each for each in of_kind(objects, "ClusterRole") if each["metadata"]["name"] == name]
    return found


def test_the_operator_may_do_what_it_calls_and_nothing_else() -> None:
    objects = rendered()
    assert rights(role_named(objects, RELEASE)) == OPERATOR_MAY
    (lease,) = (each for each in of_kind(objects, "Role") if each["metadata"]["name"] == RELEASE)
    assert lease["metadata"]["namespace"] == NAMESPACE
    assert rights(lease) == {
        ("coordination.k8s.io", "leases"): {"create", "get", "patch"},
        ("", "configmaps"): {"create", "get", "patch"},
    }
    # RBAC compares no name with that of an object which does not exist yet.
    named = ([LEASE], [SPENDING])
    unnamed = [verb for rule in lease["rules"] if rule.get("resourceNames") not in named for verb in rule["verbs"]]
    assert unnamed == ["create"]


def test_tokens_of_scrapers_are_read_only_where_tls_hides_them() -> None:
    done = helm(
        "template", RELEASE, str(CHART), values={"replicaCount": 0, "metrics": {"authentication": {"enabled": True}}}
    )
    assert done.returncode != 0
    sentence = "metrics.authentication.enabled needs metrics.tlsSecret: without TLS the tokens of scrapers can be read on the network"
    assert sentence in done.stderr


def test_metrics_behind_tokens_come_with_the_rights_that_they_need() -> None:
    objects = rendered(EVERYTHING)
    asked = {
        ("authentication.k8s.io", "tokenreviews"): {"create"},
        ("authorization.k8s.io", "subjectaccessreviews"): {"create"},
    }
    assert {**OPERATOR_MAY, **asked} == rights(role_named(objects, "gpus"))
    assert role_named(objects, "gpujob-metrics-reader")["rules"] == [
        {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}
    ]
    (endpoint,) = one(objects, "ServiceMonitor")["spec"]["endpoints"]
    assert endpoint["scheme"] == "https"
    assert endpoint["tlsConfig"]["serverName"] == f"gpus.{NAMESPACE}.svc"
    assert endpoint["bearerTokenFile"] == "/var/run/secrets/kubernetes.io/serviceaccount/token"
    plain = rendered({"monitoring": {"serviceMonitor": {"enabled": True}}})
    assert one(plain, "ServiceMonitor")["spec"]["endpoints"][0].keys() == {"port", "interval", "honorLabels"}


WRITES_IN_NO_NAMESPACE = {"gpupools", "gpupools/status"}


def test_with_a_list_of_namespaces_the_operator_has_its_rights_there() -> None:
    objects = rendered({"watchNamespaces": ["team-b", "team-a"]})
    everywhere = rights(role_named(objects, RELEASE))
    roles = {
        each["metadata"]["namespace"]: each for each in of_kind(objects, "Role") if each["metadata"]["name"] != RELEASE
    }
    assert roles.keys() == {"team-a", "team-b", "default", NAMESPACE}
    assert rights(roles["default"]) == {("events.k8s.io", "events"): {"create"}}
    for namespace in ("team-a", "team-b"):
        assert {**everywhere, **rights(roles[namespace])} == OPERATOR_MAY
        assert not everywhere.keys() & rights(roles[namespace]).keys()
    written = {resource for (_, resource), verbs in everywhere.items() if verbs - {"list", "watch"}}
    assert written == WRITES_IN_NO_NAMESPACE
    bound = {each["metadata"]["namespace"]: each["roleRef"]["name"] for each in of_kind(objects, "RoleBinding")}
    assert {bound[namespace] for namespace in ("team-a", "team-b", "default")} == {f"{RELEASE}-jobs"}
    (container,) = one(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert {"name": "GPUJOB_WATCH_NAMESPACES", "value": "team-b,team-a"} in container["env"]


def test_helm_test_runs_where_the_operator_runs_jobs() -> None:
    for watched, where in (([], NAMESPACE), (["team-a", NAMESPACE], NAMESPACE), (["team-b", "team-a"], "team-b")):
        objects = hooks({"watchNamespaces": watched})
        (pod,) = of_kind(objects, "Pod")
        assert pod["spec"]["containers"][0]["env"] == [{"name": "GPUJOB_NAMESPACE", "value": where}]
        (role,), (binding,) = of_kind(objects, "Role"), of_kind(objects, "RoleBinding")
        assert (role["metadata"]["namespace"], binding["metadata"]["namespace"]) == (where, where)
        assert pod["metadata"]["namespace"] == binding["subjects"][0]["namespace"] == NAMESPACE


def test_the_operators_roles_are_bound_to_its_account_only() -> None:
    objects = rendered(EVERYTHING)
    bindings = [*of_kind(objects, "ClusterRoleBinding"), *of_kind(objects, "RoleBinding")]
    account = {"kind": "ServiceAccount", "name": "gpu-account", "namespace": NAMESPACE}
    assert [each["subjects"] for each in bindings] == [[account], [account]]
    assert {each["roleRef"]["name"] for each in bindings} == {"gpus"}


def test_no_role_has_a_wildcard_or_reads_what_is_secret() -> None:
    objects = rendered()
    roles = [*of_kind(objects, "ClusterRole"), *of_kind(objects, "Role")]
    assert len(roles) == 8
    for role in roles:
        for rule in role["rules"]:
            assert set(rule) - {"resourceNames"} == {"apiGroups", "resources", "verbs"}
            # A ConfigMap is read and written under three names only: the runner's, that of what namespaces have spent, and that of the
            # installation's prices.
            names = [load_runner().name], [SPENDING], [CONFIG_MAP]
            named = ["configmaps"] if rule.get("resourceNames") in names else []
            # Labels of namespaces decide which may use a pool; the operator never writes them.
            seen = ["namespaces"] if set(rule["verbs"]) == {"list", "watch"} else []
            words = {*rule["apiGroups"], *rule["resources"], *rule["verbs"]} - {*named, *seen}
            assert not words & {
                "*", "secrets", "configmaps", "serviceaccounts", "serviceaccounts/token", "pods/exec", "namespaces",
                "customresourcedefinitions", "roles", "rolebindings", "clusterroles", "clusterrolebindings",
                "escalate", "bind", "impersonate", "gpujobs/finalizers",
            }, role["metadata"]["name"]  # fmt: skip


def test_editors_may_create_pods_because_the_policy_asks_for_it() -> None:
    objects = rendered()
    editor = rights(role_named(objects, "gpujob-editor"))
    assert editor[("", "pods")] == {"create"}
    assert {"create", "update", "patch", "delete"} <= editor[("gpujob.dev", "gpujobs")]
    assert "patch" not in editor[("gpujob.dev", "gpujobs/status")]


def test_what_is_added_to_built_in_roles_is_about_gpujobs_only() -> None:
    added = {
        role["metadata"]["name"]: set(rights(role))
        for role in of_kind(rendered(), "ClusterRole")
        if any("aggregate-to" in label for label in role["metadata"]["labels"])
    }
    assert set(added) == {"gpujob-viewer", "gpujob-aggregate-to-edit", "gpujob-pool-viewer"}
    assert {group for resources in added.values() for group, _ in resources} == {"gpujob.dev"}


# --- The pod ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sample", SAMPLES)
def test_the_operators_pod_is_restricted(sample: str) -> None:
    pod = one(rendered(SAMPLES[sample]), "Deployment")["spec"]["template"]["spec"]
    assert pod["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    assert not pod.keys() & {"hostNetwork", "hostPID", "hostIPC", "initContainers"}
    items = [{"key": name, "path": name} for name in ("tls.crt", "tls.key")]
    certificate = {"name": "metrics-tls", "secret": {"secretName": "metrics-tls", "items": items}}
    assert pod["volumes"] == [
        {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}},
        {"name": "site", "configMap": {"name": "gpujob-site"}},
        *([certificate] if sample == "everything" else []),
    ]
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_the_operator_is_told_what_it_reads() -> None:
    (container,) = one(rendered(EVERYTHING), "Deployment")["spec"]["template"]["spec"]["containers"]
    *own, rate, zone = container["env"]
    assert [rate, zone] == EVERYTHING["extraEnv"]
    told = {each["name"]: each.get("value") or each["valueFrom"]["fieldRef"]["fieldPath"] for each in own}
    assert told == {
        "GPUJOB_NAMESPACE": "metadata.namespace",
        "GPUJOB_POD_NAME": "metadata.name",
        "GPUJOB_METRICS_PORT": "9000",
        "GPUJOB_METRICS_AUTHENTICATION": "true",
        "GPUJOB_METRICS_TLS": "/etc/gpujob-tls",
        "GPUJOB_HEALTH_PORT": "9001",
        "GPUJOB_SITE": "/etc/gpujob/site.yaml",
        "GPUJOB_LOG_LEVEL": "debug",
        "GPUJOB_LOG_FORMAT": "text",
        "GPUJOB_PROVISION_SECONDS": "900",
        "GPUJOB_HOLD_SECONDS": "21600",
        "GPUJOB_UNBOUND_SECONDS": "300",
    }
    assert container["command"] == ["python", "-m", "gpujob.cluster"]
    assert {each["name"]: each["containerPort"] for each in container["ports"]} == {"metrics": 9000, "health": 9001}
    assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "health"}
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "health"}


def test_the_operators_memory_is_what_was_measured_with_10000_jobs_and_nodes() -> None:
    resources = one(rendered({}), "Deployment")["spec"]["template"]["spec"]["containers"][0]["resources"]
    request, limit = (int(resources[each]["memory"].removesuffix("Mi")) for each in ("requests", "limits"))
    figures = (REPOSITORY / "bench" / "RESULTS.md").read_text()
    measured = re.findall(r"^\| 10,000 \| (\d+)[^|]*\|.* [\d.]+ in \d+ \|", figures, re.MULTILINE)[-1]
    page = (REPOSITORY / "docs" / "guides" / "operations.md").read_text()
    (nodes,) = re.findall(r"10,000 nodes and their pods take up to\s+(\d+) MiB more", page)
    both = int(measured) + int(nodes)
    assert both <= request <= 1.5 * both
    assert limit == 2 * request
    assert f"| 10,000 | {measured} MiB |" in page
    assert f"The chart requests {request}Mi and limits {limit}Mi" in page


# --- Notes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "warned"),
    [
        ({"replicaCount": 0}, "WARNING: replicaCount is 0"),
        ({"crds": {"keep": False}}, "WARNING: crds.keep is false"),
        ({"crds": {"enabled": False}}, "NOTE: crds.enabled is false"),
        ({"admission": {"requirePodsCreate": False}}, "WARNING: admission.requirePodsCreate is false"),
        ({"admission": {"protectChildren": False}}, "WARNING: admission.protectChildren is false"),
        ({"admission": {"limitOperator": False}}, "WARNING: admission.limitOperator is false"),
        ({"rbac": {"create": False}}, "NOTE: rbac.create is false"),
    ],
)
def test_notes_warn_of_a_value_that_takes_something_away(values: dict[str, Any], warned: str) -> None:
    assert warned in notes(values)
    assert not re.search("^(WARNING|NOTE):", notes({}), flags=re.MULTILINE)


def test_notes_can_be_pasted() -> None:
    text = notes({})
    assert "\nkubectl get gpupools\n" in text
    assert f"\nhelm upgrade {RELEASE} CHART --namespace {NAMESPACE} --reset-then-reuse-values\n" in text
    script = text.split("<<EOF\n")[1].split("\nEOF\n")[0]
    assert yaml.safe_load(script)["kind"] == "GPUJob"
