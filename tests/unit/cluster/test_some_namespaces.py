"""An operator of some namespaces: each is listed and watched for itself, and readers see one kind."""

from __future__ import annotations

from typing import Any

import pytest

from gpujob.cluster.app.settings import read_settings
from gpujob.cluster.cache.object_cache import Kind, ObjectCache
from gpujob.cluster.cache.watched_kinds import mirrored
from gpujob.cluster.client.paths import Resource
from gpujob.values.errors import BadInput

JOBS = Resource("batch", "v1", "jobs")
A, B = (Kind("jobs", JOBS, namespace=namespace) for namespace in ("a", "b"))


def job(namespace: str, name: str, version: int) -> dict[str, Any]:
    return {
        "metadata": {
            "namespace": namespace,
            "name": name,
            "uid": f"{namespace}-{name}",
            "resourceVersion": str(version),
        }
    }


def both() -> ObjectCache:
    cache = ObjectCache([A, B])
    cache.replace(A.scope, [job("a", "x", 1)], "10")
    cache.replace(B.scope, [job("b", "x", 2)], "10")
    return cache


def names(cache: ObjectCache) -> set[tuple[str, str]]:
    return set(cache.objects("jobs"))


def test_each_namespace_has_a_path_of_its_own() -> None:
    assert (A.path, B.path) == ("/apis/batch/v1/namespaces/a/jobs", "/apis/batch/v1/namespaces/b/jobs")
    assert Kind("jobs", JOBS).path == "/apis/batch/v1/jobs"


def test_the_cache_is_complete_when_every_namespace_was_listed() -> None:
    cache = ObjectCache([A, B])
    cache.replace(A.scope, [], "10")
    assert not cache.complete
    cache.replace(B.scope, [], "10")
    assert cache.complete


def test_a_list_of_one_namespace_leaves_the_others_alone() -> None:
    cache = both()
    assert names(cache) == {("a", "x"), ("b", "x")}
    assert cache.take_changes() == {"jobs": {("a", "x"), ("b", "x")}}
    before = cache.version("jobs")
    cache.replace(A.scope, [job("a", "y", 30)], "40")
    assert names(cache) == {("a", "y"), ("b", "x")}
    assert cache.take_changes() == {"jobs": {("a", "x"), ("a", "y")}}
    assert cache.version("jobs") > before


def test_the_versions_of_one_namespace_say_nothing_of_an_own_write_in_another() -> None:
    cache = both()
    cache.bookmark(A.scope, "1000")
    cache.note_written("jobs", job("b", "mine", 500))
    assert ("b", "mine") in names(cache)
    cache.note_written("jobs", job("a", "late", 500))
    assert ("a", "late") not in names(cache)
    cache.note_deleted("jobs", "b", "mine", "b-mine")
    assert names(cache) == {("a", "x"), ("b", "x")}


def test_what_is_not_followed_is_told() -> None:
    cache = both()
    assert [cache.follows("jobs", namespace) for namespace in ("a", "b", "c")] == [True, True, False]
    whole = ObjectCache([Kind("jobs", JOBS)])
    assert whole.follows("jobs", "c")
    assert not whole.follows("pods", "c")


def test_an_optional_kind_that_one_namespace_hides_is_unknown() -> None:
    cache = both()
    assert cache.unknown(B.scope, "no right")
    assert cache.unread == {"jobs": "no right"}
    assert names(cache) == {("a", "x")}
    cache.replace(B.scope, [job("b", "x", 50)], "60")
    assert cache.unread == {}


def test_the_fleet_is_followed_everywhere_and_jobs_in_their_namespaces() -> None:
    kinds = mirrored("runner", ("a", "b"))
    of: dict[str, list[str]] = {}
    for kind in kinds:
        of.setdefault(kind.key, []).append(kind.namespace)
    whole = {key for key, namespaces in of.items() if namespaces == [""]}
    assert whole == {
        "nodes", "pods", "gpupools", "gpuruntimes", "runtimeclasses", "persistentvolumes", "priorityclasses", "storageclasses",
        "namespaces", "resourceslices", "resourceclaims", "deviceclasses", "devicetaintrules",
    }  # fmt: skip
    assert all(namespaces == ["a", "b"] for key, namespaces in of.items() if key not in whole)
    assert len({kind.scope for kind in kinds}) == len(kinds)
    assert {kind.key for kind in mirrored("runner")} == of.keys()
    assert {kind.namespace for kind in mirrored("runner")} == {""}


@pytest.mark.parametrize(("text", "names"), [("", ()), ("a", ("a",)), (" b , a,b,", ("b", "a"))])
def test_the_namespaces_are_a_setting(text: str, names: tuple[str, ...]) -> None:
    assert read_settings({"GPUJOB_WATCH_NAMESPACES": text}).watch_namespaces == names


@pytest.mark.parametrize("text", ["A", "a b", "a/b", "../x", "-a", "x" * 64])
def test_what_is_no_namespace_is_refused(text: str) -> None:
    sentence = (
        f"GPUJOB_WATCH_NAMESPACES: {text[:63]!r} is not the name of a namespace; write names with commas between them"
    )
    with pytest.raises(BadInput) as told:
        read_settings({"GPUJOB_WATCH_NAMESPACES": text})
    assert str(told.value) == sentence
