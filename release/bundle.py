"""The bundle for the Operator Lifecycle Manager, made of what the chart renders.

https://olm.operatorframework.io/docs/tasks/creating-operator-bundle/: `manifests/` has a ClusterServiceVersion, the CRDs and objects
that it may not make itself, `metadata/annotations.yaml` the channel. A bundle may not hold ValidatingAdmissionPolicies
(operator-registry, pkg/lib/bundle/supported_resources.go), so that the chart's policies are a file beside it, for `kubectl apply`.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from release.related_images import Image

Object = dict[str, Any]

PACKAGE: Final = "gpujob-operator"
NAMESPACE: Final = "gpujob-system"
CHANNEL: Final = "alpha"
ADMISSION: Final = "admission.yaml"

HELD: Final = ("ClusterRole", "ConfigMap", "PodDisruptionBudget", "PrometheusRule", "Role", "Service", "ServiceMonitor")
"""Kinds that stand in the bundle as the chart renders them, but for the operator's own roles."""
POLICIES: Final = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
IN_THE_VERSION: Final = ("ClusterRoleBinding", "Deployment", "RoleBinding", "ServiceAccount")
"""What the ClusterServiceVersion has, or the Lifecycle Manager makes of it."""
LEFT_OUT: Final = ("PodMonitor",)
"""Kinds that a bundle may not hold and that are no policy."""
_OF_HELM: Final = frozenset({"helm.sh/chart", "app.kubernetes.io/managed-by", "app.kubernetes.io/instance"})


class Unplaced(ValueError):
    """The chart renders a kind of which the bundle does not know what becomes of it."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What the ClusterServiceVersion says besides what the chart renders.

    `image` is the operator's with its digest, `created` a time as RFC 3339, `icon` an SVG, `chart` the members of Chart.yaml.
    """

    version: str
    image: str
    created: str
    icon: str
    chart: Mapping[str, Any]
    images: tuple[Image, ...] = ()


def write_bundle(folder: Path, rendered: Iterable[Object], facts: Facts) -> None:
    """Makes the folder: manifests/, metadata/, bundle.Dockerfile, and admission.yaml."""
    objects = list(rendered)
    unknown = {each["kind"] for each in objects} - {
        *HELD,
        *POLICIES,
        *IN_THE_VERSION,
        *LEFT_OUT,
        "CustomResourceDefinition",
    }
    if unknown:
        raise Unplaced(f"the chart renders {', '.join(sorted(unknown))}: say in release/bundle.py what becomes of it")
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "manifests").mkdir(parents=True)
    (folder / "metadata").mkdir()
    own = _one(objects, "Deployment")["metadata"]["name"]
    _write(folder / "manifests" / f"{PACKAGE}.clusterserviceversion.yaml", version_of(objects, facts))
    for each in objects:
        kind, name = each["kind"], each["metadata"]["name"]
        if kind == "CustomResourceDefinition":
            _write(
                folder / "manifests" / f"{each['spec']['group']}_{each['spec']['names']['plural']}.yaml", _bare(each)
            )
        elif kind in HELD and not (kind in ("ClusterRole", "Role") and name == own):
            _write(folder / "manifests" / f"{name}_{kind.lower()}.yaml", _bare(each))
    labels = {
        "operators.operatorframework.io.bundle.mediatype.v1": "registry+v1",
        "operators.operatorframework.io.bundle.manifests.v1": "manifests/",
        "operators.operatorframework.io.bundle.metadata.v1": "metadata/",
        "operators.operatorframework.io.bundle.package.v1": PACKAGE,
        "operators.operatorframework.io.bundle.channels.v1": CHANNEL,
        "operators.operatorframework.io.bundle.channel.default.v1": CHANNEL,
    }
    _write(folder / "metadata" / "annotations.yaml", {"annotations": labels})
    lines = ["FROM scratch", *(f"LABEL {name}={word}" for name, word in labels.items())]
    copies = ["COPY manifests /manifests/", "COPY metadata /metadata/"]
    (folder / "bundle.Dockerfile").write_text("\n".join([*lines, *copies]) + "\n")
    _write(folder / ADMISSION, *(_bare(each) for each in objects if each["kind"] in POLICIES))


def version_of(objects: Sequence[Object], facts: Facts) -> Object:
    """The ClusterServiceVersion of what the chart renders."""
    deployment = _one(objects, "Deployment")
    name = deployment["metadata"]["name"]
    account = deployment["spec"]["template"]["spec"]["serviceAccountName"]
    annotations = facts.chart["annotations"]

    def rules(kind: str) -> list[Object]:
        (role,) = (each for each in objects if each["kind"] == kind and each["metadata"]["name"] == name)
        return [{"serviceAccountName": account, "rules": role["rules"]}]

    spec = {
        "displayName": "GPUJob Operator",
        "description": _DESCRIPTION.format(description=facts.chart["description"]),
        "version": facts.version,
        "maturity": "alpha",
        "minKubeVersion": facts.chart["kubeVersion"].lstrip(">=").removesuffix("-0"),
        "provider": {"name": "gpujob-operator maintainers", "url": facts.chart["home"]},
        **_maintainers(facts.chart["maintainers"]),
        "keywords": facts.chart["keywords"],
        "links": [{"name": "Documentation", "url": facts.chart["home"]}],
        "icon": [{"base64data": facts.icon, "mediatype": "image/svg+xml"}],
        # The operator's own list of namespaces is a value of the chart; its roles are for all of them here.
        "installModes": [
            {"type": kind, "supported": kind == "AllNamespaces"}
            for kind in ("OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces")
        ],
        "install": {
            "strategy": "deployment",
            "spec": {
                "clusterPermissions": rules("ClusterRole"),
                "permissions": rules("Role"),
                "deployments": [
                    {"name": name, "label": _bare(deployment)["metadata"]["labels"], "spec": deployment["spec"]}
                ],
            },
        },
        "customresourcedefinitions": {
            "owned": [
                {key: each[key] for key in ("kind", "version", "name", "displayName", "description")}
                for each in yaml.safe_load(annotations["artifacthub.io/crds"])
            ]
        },
        "relatedImages": [
            {"name": PACKAGE, "image": facts.image},
            *({"name": each.name, "image": each.reference} for each in facts.images),
        ],
    }
    return {
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {
            "name": f"{PACKAGE}.v{facts.version}",
            "namespace": "placeholder",
            "annotations": {
                "alm-examples": json.dumps(yaml.safe_load(annotations["artifacthub.io/crdsExamples"]), indent=2),
                "capabilities": annotations["artifacthub.io/operatorCapabilities"],
                "categories": "AI/Machine Learning",
                "containerImage": facts.image,
                "createdAt": facts.created,
                "description": facts.chart["description"],
                "repository": facts.chart["home"],
                "support": "gpujob-operator maintainers",
                "operatorframework.io/suggested-namespace": NAMESPACE,
            },
        },
        "spec": spec,
    }


_DESCRIPTION: Final = f"""\
{{description}}

**Before use**: a bundle cannot hold ValidatingAdmissionPolicies. Apply `{ADMISSION}`, which is beside the bundle in the
release, in a cluster where the operator is in namespace `{NAMESPACE}`. Without it everybody who may create GPUJobs can run pods.
"""


def _maintainers(named: Iterable[Mapping[str, str]]) -> Object:
    """The member `maintainers` with those of the chart at whom mail arrives: the Lifecycle Manager takes none without an address."""
    reached = [{"name": each["name"], "email": each["email"]} for each in named if each.get("email")]
    return {"maintainers": reached} if reached else {}


def _one(objects: Iterable[Object], kind: str) -> Object:
    (found,) = (each for each in objects if each["kind"] == kind)
    return found


def _bare(manifest: Object) -> Object:
    """Without namespace and without what says that Helm made it."""
    metadata = {key: each for key, each in manifest["metadata"].items() if key != "namespace"}
    for group in ("labels", "annotations"):
        kept = {
            key: each for key, each in metadata.pop(group, {}).items() if key not in _OF_HELM and "helm.sh/" not in key
        }
        if kept:
            metadata[group] = kept
    return {**manifest, "metadata": metadata}


def _write(path: Path, *documents: Object) -> None:
    path.write_text(yaml.safe_dump_all(documents, sort_keys=False, allow_unicode=True, width=1_000_000))
