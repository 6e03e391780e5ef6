"""The sources of the inputs: files, stdin, the shipped catalog, or a live cluster."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from gpujob.cli.printing import say
from gpujob.values.errors import BadClusterFile, BadInput

if TYPE_CHECKING:
    from gpujob.api.kinds.gpujob import GPUJob
    from gpujob.catalog.catalog import Catalog
    from gpujob.cli.input.request import Request
    from gpujob.fleet.kubernetes.namespaces import Namespace
    from gpujob.fleet.kubernetes.objects import Node
    from gpujob.fleet.pools.arriving import Arriving
    from gpujob.fleet.pools.fleet import Fleet
    from gpujob.fleet.sources.cluster_file import ClusterObjects

STDIN: Final = "-"
NO_CLAIMS: Final[Mapping[tuple[str, str], Any]] = MappingProxyType({})
MOST_NOTES: Final = 5
"""The most notes about unreadable objects that are shown; the rest is counted."""


def read_text(path: str, option: str) -> str:
    """The text of a file or of stdin; raises BadInput naming the option."""
    try:
        data = sys.stdin.buffer.read() if path == STDIN else Path(path).read_bytes()
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(f"{option} {path}: is no text in UTF-8 (byte {error.start})") from error
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise BadInput(f"{option} {path}: {why}; name a file that can be read") from error


def read_manifest(request: Request, claims: dict[tuple[str, str], Any]) -> list[GPUJob]:
    """The GPUJobs of the file that `-f` names; its PersistentVolumeClaims are added to `claims`, by namespace and name."""
    from gpujob.cli.input.jobs import last_of_each, read_jobs

    path, notes = str(request.filename), list[str]()
    try:
        jobs = last_of_each(read_jobs(read_text(path, "-f"), request.namespace, notes, claims), notes)
    except BadInput as error:
        raise type(error)(_at("-f", path, error)) from error
    print_notes(notes, f"-f {path}")
    return jobs


def read_catalog(path: str | None) -> Catalog:
    """The shipped catalog, or the one of `--catalog`; its refused rows are reported."""
    from gpujob.catalog.files import load

    if path is None:
        return load.load_catalog()
    try:
        catalog = load.read_catalog(read_text(path, "--catalog"))
    except BadInput as error:
        raise type(error)(_at("--catalog", path, error)) from error
    print_notes([f"{name}: {sentence}" for name, sentence in catalog.refused], "catalog row left out")
    return catalog


def read_raw(request: Request, *, whole: bool = False) -> list[Any]:
    """The cluster's objects, unparsed; `whole`: published GPUPools do not replace nodes and pods."""
    from gpujob.fleet.sources.kubectl_yaml import read_documents

    if request.cluster is None:
        from gpujob.cli.input.live import LiveCluster

        cluster = LiveCluster(request.kubeconfig, request.context)
        return [*cluster.objects(whole=whole), *cluster.site(request.operator_namespace)]
    if request.kubeconfig or request.context:
        raise BadInput("--cluster reads a file, --kubeconfig and --context a live cluster; leave one out")
    notes: list[str] = []
    try:
        documents = read_documents(read_text(request.cluster, "--cluster"), notes)
    except BadClusterFile as error:
        raise BadClusterFile(_at("--cluster", request.cluster, error)) from error
    print_notes(notes, "not read")
    return documents


def objects_of(
    documents: list[Any], request: Request, catalog: Catalog, claims: Mapping[tuple[str, str], Any] = NO_CLAIMS
) -> ClusterObjects:
    """The parsed result of `read_raw`, with the GPURuntimes that extend a row and the `claims` of the manifest; what cannot be read is
    reported on stderr.
    """
    from gpujob.cli.cluster_file.reservations import reservations_in
    from gpujob.fleet.sources.cluster_file import read_cluster, with_extended

    try:
        objects = replace(read_cluster(documents, claims), reservations=reservations_in(documents))
    except BadClusterFile as error:
        raise BadClusterFile(_at("--cluster", request.cluster or "", error)) from error
    objects = with_extended(objects, catalog)
    objects = replace(objects, nodes=tuple(_as_of_now(objects.nodes, documents)))
    print_notes(objects.unread, "not read")
    if objects.published_only:
        when = objects.published_at or "an unknown time"
        say(f"nodes cannot be read; published GPUPools are used: free as of {when}")
    return objects


def arriving(objects: ClusterObjects, now: datetime) -> tuple[Arriving, ...]:
    """New nodes whose devices are pending, as long as the operator waits for them by default."""
    from gpujob.lifecycle.timings import Timings
    from gpujob.status.attempts import waits

    return tuple(waits.arriving(objects.nodes, now, Timings().provision))


def _as_of_now(nodes: Iterable[Node], documents: list[Any]) -> Iterable[Node]:
    """The nodes with what the statuses of GPUJobs say against them and without past maintenance, as the operator has it."""
    from gpujob.fleet.health.node_failures import NodeFailures
    from gpujob.fleet.labels.maintenance import as_of
    from gpujob.fleet.sources.cluster_file import objects_in
    from gpujob.values.untrusted import table

    failures, now = NodeFailures(), datetime.now(UTC)
    for number, item in enumerate(objects_in(documents, [])):
        if item.get("kind") == "GPUJob":
            failures.put(str(number), table(item, "status"))
    found = ((as_of(node, now), failures.suspicion(node.name, now)) for node in nodes)
    return [replace(node, suspicion=suspicion.sentence) if suspicion else node for node, suspicion in found]


def read_live_job(name: str, documents: list[Any], request: Request) -> Mapping[str, Any]:
    """A GPUJob in the API server: of a live cluster, or of a description that holds it."""
    if request.cluster is None:
        from gpujob.cli.input.live import LiveCluster

        return LiveCluster(request.kubeconfig, request.context).gpujob(name, request.namespace)
    from gpujob.cli.cluster_file.jobs import in_documents

    return in_documents(documents, name, request.namespace)


def note_no_pools(objects: ClusterObjects, fleet: Fleet) -> None:
    """Reports why there is no pool, if there is none: no node has GPUs, or nodes have them for virtual machines."""
    from gpujob.fleet.labels.maintenance import of_machines
    from gpujob.values.finding import counted
    from gpujob.values.vocabulary import Vendor

    if fleet.pools:
        return
    found = [f"node {node.name}: {why}" for node in objects.nodes if (why := of_machines(node, *Vendor))]
    more = f", and so on {counted(len(found) - 1, 'more node')}" if len(found) > 1 else ""
    none = f"none of {len(objects.nodes)} nodes has GPUs or labels of GPUs; kubectl gpujob doctor says what they lack"
    print_notes([f"{found[0]}{more}; pods get none of them" if found else none], "no pools")


def note_budgets(namespaces: Iterable[str], known: Mapping[str, Namespace]) -> None:
    """Reports the monthly budgets of the jobs' namespaces: what is spent is known to the operator alone."""
    from gpujob.status.attempts.monthly_budget import uncounted

    for name in dict.fromkeys(namespaces):
        if name in known and (budget := known[name].monthly_budget) is not None:
            say(uncounted(name, budget))


def require_one_reader_of_stdin(request: Request) -> None:
    """Raises BadInput where the manifest and the cluster both come from stdin."""
    if request.filename == request.cluster == STDIN:
        raise BadInput("-f and --cluster cannot both read stdin; name a file for one of them")


def note_missing_namespaces(jobs: Iterable[GPUJob], known: Collection[str]) -> None:
    """Reports the jobs' namespaces that a live cluster lacks; nothing if none can be read."""
    wanted = dict.fromkeys(job.metadata.namespace or "default" for job in jobs)
    for name in wanted if known else ():
        if name not in known:
            say(f"there is no namespace {name} yet: `kubectl create namespace {name}`, or name another with -n")


def print_notes(sentences: tuple[str, ...] | list[str], what: str) -> None:
    """The first notes on stderr, and the number of the rest."""
    for sentence in sentences[:MOST_NOTES]:
        say(f"{what}: {sentence}")
    if len(sentences) > MOST_NOTES:
        say(f"{what}: {len(sentences) - MOST_NOTES} more")


def _at(option: str, path: str, error: BadInput) -> str:
    """Each problem of an error, with its file."""
    lines = str(error).splitlines()
    return "\n".join(line if line.startswith(f"{option} ") else f"{option} {path}: {line}" for line in lines)
