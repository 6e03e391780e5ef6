"""The operator takes a node on which several jobs failed after all others, as long as that is not long ago."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from builders import ANY_IMAGES, H100, demand, node

from gpujob.cluster.cache.object_cache import ObjectCache
from gpujob.cluster.cache.watched_kinds import mirrored
from gpujob.cluster.index.cluster_index import ClusterIndex
from gpujob.placement.engine.decide import decide

BEGAN = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Cluster:
    """Two equal nodes, a and b."""

    def __init__(self) -> None:
        self.seconds, self.version, self.cache = 0.0, 1, ObjectCache(mirrored("gpujob-runner-x"))
        for kind in self.cache.kinds:
            self.cache.replace(kind, [], "1")
        wall = lambda: BEGAN + timedelta(seconds=self.seconds)  # noqa: E731
        self.index = ClusterIndex(self.cache, ANY_IMAGES, lambda: self.seconds, wall)
        for name in ("a", "b"):
            self.write("nodes", "ADDED", node(name, H100))

    def write(self, kind: str, event: str, raw: Any) -> None:
        self.version += 1
        metadata = {"uid": f"u-{raw['metadata']['name']}", **raw["metadata"], "resourceVersion": str(self.version)}
        self.cache.apply(kind, event, {**raw, "metadata": metadata})
        self.index.take(self.cache.take_changes())

    def fails(self, name: str, on: str, event: str = "ADDED") -> None:
        entry = {"name": on, "until": "2026-01-01T12:00:00Z", "attempt": 1, "reason": "NodeLost"}
        job = {"apiVersion": "gpujob.dev/v1alpha1", "kind": "GPUJob", "metadata": {"name": name, "namespace": "team"},
               "spec": {}, "status": {"excludedNodes": [entry]}}  # fmt: skip
        self.write("gpujobs", event, job)

    def takes(self) -> tuple[str, ...]:
        self.index.fleet_version()
        choice = decide(demand(gpusPerNode=8), self.index.fleet(), self.index.catalog).choice
        return choice.nodes if choice else ()


def test_two_jobs_that_failed_there_make_it_the_last_choice_for_an_hour_at_most() -> None:
    cluster = Cluster()
    assert cluster.takes() == ("a",)
    cluster.fails("one", "a")
    assert cluster.takes() == ("a",)
    version = cluster.index.fleet_version()
    cluster.fails("two", "a")
    assert cluster.index.fleet_version() != version
    assert cluster.takes() == ("b",)
    cluster.seconds = 1400.0
    assert cluster.takes() == ("b",)
    version = cluster.index.fleet_version()
    cluster.seconds = 1600.0
    assert cluster.index.fleet_version() != version, "waiting jobs are decided again"
    assert cluster.takes() == ("a",)


def test_it_is_forgotten_with_the_jobs() -> None:
    cluster = Cluster()
    cluster.fails("one", "a")
    cluster.fails("two", "a")
    assert cluster.takes() == ("b",)
    cluster.fails("two", "a", event="DELETED")
    assert cluster.takes() == ("a",)


def test_maintenance_is_planned_until_its_time_is_past() -> None:
    cluster = Cluster()
    label = "cloud.google.com/scheduled-maintenance-time"
    at = int((BEGAN + timedelta(seconds=600)).timestamp())
    cluster.write("nodes", "MODIFIED", node("a", H100, labels={label: str(at)}))
    assert cluster.takes() == ("b",)
    version = cluster.index.fleet_version()
    cluster.seconds = 599.0
    assert (cluster.index.fleet_version(), cluster.takes()) == (version, ("b",))
    cluster.seconds = 600.0
    assert cluster.index.fleet_version() != version, "waiting jobs are decided again"
    assert cluster.takes() == ("a",)
    cluster.write("nodes", "MODIFIED", node("b", H100, labels={label: "1500000000"}))
    assert cluster.takes() == ("a",)


def test_a_plan_of_a_suspect_node_is_past_before_the_suspicion_is() -> None:
    cluster = Cluster()
    at = int((BEGAN + timedelta(seconds=60)).timestamp())
    planned = node("a", H100, labels={"cloud.google.com/scheduled-maintenance-time": str(at)})
    cluster.write("nodes", "MODIFIED", planned)
    cluster.fails("one", "a")
    cluster.fails("two", "a")
    (there,) = (each for pool in cluster.index.fleet().pools for each in pool.nodes if each.name == "a")
    assert (bool(there.planned), bool(there.suspected)) == (True, True)
    cluster.seconds = 61.0
    cluster.index.fleet_version()
    (there,) = (each for pool in cluster.index.fleet().pools for each in pool.nodes if each.name == "a")
    assert (bool(there.planned), bool(there.suspected)) == (False, True)
    cluster.seconds = 1600.0
    cluster.index.fleet_version()
    (there,) = (each for pool in cluster.index.fleet().pools for each in pool.nodes if each.name == "a")
    assert (bool(there.planned), bool(there.suspected)) == (False, False)
