"""The ConfigMaps of earlier versions of the runner: they go when no child of theirs is left, and nothing else does."""

from __future__ import annotations

from typing import Any

import pytest

from gpujob.catalog.files.load import load_catalog
from gpujob.cluster.cache.object_cache import ObjectCache
from gpujob.cluster.cache.watched_kinds import mirrored
from gpujob.cluster.client.api_errors import ApiError, Forbidden, NotFound, TooManyRequests
from gpujob.cluster.controller.runner_configmaps import EarlierRunners
from gpujob.cluster.index.cluster_index import ClusterIndex
from gpujob.cluster.queue.work_queue import ControllerState
from gpujob.cluster.writer.writes import Writer
from gpujob.render.runner import Runner
from gpujob.values.vocabulary import Label

EARLIER, NOW = Runner({"a.py": "x = 1"}), Runner({"a.py": "x = 2"})
PATH = f"/api/v1/namespaces/team/configmaps/{EARLIER.name}"


class Calls:
    """Notes a client's calls, and answers each GET with `answer`."""

    def __init__(self) -> None:
        body = EARLIER.config_map("team")
        body["metadata"]["uid"] = "u"
        self.answer: dict[str, Any] | ApiError = body
        self.made: list[str] = []

    async def get(self, path: str) -> Any:
        self.made.append(f"get {path}")
        if isinstance(self.answer, ApiError):
            raise self.answer
        return self.answer

    async def delete(self, path: str, *, uid: str, propagation: str = "Background") -> Any:
        self.made.append(f"delete {path} {uid}")
        return {"kind": "Status"}


class Room:
    """A cache of child Jobs, and the sweep of what they mounted."""

    def __init__(self) -> None:
        self.cache, self.calls = ObjectCache(mirrored(NOW.name)), Calls()
        self.cache.replace("jobs", [], "1")
        writer = Writer(self.calls, self.cache, lambda: True, "here")  # type: ignore[arg-type]
        self.earlier = EarlierRunners(ControllerState(ClusterIndex(self.cache, load_catalog())), writer, NOW.name)

    def child(self, name: str, version: str, runner: str = EARLIER.name, kind: str = "MODIFIED", **status: Any) -> None:
        volumes = [{"name": "r", "configMap": {"name": runner}}]
        metadata = {"name": name, "namespace": "team", "uid": name, "resourceVersion": version, "labels": {}}
        body = {"metadata": metadata, "spec": {"template": {"spec": {"volumes": volumes}}}, "status": status}
        self.cache.apply("jobs", kind, body)


ENDED = {"conditions": [{"type": "Complete", "status": "True"}]}
REMOVED = [f"get {PATH}", f"delete {PATH} u"]


async def test_it_stays_while_one_child_needs_it_and_goes_once_with_the_last() -> None:
    room = Room()
    room.child("one", "2")
    room.child("two", "3")
    room.child("new", "4", NOW.name)
    await room.earlier.sweep()
    room.child("one", "5", **ENDED)
    await room.earlier.sweep()
    assert room.calls.made == []
    room.child("two", "6", **ENDED)
    for _ in range(3):
        await room.earlier.sweep()
    assert room.calls.made == REMOVED


async def test_it_goes_too_when_its_last_child_is_deleted() -> None:
    room = Room()
    room.child("one", "2")
    await room.earlier.sweep()
    room.child("one", "3", kind="DELETED")
    await room.earlier.sweep()
    assert room.calls.made == REMOVED


async def test_a_child_that_ended_before_the_upgrade_is_enough_to_know_of_it() -> None:
    room = Room()
    room.child("one", "2", **ENDED)
    await room.earlier.sweep()
    assert room.calls.made == REMOVED


@pytest.mark.parametrize("change", ["data", "label", "name"])
async def test_what_is_not_the_runner_is_left_alone(change: str) -> None:
    room = Room()
    name = EARLIER.name
    assert isinstance(room.calls.answer, dict)
    if change == "data":
        room.calls.answer["data"] = {"a.py": "the user's own"}
    elif change == "label":
        del room.calls.answer["metadata"]["labels"][Label.RUNNER]
    else:
        name = "gpujob-runner-of-somebody"
    room.child("one", "2", name, **ENDED)
    for _ in range(2):
        await room.earlier.sweep()
    assert room.calls.made == [f"get /api/v1/namespaces/team/configmaps/{name}"]


@pytest.mark.parametrize(("error", "tries"), [(NotFound, 1), (Forbidden, 1), (TooManyRequests, 2)])
async def test_it_is_asked_for_again_only_after_what_passes(error: type[ApiError], tries: int) -> None:
    room = Room()
    room.calls.answer = error(0, "", "no")
    room.child("one", "2", **ENDED)
    for _ in range(2):
        await room.earlier.sweep()
    assert room.calls.made == [f"get {PATH}"] * tries


async def test_it_is_removed_again_where_an_earlier_version_led_again() -> None:
    room = Room()
    room.child("one", "2", **ENDED)
    await room.earlier.sweep()
    room.child("two", "3")
    await room.earlier.sweep()
    assert room.calls.made == REMOVED
    room.child("two", "4", **ENDED)
    await room.earlier.sweep()
    assert room.calls.made == REMOVED * 2
