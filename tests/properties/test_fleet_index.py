"""The fleet that is kept by its changes is the fleet that is read from all objects, after any changes in any order."""

from __future__ import annotations

from typing import Any

from builders import Object, gpupool, pod
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from worlds import admin_pools, good_nodes, odd_nodes

from gpujob.api.manifest import read_gpupool
from gpujob.catalog.load import load_catalog
from gpujob.fleet.claims import AdminPool, admin_pool
from gpujob.fleet.devices import groups_of
from gpujob.fleet.index import FleetIndex
from gpujob.fleet.objects import Node, Pod, Resources, read_node, read_pod
from gpujob.fleet.read import read_fleet
from gpujob.fleet.usage import Promise
from gpujob.vocabulary import Label

CATALOG = load_catalog()
NAMES = [f"n{number}" for number in range(4)]
JOBS = ["job-a", "job-b"]
RESOURCES = ["nvidia.com/gpu", "amd.com/gpu"]

names = st.sampled_from(NAMES)
nodes = names.flatmap(lambda name: st.one_of(good_nodes(name), good_nodes(name), odd_nodes(name)))
growing = st.builds(
    lambda name, label, count: gpupool(
        name, {"pool": label}, accelerator="MI300X", provision={"maxNodes": count, "gpusPerNode": 8}
    ),
    st.sampled_from(["x", "z"]), st.sampled_from(["a", "none"]), st.integers(1, 3),
)  # fmt: skip
gpupools = st.lists(admin_pools() | growing, max_size=3, unique_by=lambda found: found["metadata"]["name"])


@st.composite
def pods(draw: st.DrawFn) -> tuple[tuple[str, str], Object]:
    """A pod, of a job or of anybody, bound or not."""
    name = f"p{draw(st.integers(0, 5))}"
    devices = {draw(st.sampled_from(RESOURCES)): draw(st.sampled_from(["1", "2", "8"]))} if draw(st.booleans()) else {}
    found = pod(
        name, draw(st.sampled_from([*NAMES, "", "gone"])), devices,
        draw(st.sampled_from(["Running", "Pending", "Succeeded"])), cpu=draw(st.sampled_from(["1", "500m"])),
    )  # fmt: skip
    if draw(st.booleans()):
        labels = {Label.JOB_UID: draw(st.sampled_from(JOBS)), Label.ATTEMPT: draw(st.sampled_from(["1", "2"]))}
        found["metadata"]["labels"] = labels
    return ("default", name), found


@st.composite
def promises(draw: st.DrawFn) -> tuple[Promise, ...]:
    """What a child or a placement under way promises: pods on nodes, or on any node of a pool."""
    job, attempt, gpus = draw(st.sampled_from(JOBS)), draw(st.integers(1, 2)), draw(st.sampled_from([1, 2]))
    resource, needs = draw(st.sampled_from(RESOURCES)), Resources(1000, 1024**3, 0, 1)
    namespace = draw(st.sampled_from(["", "default", "other"]))
    if draw(st.booleans()):
        pool = draw(st.sampled_from(["x", "z", "mi300x-ondemand", "none"]))
        count = draw(st.integers(0, 3))
        return tuple(Promise(job, "", resource, gpus, needs, attempt, namespace, pool, i) for i in range(count))
    on = draw(st.lists(names, unique=True, max_size=2))
    return tuple(Promise(job, name, resource, gpus, needs, attempt, namespace, "x") for name in on)


class Fleets(RuleBasedStateMachine):
    """Both ways to a fleet, side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.index = FleetIndex(CATALOG)
        self.nodes: dict[str, Node] = {}
        self.pods: dict[Any, Pod] = {}
        self.admins: list[AdminPool] = []
        self.promises: dict[int, tuple[Promise, ...]] = {}

    @rule(raw=nodes)
    def put_node(self, raw: Object) -> None:
        node = read_node(raw)
        self.nodes[node.name] = node
        self.index.put_node(node, groups_of(node, CATALOG))

    @rule(name=names, cordoned=st.booleans(), ready=st.booleans())
    def change_state(self, name: str, cordoned: bool, ready: bool) -> None:
        if name in self.nodes:
            held = self.nodes[name]
            changed = {field: getattr(held, field) for field in held.__slots__} | {"cordoned": cordoned, "ready": ready}
            self.nodes[name] = Node(**changed)
            self.index.put_node(self.nodes[name], groups_of(self.nodes[name], CATALOG))

    @rule(name=names)
    def drop_node(self, name: str) -> None:
        self.nodes.pop(name, None)
        self.index.drop_node(name)

    @rule(found=pods())
    def put_pod(self, found: tuple[tuple[str, str], Object]) -> None:
        self.pods[found[0]] = read_pod(found[1])
        self.index.put_pod(found[0], self.pods[found[0]])

    @rule(number=st.integers(0, 5))
    def drop_pod(self, number: int) -> None:
        self.pods.pop(("default", f"p{number}"), None)
        self.index.put_pod(("default", f"p{number}"), None)

    @rule(found=gpupools)
    def put_pools(self, found: list[Object]) -> None:
        self.admins = [admin_pool(read_gpupool(raw)) for raw in found]
        self.index.put_admin_pools(self.admins)

    @rule(source=st.integers(0, 2), found=promises())
    def promise(self, source: int, found: tuple[Promise, ...]) -> None:
        self.promises[source] = found
        self.index.put_promises(source, found)

    @invariant()
    def both_fleets_are_equal(self) -> None:
        told = {each.key: each for source in sorted(self.promises) for each in self.promises[source]}
        assert {each.key: each for each in self.index.promised.all()} == told
        kept = self.index.fleet(["nvidia"])
        read = read_fleet(
            self.nodes.values(), self.pods.values(), CATALOG, self.admins, ["nvidia"], told.values()
        )  # fmt: skip
        assert kept == read
        for one, other in zip(kept.pools, read.pools, strict=True):
            assert (one.free, one.total) == (other.free, other.total)
            for gpus in (1, 8):
                assert list(one.stock.with_free(gpus)) == list(other.stock.with_free(gpus))


TestFleets = Fleets.TestCase
TestFleets.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)
