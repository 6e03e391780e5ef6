"""Checks of what is installed: Kubernetes, CRDs, the operator and its versions."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from gpujob import __version__
from gpujob.api.served import missing_in
from gpujob.catalog.images.versions import at_least
from gpujob.cli.doctor.facts import Facts, name_of
from gpujob.cli.doctor.finding import Found, error, fine, set_values, unknown, warning
from gpujob.cli.input.live import INSTALL
from gpujob.values.untrusted import one_line, table

OLDEST_KUBERNETES: Final = "1.31"
STALE: Final = 60.0
"""Seconds without a renewal after which a Lease is reported; the leader renews it every 5."""


def kubernetes(facts: Facts) -> Iterator[Found]:
    """The version of the API server."""
    if facts.live is None or not (version := one_line(facts.live.version[:64])):
        return
    if at_least(version.removeprefix("v"), OLDEST_KUBERNETES) is False:
        yield error("kubernetes", f"Kubernetes {version} is older than {OLDEST_KUBERNETES}", "upgrade the cluster")
    else:
        yield fine("kubernetes", f"Kubernetes {version}")


def crds(facts: Facts) -> Iterator[Found]:
    """Whether the served CRDs are those of this version."""
    check = "crds"
    if facts.live is None:
        return
    if facts.live.schemas is None:
        yield unknown(check, "the schemas of the CRDs may not be read", "ask for the role system:discovery")
        return
    missing = missing_in(facts.live.schemas)
    if missing and not any(each.served for each in missing):
        yield error(
            check,
            "the CRDs are not installed",
            set_values("--set crds.enabled=true") if facts.live.deployments else INSTALL,
        )
        return
    for each in missing:
        make = error if each.forbids else warning
        what, _, remedy = each.sentence().partition(": ")
        yield make(check, what, remedy, f"{each.kind}.gpujob.dev")
    if not missing:
        yield fine(check, f"the CRDs have all fields of {__version__}")


def operator(facts: Facts) -> Iterator[Found]:
    """Whether the operator runs, leads, and is of this version."""
    check, where = "operator", facts.operator_namespace
    if facts.live is None:
        return
    if facts.live.deployments is None:
        yield unknown(
            check, f"Deployments of namespace {where} may not be read", "ask an admin for the right to list them"
        )
        return
    if not facts.live.deployments:
        remedy = f"{INSTALL}; where it is in another namespace, name it with --operator-namespace"
        yield error(check, f"no operator is installed in namespace {where}", remedy)
        return
    for deployment in facts.live.deployments:
        metadata, status = table(deployment, "metadata"), table(deployment, "status")
        name = name_of(deployment)
        wanted, ready = table(deployment, "spec").get("replicas", 1), status.get("readyReplicas") or 0
        if not wanted:
            yield error(check, "replicaCount is 0, so no operator runs", set_values("--set replicaCount=2"), name)
        elif not ready:
            remedy = f"kubectl logs --namespace {where} deployment/{name}"
            yield error(check, f"none of {wanted} operator pods is ready", remedy, name)
        else:
            yield fine(check, f"{ready} of {wanted} operator pods are ready")
        version = one_line(str(table(metadata, "labels").get("app.kubernetes.io/version", ""))[:64])
        if version and version != __version__:
            said = f"the operator is {version}, this command line is {__version__}: they may decide differently"
            yield warning(check, said, f"install gpujob-operator {version} here, or upgrade the chart", name)
    yield from _leader(facts, check)


def _leader(facts: Facts, check: str) -> Iterator[Found]:
    lease = facts.live.lease if facts.live else None
    if lease is None:
        return
    spec = table(lease, "spec")
    holder, renewed = one_line(str(spec.get("holderIdentity") or "")[:253]), str(spec.get("renewTime") or "")
    try:
        age = (datetime.fromisoformat(facts.now) - datetime.fromisoformat(renewed)).total_seconds()
    except (TypeError, ValueError):
        age = 0.0
    logs = f"kubectl logs --namespace {facts.operator_namespace} -l app.kubernetes.io/part-of=gpujob"
    remedy = f"look at the operator's log: {logs}"
    if not holder:
        yield error(check, "no operator leads: none holds the Lease gpujob-operator", remedy)
    elif age > STALE:
        yield error(check, f"no operator leads: {holder} renewed the Lease {age:.0f} s ago", remedy)
    else:
        yield fine(check, f"{holder} leads")
