"""Discovery restarts: the operator places by what labels said last, for five minutes and on the same node only."""

from __future__ import annotations

from typing import Any

from builders import ANY_IMAGES, H100, Object, demand, node

from gpujob.cluster.cache.object_cache import ObjectCache
from gpujob.cluster.cache.watched_kinds import mirrored
from gpujob.cluster.index.cluster_index import ClusterIndex
from gpujob.placement.engine.decide import decide
from gpujob.placement.scoring.candidate import Decision
from gpujob.values.vocabulary import Reason, Verdict


class Clock:
    """A clock that is set by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def versioned(raw: Object, version: int, uid: str = "u1") -> Object:
    return {**raw, "metadata": {**raw["metadata"], "resourceVersion": str(version), "uid": uid}}


def of(raw: Object) -> dict[str, Any]:
    """The node without what GPU Feature Discovery writes."""
    labels = {key: value for key, value in raw["metadata"]["labels"].items() if not key.startswith("nvidia.com/")}
    return {**raw, "metadata": {**raw["metadata"], "labels": labels}}


class Cluster:
    """A index of one node, and what becomes of a job there."""

    def __init__(self) -> None:
        self.clock, self.cache = Clock(), ObjectCache(mirrored("gpujob-runner-x"))
        for kind in self.cache.kinds:
            self.cache.replace(kind, [], "1")
        self.index = ClusterIndex(self.cache, ANY_IMAGES, self.clock)
        self.write(versioned(node("n1", H100), 2))

    def write(self, raw: Object) -> None:
        self.cache.apply("nodes", "MODIFIED" if self.cache.objects("nodes") else "ADDED", raw)
        self.index.take(self.cache.take_changes())

    def decided(self, at: float) -> Decision:
        self.clock.now = at
        self.index.fleet_version()
        return decide(demand(gpuMemory="40G"), self.index.fleet(), self.index.catalog)


def test_a_job_is_placed_while_labels_are_gone_and_no_longer_after_five_minutes() -> None:
    cluster = Cluster()
    assert cluster.decided(-1.0).verdict is Verdict.PLACED
    version = cluster.index.fleet_version()
    cluster.write(versioned(of(node("n1", H100)), 3))
    early = cluster.decided(30.0)
    assert (early.verdict, early.choice and early.choice.nodes) == (Verdict.PLACED, ("n1",))
    assert Reason.LABELS_GONE in {warning.reason for warning in early.candidates[0].warnings}
    assert cluster.index.fleet_version() > version
    version = cluster.index.fleet_version()
    late = cluster.decided(400.0)
    assert late.verdict is Verdict.MISCONFIGURED
    assert Reason.MEM_UNKNOWN in {reason.reason for reason in late.candidates[0].reasons}
    assert cluster.index.fleet_version() != version, "waiting jobs are decided again"


def test_facts_of_a_node_that_was_made_again_are_dropped_at_once() -> None:
    cluster = Cluster()
    assert cluster.decided(-1.0).verdict is Verdict.PLACED
    cluster.write(versioned(of(node("n1", H100)), 3, uid="u2"))
    assert cluster.decided(1.0).verdict is Verdict.MISCONFIGURED
