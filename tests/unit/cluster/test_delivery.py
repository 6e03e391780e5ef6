"""The runner's ConfigMap in a namespace: one write, compared each time, removed when no child needs it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gpujob.catalog.files.load import load_catalog
from gpujob.cluster.cache.object_cache import ObjectCache
from gpujob.cluster.cache.watched_kinds import RunnerMap, mirrored
from gpujob.cluster.client.api_errors import Conflict, Forbidden
from gpujob.cluster.controller.runner_configmaps import RunnerConfigMaps
from gpujob.cluster.index.cluster_index import ClusterIndex
from gpujob.cluster.queue.work_queue import ControllerState
from gpujob.cluster.writer.child_errors import ChildNotCreated, ChildRefused
from gpujob.cluster.writer.writes import NameConflict, Writer
from gpujob.lifecycle.timings import Timings
from gpujob.render.runner import Runner
from gpujob.values.names import child_name
from gpujob.values.vocabulary import Label

RUNNER = Runner({"gpujob_runner/__init__.py": "x = 1"})
UNUSED_AFTER = Timings().runner_unused
FOREIGN = r"^a ConfigMap gpujob-runner-\w+ exists in namespace team whose content is not this operator's; nothing of it is run"


def held(**changes: Any) -> dict[str, Any]:
    body = RUNNER.config_map("team")
    body["metadata"] |= {"uid": "u", "resourceVersion": "5"}
    return {**body, **changes}


class Server:
    """Answers a client's calls as given, and counts them."""

    def __init__(self, answer: Any) -> None:
        self.answer, self.calls = answer, list[str]()

    async def patch(self, path: str, body: Any, kind: str = "", *, params: Any = None, patience: Any = None) -> Any:
        self.calls.append(f"apply {path} {params['fieldManager']}")
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def delete(self, path: str, *, uid: str, propagation: str = "Background") -> Any:
        self.calls.append(f"delete {path} {uid}")
        return {"kind": "Status"}


class Room:
    """A cache, a server and the delivery between them, with a clock of its own."""

    def __init__(self, answer: Any = None, there: list[dict[str, Any]] | None = None) -> None:
        self.cache, self.server, self.now = ObjectCache(mirrored(RUNNER.name)), Server(answer or held()), 0.0
        self.cache.replace("configmaps", there or [], "4")
        self.work = ControllerState(ClusterIndex(self.cache, load_catalog()))
        writer = Writer(self.server, self.cache, lambda: True, "here")  # type: ignore[arg-type]
        self.delivery = RunnerConfigMaps(self.work, writer, RUNNER, lambda: self.now)

    def child(self, name: str = "j-1", runner: str = RUNNER.name, version: str = "6", **status: Any) -> None:
        """The child of a GPUJob of this name."""
        job = {"name": name, "namespace": "team", "uid": name, "resourceVersion": "5"}
        self.cache.apply("gpujobs", "ADDED", {"metadata": job, "spec": {}})
        volumes = [{"name": "r", "configMap": {"name": runner}}]
        metadata = {
            "name": child_name(name, name, 1), "namespace": "team", "uid": name, "resourceVersion": version,
            "labels": {Label.ATTEMPT: "1"}, "ownerReferences": [{"uid": name, "controller": True}],
        }  # fmt: skip
        body = {"metadata": metadata, "spec": {"template": {"spec": {"volumes": volumes}}}, "status": status}
        self.cache.apply("jobs", "MODIFIED", body)
        self.work.index.take(self.cache.take_changes())


async def test_the_first_job_of_a_namespace_costs_one_write_and_the_next_none() -> None:
    room = Room()
    await room.delivery.ensure("team")
    await room.delivery.ensure("team")
    assert room.server.calls == [f"apply /api/v1/namespaces/team/configmaps/{RUNNER.name} gpujob-operator"]


@pytest.mark.parametrize(("leads", "complete", "swept"), [(True, True, 1), (False, True, 0), (True, False, 0)])
async def test_a_leader_with_a_complete_cache_sweeps(
    monkeypatch: pytest.MonkeyPatch, leads: bool, complete: bool, swept: int
) -> None:
    room, passes = Room(), list[float]()

    async def once(seconds: float) -> None:
        passes.append(seconds)
        if len(passes) > 1:
            raise asyncio.CancelledError

    monkeypatch.setattr(asyncio, "sleep", once)
    monkeypatch.setattr(ObjectCache, "complete", complete)
    room.child()
    with pytest.raises(asyncio.CancelledError):
        await room.delivery.run(lambda: leads)
    assert len(room.server.calls) == swept
    assert passes == [room.work.timings.runner_every] * 2


@pytest.mark.parametrize(
    "other",
    [
        {"data": {"gpujob_runner-__init__.py": "import evil"}},
        {"data": {**RUNNER.data, "more.py": ""}},
        {"binaryData": {"more.py": ""}},
        {"immutable": False},
        {"data": None},
    ],
)
async def test_other_contents_are_never_run(other: dict[str, Any]) -> None:
    with pytest.raises(NameConflict, match=FOREIGN):
        await Room(there=[held(**other)]).delivery.ensure("team")
    with pytest.raises(NameConflict, match=FOREIGN):
        await Room(answer=held(**other)).delivery.ensure("team")


async def test_a_name_that_somebody_else_fills_is_a_conflict_and_a_ban_is_told() -> None:
    words = 'Apply failed with 1 conflict: conflict with "kubectl": .data.a'
    causes = {"causes": [{"reason": "FieldManagerConflict", "message": words, "field": ".data.a"}]}
    with pytest.raises(NameConflict, match=FOREIGN):
        await Room(answer=Conflict(409, "Conflict", words, causes)).delivery.ensure("team")
    with pytest.raises(ChildNotCreated, match="cannot be fulfilled"):
        await Room(answer=Conflict(409, "Conflict", "cannot be fulfilled")).delivery.ensure("team")
    with pytest.raises(ChildRefused, match="forbidden"):
        await Room(answer=Forbidden(403, "Forbidden", "forbidden")).delivery.ensure("team")


async def test_it_goes_a_while_after_its_last_child() -> None:
    room = Room(there=[held()])
    room.child()
    for _ in range(3):
        room.now += UNUSED_AFTER
        await room.delivery.sweep()
    assert room.server.calls == []
    room.child(version="7", conditions=[{"type": "Complete", "status": "True"}])
    await room.delivery.sweep()
    room.now += UNUSED_AFTER - 1
    await room.delivery.sweep()
    assert room.server.calls == []
    room.now += 1
    await room.delivery.sweep()
    assert room.server.calls == [f"delete /api/v1/namespaces/team/configmaps/{RUNNER.name} u"]
    assert room.cache.get("configmaps", "team", RUNNER.name) is None


async def test_a_placement_under_way_keeps_it() -> None:
    room = Room(there=[held()])
    await room.delivery.sweep()
    room.now += UNUSED_AFTER
    room.work.tasks["a job that the cache has not shown yet"] = None  # type: ignore[assignment]
    await room.delivery.sweep()
    assert room.server.calls == []


async def test_what_is_anothers_is_left_alone() -> None:
    room = Room(there=[held(data={"a": "b"})])
    for _ in range(3):
        await room.delivery.sweep()
        room.now += UNUSED_AFTER
    assert room.server.calls == []


async def test_what_somebody_deletes_under_a_running_child_is_made_again() -> None:
    room = Room()
    room.child()
    room.child("other", runner="gpujob-runner-of-another-version")
    await room.delivery.sweep()
    assert room.server.calls == [f"apply /api/v1/namespaces/team/configmaps/{RUNNER.name} gpujob-operator"]


def test_any_object_of_its_name_is_read() -> None:
    for data in (None, {}, {"a": "b"}):
        assert RunnerMap({"metadata": {"name": RUNNER.name}, "data": data}).ready is False


def test_nothing_of_the_reporters_folder_is_on_the_operators_own_path() -> None:
    import sys

    assert not [path for path in sys.path if Path(path).name == "onpath"]
