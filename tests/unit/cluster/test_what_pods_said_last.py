"""What a pod said last is kept while its child Job is there, even where its last change and its deletion come together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from builders import ANY_IMAGES

from gpujob.cluster.cache.kind_store import MOST_DEPARTED
from gpujob.cluster.cache.object_cache import ObjectCache
from gpujob.cluster.cache.watched_kinds import mirrored
from gpujob.cluster.index.cluster_index import ClusterIndex
from gpujob.cluster.index.owned_objects import DepartedPods
from gpujob.status.records.objects import PodState
from gpujob.status.records.read_objects import read_child, read_pod_record
from gpujob.values.names import child_name
from gpujob.values.vocabulary import Label

DISRUPTED = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}


def child(number: int = 1, uid: str = "c1", version: int = 3, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "name": child_name("j", "u", number), "namespace": "team", "uid": uid, "resourceVersion": str(version),
            "labels": {Label.JOB_UID: "u", Label.ATTEMPT: str(number)},
            "ownerReferences": [{"kind": "GPUJob", "name": "j", "uid": "u", "controller": True}],
        },
        "spec": {"completions": 2, **spec},
    }  # fmt: skip


def pod(
    name: str = "p", version: int = 10, owner: str = "c1", namespace: str = "team", labels: Any = None, **status: Any
) -> dict[str, Any]:
    return {
        "metadata": {
            "name": name, "namespace": namespace, "uid": f"uid-{name}", "resourceVersion": str(version),
            "labels": {Label.JOB_UID: "u"} if labels is None else labels,
            "ownerReferences": [{"kind": "Job", "name": child_name("j", "u", 1), "uid": owner, "controller": True}],
        },
        "spec": {"nodeName": "n1"},
        "status": {"phase": "Running", "containerStatuses": [{"name": "train", "state": {"running": {}}}], **status},
    }  # fmt: skip


def ended(code: int) -> dict[str, Any]:
    train = {"name": "train", "state": {"terminated": {"exitCode": code}}}
    return {"phase": "Failed" if code else "Succeeded", "containerStatuses": [train]}


class Book:
    """An index with a job, its child and some pods; `departed` is what it knows of those that are gone."""

    def __init__(self, *pods: dict[str, Any], job: dict[str, Any] | None = None) -> None:
        self.cache = ObjectCache(mirrored("runner"))
        gpujob = {"metadata": {"name": "j", "namespace": "team", "uid": "u", "resourceVersion": "2"}, "spec": {}}
        held = {"gpujobs": [gpujob], "jobs": [job or child()], "pods": pods}
        for kind in self.cache.kinds:
            self.cache.replace(kind, held.get(kind, ()), "5")
        self.index = ClusterIndex(self.cache, ANY_IMAGES)
        self.take()

    def take(self) -> set[str]:
        return self.index.take(self.cache.take_changes())

    def event(self, kind: str, event: str, obj: dict[str, Any]) -> None:
        self.cache.apply(kind, event, obj)

    @property
    def departed(self) -> list[PodState]:
        found = self.index.child("u")
        return self.index.departed_of(found) if found is not None else []


def goes(book: Book, version: int = 20, **last: Any) -> set[str]:
    """The pod changes for the last time and is deleted, before the index looks."""
    book.event("pods", "MODIFIED", pod(version=version, **last))
    book.event("pods", "DELETED", pod(version=version + 1, **last))
    return book.take()


@pytest.mark.parametrize(
    "last",
    [{"conditions": [DISRUPTED]}, ended(3), {"phase": "Failed", "reason": "Evicted"}, {"phase": "Failed"}],
    ids=["disrupted", "exit code", "evicted", "failed"],
)
def test_the_last_change_is_kept_where_the_deletion_follows_before_a_look(last: dict[str, Any]) -> None:
    book = Book(pod())
    assert goes(book, **last) == {"u"}
    (kept,) = book.departed
    assert (kept.name, kept.gone) == ("p", True)
    assert kept == read_state(pod(version=20, **last), gone=True)
    assert book.index.pods_of(book.index.jobs["u"]) == []


def read_state(raw: dict[str, Any], *, gone: bool) -> PodState:
    state = read_pod_record(raw).state
    assert state is not None
    return replace(state, gone=gone)


def test_a_list_without_the_pod_keeps_what_was_seen_last() -> None:
    book = Book(pod(conditions=[DISRUPTED]))
    book.cache.replace("pods", (), "50")
    assert book.take() == {"u"}
    assert [each.disruption for each in book.departed] == ["PreemptionByScheduler"]


@pytest.mark.parametrize(
    "last",
    [
        {},
        ended(0),
        {"conditions": [DISRUPTED], "owner": "another"},
        {"conditions": [DISRUPTED], "namespace": "other"},
    ],
    ids=["it ran", "ended well", "of another Job", "in another namespace"],
)
def test_what_says_nothing_of_an_end_or_is_not_of_a_child_is_not_kept(last: dict[str, Any]) -> None:
    book = Book(pod(**last))
    book.cache.replace("pods", (), "50")
    book.take()
    assert book.departed == []


def test_a_pod_whose_label_was_taken_off_is_kept_too() -> None:
    book = Book(pod(conditions=[DISRUPTED], labels={}))
    book.cache.replace("pods", (), "50")
    book.take()
    assert [each.disruption for each in book.departed] == ["PreemptionByScheduler"]


def test_it_is_kept_as_long_as_the_child_is_there() -> None:
    book = Book(pod())
    goes(book, conditions=[DISRUPTED])
    book.event("jobs", "MODIFIED", child(version=30))
    book.take()
    assert len(book.departed) == 1
    book.event("jobs", "DELETED", child(version=31))
    book.take()
    book.event("jobs", "ADDED", child(uid="c2", version=32))
    book.take()
    assert (book.departed, book.index._departed._count, book.index._departed._by_child) == ([], 0, {})


def test_a_child_that_is_suspended_ends_its_pods_itself() -> None:
    book = Book(pod())
    goes(book, conditions=[DISRUPTED])
    book.event("jobs", "MODIFIED", child(version=30, suspend=True))
    book.take()
    assert book.departed == []
    book.event("pods", "ADDED", pod("q", version=40))
    book.event("pods", "MODIFIED", pod("q", version=41, **ended(143)))
    book.event("pods", "DELETED", pod("q", version=42))
    book.take()
    assert book.departed == []


def test_the_number_of_pods_is_bounded() -> None:
    kept = DepartedPods(most=3)
    first, second = read_child(child()), read_child(child(2, uid="c2"))
    for number in range(2):
        kept.put(read_state(pod(f"p{number}", **ended(1)), gone=False), first)
        kept.put(read_state(pod(f"p{number}", **ended(2)), gone=False), first)
    assert [each.exit_code for each in kept.of(first)] == [2, 2]
    for number in range(2):
        kept.put(read_state(pod(f"q{number}", owner="c2", **ended(1)), gone=False), second)
    assert (kept.of(first), len(kept.of(second))) == ([], 2)


def test_pods_that_nobody_takes_are_bounded_too() -> None:
    cache = ObjectCache(mirrored("runner"))
    cache.replace("pods", [pod(f"p{number}", **ended(1)) for number in range(MOST_DEPARTED + 5)], "5")
    cache.replace("pods", (), "6")
    assert len(cache.take_departed("pods")) == MOST_DEPARTED
    assert cache.take_departed("pods") == {}
