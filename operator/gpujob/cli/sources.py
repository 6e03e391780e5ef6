"""Where the inputs come from: files, stdin, the shipped catalog, or a live cluster."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gpujob.cli.printing import say
from gpujob.errors import BadClusterFile, BadInput

if TYPE_CHECKING:
    from gpujob.api.gpujob import GPUJob
    from gpujob.catalog.records import Catalog
    from gpujob.fleet.cluster_file import ClusterObjects

STDIN: Final = "-"
TOLD: Final = 5
"""Notes about unreadable objects that are shown; the rest is counted."""


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


def read_manifest(path: str, namespace: str | None) -> list[GPUJob]:
    """The GPUJobs of the file that `-f` names."""
    from gpujob.cli.jobs import given_twice, read_jobs

    try:
        jobs = read_jobs(read_text(path, "-f"), namespace)
    except BadInput as error:
        raise type(error)(_at("-f", path, error)) from error
    tell(given_twice(jobs), f"-f {path}")
    return jobs


def read_catalog(path: str | None) -> Catalog:
    """The shipped catalog, or the one that `--catalog` names; its refused rows are told."""
    from gpujob.catalog import load

    if path is None:
        return load.load_catalog()
    try:
        catalog = load.read_catalog(read_text(path, "--catalog"))
    except BadInput as error:
        raise type(error)(_at("--catalog", path, error)) from error
    tell([f"{name}: {sentence}" for name, sentence in catalog.refused], "catalog row left out")
    return catalog


def read_objects(cluster: str | None, kubeconfig: str | None, context: str | None) -> ClusterObjects:
    """What is known of the cluster, from a file or live; what could not be read is told on stderr."""
    from gpujob.fleet.cluster_file import read_cluster

    documents = read_raw(cluster, kubeconfig, context)
    try:
        objects = read_cluster(documents)
    except BadClusterFile as error:
        raise BadClusterFile(_at("--cluster", cluster or "", error)) from error
    tell(objects.unread, "not read")
    if objects.published_only:
        when = objects.published_at or "an unknown time"
        say(f"nodes cannot be read; published GPUPools are used: free as of {when}")
    return objects


def read_live_job(
    name: str, namespace: str | None, cluster: str | None, kubeconfig: str | None, context: str | None
) -> Mapping[str, Any]:
    """A GPUJob as the API server holds it: of a live cluster, or of a description that holds it."""
    if cluster is None:
        from gpujob.cli.live import LiveCluster

        return LiveCluster(kubeconfig, context).gpujob(name, namespace)
    from gpujob.cli.explaining import in_documents

    return in_documents(read_raw(cluster, kubeconfig, context), name, namespace)


def read_raw(cluster: str | None, kubeconfig: str | None, context: str | None, *, whole: bool = False) -> list[Any]:
    """The cluster's objects as they came; `whole`: published GPUPools are no substitute for nodes and pods."""
    from gpujob.fleet.documents import read_documents

    if cluster is None:
        from gpujob.cli.live import LiveCluster

        return LiveCluster(kubeconfig, context).objects(whole=whole)
    if kubeconfig or context:
        raise BadInput("--cluster reads a file, --kubeconfig and --context a live cluster; leave one out")
    told: list[str] = []
    try:
        documents = read_documents(read_text(cluster, "--cluster"), told)
    except BadClusterFile as error:
        raise BadClusterFile(_at("--cluster", cluster, error)) from error
    tell(told, "not read")
    return documents


def tell(sentences: tuple[str, ...] | list[str], what: str) -> None:
    """The first of some notes on stderr, and how many more there are."""
    for sentence in sentences[:TOLD]:
        say(f"{what}: {sentence}")
    if len(sentences) > TOLD:
        say(f"{what}: {len(sentences) - TOLD} more")


def _at(option: str, path: str, error: BadInput) -> str:
    """Each problem of an error, with the file that it is about."""
    lines = str(error).splitlines()
    return "\n".join(line if line.startswith(f"{option} ") else f"{option} {path}: {line}" for line in lines)
