"""The fleet that is kept by its changes is the fleet that is read from all objects, after any changes in any order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from builders import Object, device_class, gpupool, node, pod, resource_claim, resource_slice, taint_rule
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from worlds import admin_pools, good_nodes, odd_nodes

from gpujob.api.manifest import read_gpupool
from gpujob.catalog.files.load import load_catalog
from gpujob.fleet.assembly.usage import PodReservation
from gpujob.fleet.devices.from_slices import with_slices
from gpujob.fleet.devices.group import DeviceGroup, groups_of
from gpujob.fleet.dra.device_taints import read_rule
from gpujob.fleet.dra.inventory import Inventory, read_inventory
from gpujob.fleet.dra.resource_slices import read_claim, read_class, read_slice
from gpujob.fleet.gpupools.selection import AdminPool, admin_pool
from gpujob.fleet.kubernetes.objects import Node, Pod, Resources
from gpujob.fleet.kubernetes.parse import read_node, read_pod
from gpujob.fleet.kubernetes.runtime_classes import RuntimeClass
from gpujob.fleet.sources.build import read_fleet
from gpujob.fleet.sources.incremental import FleetIndex
from gpujob.values.vocabulary import Label

CATALOG = load_catalog()
NAMES = [f"n{number}" for number in range(4)]
JOBS = ["job-a", "job-b"]
RESOURCES = ["nvidia.com/gpu", "amd.com/gpu"]
claims = st.sampled_from(["data", "cache"])

names = st.sampled_from(NAMES)
linked = st.builds(
    lambda name, label, hca: node(name, labels={"pool": label, "leaf": label}, allocatable={"rdma/hca": hca}),
    names, st.sampled_from(["a", "b"]), st.integers(0, 2),
)  # fmt: skip
nodes = linked | names.flatmap(lambda name: st.one_of(good_nodes(name), good_nodes(name), odd_nodes(name)))
growing = st.builds(
    lambda name, label, count: gpupool(
        name, {"pool": label}, accelerator="MI300X", provision={"maxNodes": count, "gpusPerNode": 8}
    ),
    st.sampled_from(["x", "z"]), st.sampled_from(["a", "none"]), st.integers(1, 3),
)  # fmt: skip
handing_out = st.builds(
    lambda name, label, mode, more: gpupool(
        name, {"pool": label}, accelerator="MI300X",
        fabric={"resources": {"rdma/hca": "1"}, "topologyKey": "leaf"}, **mode, **more,
    ),
    st.sampled_from(["x", "z"]), st.sampled_from(["a", "b", "none"]),
    st.sampled_from([{"deviceMode": "HostDevices", "gpusPerNode": 8}, {"deviceMode": "DRA"}, {}]),
    st.sampled_from([{"namespaceSelector": {"matchLabels": {"team": "a"}}}, {}]),
)  # fmt: skip
gpupools = st.lists(
    admin_pools() | growing | handing_out, max_size=3, unique_by=lambda found: found["metadata"]["name"]
)


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
        found["spec"]["volumes"] = [{"name": "d", "hostPath": {"path": draw(st.sampled_from(["/dev/kfd", "/data"]))}}]
    if draw(st.booleans()):
        claim = {"name": "c", "persistentVolumeClaim": {"claimName": draw(claims)}}
        found["spec"]["volumes"] = [*found["spec"].get("volumes", ()), claim]
    if draw(st.booleans()):
        found["spec"]["containers"][0]["resources"]["requests"]["rdma/hca"] = "1"
    if draw(st.booleans()):
        labels = {Label.JOB_UID: draw(st.sampled_from(JOBS)), Label.ATTEMPT: draw(st.sampled_from(["1", "2"]))}
        found["metadata"]["labels"] = labels
    if draw(st.booleans()):
        found["status"]["extendedResourceClaimStatus"] = {"resourceClaimName": f"c{draw(st.integers(0, 3))}"}
    return ("default", name), found


@st.composite
def reservations(draw: st.DrawFn) -> tuple[PodReservation, ...]:
    """What a child or a placement under way promises: pods on nodes, or on any node of a pool."""
    job, attempt, gpus = draw(st.sampled_from(JOBS)), draw(st.integers(1, 2)), draw(st.sampled_from([1, 2]))
    resource, needs = draw(st.sampled_from(RESOURCES)), Resources(1000, 1024**3, 0, 1)
    namespace, mounted = draw(st.sampled_from(["", "default", "other"])), tuple(draw(st.lists(claims, max_size=1)))
    if draw(st.booleans()):
        pool = draw(st.sampled_from(["x", "z", "mi300x-ondemand", "none"]))
        count = draw(st.integers(0, 3))
        return tuple(
            PodReservation(job, "", resource, gpus, needs, attempt, namespace, pool, i, volume_claims=mounted, job="j")
            for i in range(count)
        )
    others = draw(st.sampled_from([(), (("rdma/hca", 1),)]))
    on = draw(st.lists(names, unique=True, max_size=2))
    return tuple(
        PodReservation(job, name, resource, gpus, needs, attempt, namespace, "x", others=others, volume_claims=mounted)
        for name in on
    )


H100 = {"type": "gpu", "productName": "NVIDIA H100 80GB HBM3", "cudaComputeCapability": {"version": "9.0.0"}}
MI300X = {"type": "amdgpu", "productName": "AMD_Instinct_MI300X_OAM", "deviceID": "0x74a1"}
DEVICES = {"gpu.nvidia.com": (H100, {**H100, "productName": "NVIDIA A100-SXM4-80GB"}), "gpu.amd.com": (MI300X,)}


@st.composite
def of_dra(draw: st.DrawFn) -> Object:
    """A slice, a claim or a class."""
    driver, on = draw(st.sampled_from(sorted(DEVICES))), draw(names)
    kind, number = draw(st.sampled_from(["slice", "claim", "class", "rule"])), draw(st.integers(0, 3))
    if kind == "rule":
        selector = draw(st.sampled_from([{}, {"driver": driver}, {"pool": on}, {"device": "d0"}]))
        return taint_rule(f"r{number}", draw(st.sampled_from(["NoSchedule", "None"])), **selector)
    if kind == "class":
        resource = draw(st.sampled_from([None, "nvidia.com/gpu", "amd.com/gpu"]))
        return device_class(driver, f"device.driver == '{driver}'", resource)
    if kind == "claim":
        held = [f"d{index}" for index in draw(st.sets(st.integers(0, 3)))]
        uid = draw(st.sampled_from(["", "uid-of-p0", "uid-of-p1"]))
        return resource_claim(f"c{number}", driver, on, *held, pod_uid=uid, extended=draw(st.booleans()))
    models = draw(st.lists(st.sampled_from(DEVICES[driver]), max_size=4))
    made = ({"name": f"d{index}", "memory": "80Gi", **model} for index, model in enumerate(models))
    return resource_slice(on, driver, *made, generation=draw(st.integers(1, 2)), resourceSliceCount=number // 3 + 1)


class Fleets(RuleBasedStateMachine):
    """Both ways to a fleet, side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.inventory = Inventory()
        self.index = FleetIndex(CATALOG, self.inventory.of_pod)
        self.dra: dict[tuple[str, str], Object] = {}
        self.nodes: dict[str, Node] = {}
        self.pods: dict[Any, Pod] = {}
        self.admins: list[AdminPool] = []
        self.runtime_class = RuntimeClass("nvidia")
        self.reservations: dict[int, tuple[PodReservation, ...]] = {}
        self.pieces: Iterator[None] = iter(())
        self.steps: list[int] = []
        """The pieces that are done after each of the next changes."""

    @rule(raw=nodes)
    def put_node(self, raw: Object) -> None:
        read = read_node(raw)
        self.nodes[read.name] = read
        self.index.put_node(read, self.groups(read))

    def groups(self, read: Node) -> tuple[DeviceGroup, ...]:
        return with_slices(read, groups_of(read, CATALOG), self.inventory, CATALOG)

    @rule(found=of_dra(), gone=st.booleans())
    def publish(self, found: Object, gone: bool) -> None:
        """What a driver or the scheduler writes, put into the index as the operator's cluster index does."""
        kind, key = found["kind"], (found["kind"], found["metadata"]["name"])
        put, read = {
            "ResourceSlice": (self.inventory.put_slice, read_slice),
            "ResourceClaim": (self.inventory.put_claim, read_claim),
            "DeviceClass": (self.inventory.put_class, read_class),
            "DeviceTaintRule": (self.inventory.put_rule, read_rule),
        }[kind]
        of_kind = (found["metadata"].get("namespace", ""), found["metadata"]["name"])
        self.dra.pop(key, None)
        if not gone:
            self.dra[key] = found
        put(of_kind, None if gone else read(found))  # type: ignore[operator]
        self.follow_claims()

    def follow_claims(self) -> None:
        for name in self.inventory.take_touched() & self.nodes.keys():
            self.index.put_node(self.nodes[name], self.groups(self.nodes[name]))
        self.index.put_claimed(self.inventory.take_recounted())

    @rule(name=names, cordoned=st.booleans(), ready=st.booleans())
    def change_state(self, name: str, cordoned: bool, ready: bool) -> None:
        if name in self.nodes:
            held = self.nodes[name]
            changed = {field: getattr(held, field) for field in held.__slots__} | {"cordoned": cordoned, "ready": ready}
            self.nodes[name] = Node(**changed)
            self.index.put_node(self.nodes[name], self.groups(self.nodes[name]))

    @rule(name=names)
    def drop_node(self, name: str) -> None:
        self.nodes.pop(name, None)
        self.index.drop_node(name)

    @rule(found=pods())
    def put_pod(self, found: tuple[tuple[str, str], Object]) -> None:
        self.pods[found[0]] = read_pod(found[1])
        self.index.put_pod(found[0], self.pods[found[0]])
        self.inventory.put_pod(found[0], self.pods[found[0]])
        self.follow_claims()

    @rule(number=st.integers(0, 5))
    def drop_pod(self, number: int) -> None:
        self.pods.pop(("default", f"p{number}"), None)
        self.index.put_pod(("default", f"p{number}"), None)
        self.inventory.put_pod(("default", f"p{number}"), None)
        self.follow_claims()

    @rule(found=gpupools)
    def put_pools(self, found: list[Object]) -> None:
        self.admins = [admin_pool(read_gpupool(raw)) for raw in found]
        self.index.put_admin_pools(self.admins)

    @rule(
        handler=st.sampled_from(["", "nvidia", "nvidia-cdi"]),
        memory=st.sampled_from([0, 2**30]),
        selector=st.sampled_from([(), (("kubernetes.io/arch", "amd64"),), (("sandbox", "yes"),)]),
    )
    def put_class(self, handler: str, memory: int, selector: tuple[tuple[str, str], ...]) -> None:
        self.runtime_class = RuntimeClass(handler, Resources(memory=memory), selector)

    @rule(source=st.integers(0, 2), found=reservations())
    def reservation(self, source: int, found: tuple[PodReservation, ...]) -> None:
        self.reservations[source] = found
        self.index.put_reservations(source, found)

    @rule(steps=st.lists(st.integers(0, 4), min_size=1, max_size=5))
    def look_in_pieces(self, steps: list[int]) -> None:
        self.pieces, self.steps = self.index.in_pieces({"nvidia": self.runtime_class}), list(steps)

    @invariant()
    def both_fleets_are_equal(self) -> None:
        if self.steps:
            for _ in range(self.steps.pop()):
                next(self.pieces, None)
            return
        told = {each.key: each for source in sorted(self.reservations) for each in self.reservations[source]}
        assert {each.key: each for each in self.index.reserved.all()} == told
        classes = {"nvidia": self.runtime_class}
        kept = self.index.fleet(classes)
        read = read_fleet(
            self.nodes.values(), self.pods.values(), CATALOG, self.admins, classes, told.values(),
            inventory=read_inventory(self.dra.values(), self.pods.values()),
        )  # fmt: skip
        assert kept == read
        for one, other in zip(kept.pools, read.pools, strict=True):
            assert (one.free, one.total, one.size) == (other.free, other.total, other.size)
            for gpus in (1, 8):
                assert list(one.stock.with_free(gpus)) == list(other.stock.with_free(gpus))


TestFleets = Fleets.TestCase
TestFleets.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)
