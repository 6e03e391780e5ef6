"""Which cluster: the door of this package. `up` takes the first way that is open; it is quick when all runs already."""

import contextlib
import os
import shutil
from pathlib import Path
from typing import Protocol

from . import control_plane, existing, kind
from .locks import locked
from .state import CLUSTERS, Cluster, ClusterError, claim, default_dir, load


class Way(Protocol):
    """What a module must offer to be a way to a cluster."""

    def up(self, cluster_dir: Path) -> Cluster:
        """A new cluster in an empty folder."""

    def start_missing(self, cluster: Cluster) -> Cluster:
        """The same cluster, with all of its parts running."""

    def down(self, cluster: Cluster) -> None:
        """Ends everything that was started; the folder is removed afterwards."""


_WAYS: dict[str, Way] = {"existing": existing, "kind": kind, "binaries": control_plane}


def named() -> str | None:
    """What CLUSTER names: existing, kind or binaries; None when it is unset."""
    word = os.environ.get("CLUSTER") or None
    if word is not None and word not in _WAYS:
        raise ClusterError(f"CLUSTER={word} is unknown: use existing, kind or binaries, or leave it unset")
    return word


def up(cluster_dir: Path | None = None, which: str | None = None) -> Cluster:
    """The cluster of that folder, ready for pods; parts that ended are started again, with their data."""
    folder, which = cluster_dir or default_dir(), which or named()
    claim(folder)
    with locked(folder / "up.lock"):
        cluster = load(folder)
        if cluster is None:
            return _new(folder, which or ("kind" if kind.docker_answers() else "binaries"))
        if which not in (None, cluster.kind):
            raise ClusterError(f"the cluster in {folder} is of kind {cluster.kind}, not {which}: take it down first")
        return _WAYS[cluster.kind].start_missing(cluster)


def _new(folder: Path, which: str) -> Cluster:
    try:
        return _WAYS[which].up(folder)
    except ClusterError:
        if load(folder) is None:
            shutil.rmtree(folder)
        raise


def down(cluster_dir: Path | None = None) -> bool:
    """Ends the cluster of that folder, clients first, and removes the folder; False where there was none."""
    folder = cluster_dir or default_dir()
    if load(folder) is None:
        return False
    with locked(folder / "up.lock"):
        cluster = load(folder)
        if cluster is not None:
            _WAYS[cluster.kind].down(cluster)
        shutil.rmtree(folder)
    if folder.parent.resolve() == CLUSTERS:
        # With the last cluster of the checkout their folder goes.
        with contextlib.suppress(OSError):
            CLUSTERS.rmdir()
    return cluster is not None


def status(cluster_dir: Path | None = None) -> tuple[bool, str]:
    """Whether everything of the cluster runs and answers, and a few lines that say so."""
    folder = cluster_dir or default_dir()
    cluster = load(folder)
    if cluster is None:
        return False, f"no cluster in {folder}"
    why = existing.why_silent(cluster)
    lines = [
        f"{cluster.kind} cluster in {folder}",
        f"{'kubeconfig':<24} {cluster.kubeconfig}",
        f"{'server':<24} {f'does not answer: {why}' if why else f'answers {cluster.server}'.rstrip()}",
    ]
    for part in (*cluster.processes, *cluster.clients):
        role = ", a client" if part in cluster.clients else ""
        lines.append(f"{part.name:<24} {'runs' if part.alive else 'has ended'}, pid {part.pid}{role}")
    return not why and all(each.alive for each in cluster.processes), "\n".join(lines)
