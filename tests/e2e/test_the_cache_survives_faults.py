"""The cache equals a fresh list after a dead network and a restarted API server; the Lease never has two holders.

Against a real API server of its own, on which nothing else runs, for it is killed in the middle.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from gpujob.cluster.cache.object_cache import Kind, ObjectCache
from gpujob.cluster.cache.object_key import Key
from gpujob.cluster.cache.reflector import WatchHealth, WatchTimings, mirror_all
from gpujob.cluster.client.api_errors import AlreadyExists, Conflict, NotFound
from gpujob.cluster.client.client import ApiClient
from gpujob.cluster.client.kubeconfig import Connection, connection_from_kubeconfig
from gpujob.cluster.client.paths import Resource
from gpujob.cluster.client.rate_limit import Patience
from gpujob.cluster.client.transport import CONNECT_TIMEOUT
from gpujob.cluster.election.election import LEASES, Leadership, LeaseTimings
from tests.e2e.cluster import Cluster, down, restart_component, simulated_nodes, up
from tests.e2e.tcp_proxy import TcpProxy

pytestmark = pytest.mark.e2e

NODES = Kind("nodes", Resource("", "v1", "nodes", namespaced=False))
PODS = Kind("pods", Resource("", "v1", "pods"))
JOBS = Kind("jobs", Resource("batch", "v1", "jobs"), {"labelSelector": "gpujob.dev/mirrored=yes"})
KINDS = (NODES, PODS, JOBS)

# A twentieth of the defaults, so that a minute of silence takes seconds here; small pages, so that lists have several.
QUICK = WatchTimings(silence=3.0, backoff_least=0.05, backoff_most=0.75, page=3)
CONNECT = 0.5
# What the defaults promise (75 s), in the same measure, and as much again for a busy machine.
HEALED_WITHIN = 2 * (QUICK.silence + CONNECT)
LEASE = LeaseTimings(duration=4, deadline=2.5, renew_every=0.5, retry_every=0.3)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder: Path = tmp_path_factory.mktemp("faults") / "cluster"
    try:
        yield up(folder, which="binaries")
    finally:
        down(folder)


@dataclass
class World:
    """A cache behind a proxy, and a client that is not."""

    direct: ApiClient
    cache: ObjectCache
    health: WatchHealth
    proxied: ApiClient
    proxy: TcpProxy

    async def fresh(self, kind: Kind) -> dict[Key, str]:
        """What a list says now: each object's uid and version."""
        found = {}
        async for page in self.direct.list_paged(kind.resource.path(), kind.params):
            for item in page["items"]:
                metadata = item["metadata"]
                key = (metadata.get("namespace", ""), metadata["name"])
                found[key] = f"{metadata['uid']}@{metadata['resourceVersion']}"
        return found

    def held(self, kind: Kind) -> dict[Key, str]:
        """What the cache says, in the same form."""
        return {
            key: f"{obj['metadata']['uid']}@{obj['metadata']['resourceVersion']}"
            for key, obj in self.cache.objects(kind.key).items()
        }

    async def differences(self) -> dict[str, set[tuple[Key, str]]]:
        return {
            kind.key: gap
            for kind in KINDS
            if (gap := set(self.held(kind).items()) ^ set((await self.fresh(kind)).items()))
        }

    async def until_equal(self, timeout: float) -> float:
        """Waits until the cache equals a fresh list of every kind; gives the seconds that it took."""
        began, gaps = time.monotonic(), {}
        while time.monotonic() - began < timeout:
            gaps = await self.differences()
            if not gaps:
                return time.monotonic() - began
            await asyncio.sleep(0.02)
        raise AssertionError(f"after {timeout:g} s the cache still differs from a fresh list: {gaps}")


def silent_longest(health: WatchHealth) -> float:
    """Seconds since the last byte of the kind that has been silent longest."""
    return max(health.age(kind.key, time.monotonic()) for kind in KINDS)


async def until(condition: Callable[[], bool], timeout: float = 60.0) -> None:
    async with asyncio.timeout(timeout):
        while not condition():
            await asyncio.sleep(0.01)


@asynccontextmanager
async def behind_proxy(cluster: Cluster) -> AsyncIterator[tuple[TcpProxy, Connection]]:
    connection = connection_from_kubeconfig(cluster.kubeconfig)
    address = urlsplit(connection.server)
    assert address.hostname is not None
    assert address.port is not None
    async with TcpProxy(address.hostname, address.port) as proxy:
        yield proxy, replace(connection, server=f"https://127.0.0.1:{proxy.port}")


@asynccontextmanager
async def mirrored(cluster: Cluster) -> AsyncIterator[World]:
    cache, health = ObjectCache(KINDS), WatchHealth(kind.key for kind in KINDS)
    async with (
        behind_proxy(cluster) as (proxy, proxied),
        ApiClient(proxied, connect_timeout=CONNECT) as client,
        ApiClient(connection_from_kubeconfig(cluster.kubeconfig)) as direct,
    ):
        watching = asyncio.create_task(mirror_all(client, KINDS, cache, health, timings=QUICK))
        try:
            yield World(direct, cache, health, client, proxy)
        finally:
            assert not watching.done(), watching
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)


def pod(name: str, node: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {
            "nodeName": node,
            "containers": [{"name": "train", "image": "none"}],
            "tolerations": [{"operator": "Exists"}],
            "terminationGracePeriodSeconds": 0,
        },
    }


def job(name: str) -> dict[str, Any]:
    template = {"spec": {**pod(name, "a100-0")["spec"], "restartPolicy": "Never"}}
    return {"metadata": {"name": name, "labels": {"gpujob.dev/mirrored": "yes"}}, "spec": {"template": template}}


async def create_all(client: ApiClient) -> None:
    for node in simulated_nodes({"a100": 2, "mi210": 2}):
        await client.create(NODES.resource.path(), node)
    for index in range(8):
        await client.create(PODS.resource.path("default"), pod(f"p{index}", ["a100-0", "mi210-1"][index % 2]))
    for name in ("j0", "j1", "j2", "j3"):
        await client.create(JOBS.resource.path("default"), job(name))


async def delete(client: ApiClient, kind: Kind, name: str) -> None:
    path = kind.resource.path("default" if kind.resource.namespaced else None, name)
    with suppress(NotFound):
        await client.delete(path, uid=(await client.get(path))["metadata"]["uid"])


async def until_gone(world: World, kind: Kind, names: set[str]) -> None:
    async with asyncio.timeout(60):
        while names & {name for _, name in await world.fresh(kind)}:
            await asyncio.sleep(0.05)


async def test_the_mirror_equals_a_fresh_list_after_a_dead_network_and_a_restarted_api_server(cluster: Cluster) -> None:
    async with mirrored(cluster) as world:
        await until(lambda: world.cache.complete)
        await create_all(world.direct)
        await world.until_equal(15)

        world.proxy.freeze()
        relists = world.health.relists.total()
        doomed = {"p0", "p1", "p2", "p3"}
        for name in doomed:
            await delete(world.direct, PODS, name)
        await delete(world.direct, NODES, "a100-1")
        await delete(world.direct, JOBS, "j0")
        await world.direct.create(PODS.resource.path("default"), pod("late", "mi210-0"))
        await until_gone(world, PODS, doomed)
        await asyncio.to_thread(restart_component, cluster.dir, "kube-apiserver")
        await delete(world.direct, PODS, "p4")
        # Made again under its name: the same key, another object.
        await until_gone(world, PODS, {"p4"})
        await world.direct.create(PODS.resource.path("default"), pod("p4", "mi210-1"))

        await until(lambda: world.health.silences.total() + world.health.failures.total() > 2 * len(KINDS))
        ghosts = {name for _, name in world.cache.objects("pods")} & doomed
        assert ghosts == doomed, "a dead network reports nothing, so the fault was really there"
        assert silent_longest(world.health) > QUICK.silence

        world.proxy.heal()
        await world.until_equal(HEALED_WITHIN)
        assert world.cache.get("nodes", None, "a100-1") is None
        assert world.cache.get("pods", "default", "late") is not None
        assert world.health.relists.total() > relists, "a restarted API server has forgotten our versions"
        assert silent_longest(world.health) <= 2 * QUICK.silence

        await world.direct.create(PODS.resource.path("default"), pod("after", "mi210-0"))
        await world.until_equal(15)
        assert world.cache.get("pods", "default", "after") is not None
        assert world.proxied.writes.total() == 0


async def test_connections_that_are_reset_lose_nothing_and_list_nothing(cluster: Cluster) -> None:
    async with mirrored(cluster) as world:
        await until(lambda: world.cache.complete)
        await world.until_equal(15)
        lists = world.health.relists.total()
        for index in range(5):
            world.proxy.cut()
            await world.direct.create(PODS.resource.path("default"), pod(f"cut{index}", "mi210-0"))
            await world.until_equal(15)
        assert world.health.relists.total() == lists


async def test_our_own_writes_are_in_the_mirror_before_any_event_and_agree_with_it(cluster: Cluster) -> None:
    async with mirrored(cluster) as world:
        await until(lambda: world.cache.complete)
        made = await world.direct.create(PODS.resource.path("default"), pod("mine", "mi210-0"))
        world.cache.note_written("pods", made)
        assert world.cache.get("pods", "default", "mine") is not None
        path, uid = PODS.resource.path("default", "mine"), made["metadata"]["uid"]
        with pytest.raises(AlreadyExists):
            await world.direct.create(PODS.resource.path("default"), pod("mine", "mi210-0"))
        with pytest.raises(Conflict):
            await world.direct.delete(path, uid="00000000-0000-0000-0000-000000000000")
        world.cache.note_deleted("pods", "default", "mine", uid, await world.direct.delete(path, uid=uid))
        await until(lambda: world.cache.get("pods", "default", "mine") is None)
        await world.until_equal(15)


async def test_a_frozen_leader_is_fenced_before_another_takes_over_and_a_clean_stop_hands_over_at_once(
    cluster: Cluster,
) -> None:
    async with (
        behind_proxy(cluster) as (proxy, behind),
        ApiClient(behind, connect_timeout=CONNECT) as first_client,
        ApiClient(connection_from_kubeconfig(cluster.kubeconfig)) as second_client,
    ):
        lost: list[float] = []
        first = Leadership(
            first_client, "default", "gpujob", "first", timings=LEASE, on_lost=lambda: lost.append(time.monotonic())
        )
        second = Leadership(second_client, "default", "gpujob", "second", timings=LEASE)
        tasks = [asyncio.create_task(first.run())]
        try:
            await until(first.is_leader)
            tasks.append(asyncio.create_task(second.run()))
            await until(lambda: first_client.writes.total() >= 3)
            assert not second.is_leader()

            proxy.freeze()
            frozen = time.monotonic()
            async with asyncio.timeout(60):
                while not second.is_leader():
                    await asyncio.sleep(0.01)
            took = time.monotonic()
            assert not first.is_leader()
            assert len(lost) == 1
            assert lost[0] < took
            assert took - frozen < LEASE.duration + 2

            proxy.heal()
            # It reads again, sees the other, and stays silent.
            await until(lambda: first_client.requests[("get", "leases", 200)] >= 3)
            assert not first.is_leader()
            assert second.is_leader()

            released = time.monotonic()
            tasks[1].cancel()
            await until(first.is_leader)
            assert time.monotonic() - released < LEASE.duration / 2
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        lease = await second_client.get(LEASES.path("default", "gpujob"), patience=Patience())
        assert not lease["spec"].get("holderIdentity")
        assert {resource for _, resource in first_client.writes} == {"leases"}


def test_what_operators_get_by_default_is_75_s_for_a_silent_watch() -> None:
    assert (WatchTimings().silence, WatchTimings().silence + CONNECT_TIMEOUT) == (65, 75)
    assert LeaseTimings() == LeaseTimings(duration=15, deadline=10, renew_every=5)
