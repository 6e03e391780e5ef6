"""A queue decided again with what is known of the last cycle gets what a fresh decision gives it, whatever happened in between."""

from __future__ import annotations

from dataclasses import replace

from builders import ANY_IMAGES, Object, pod
from hypothesis import given
from hypothesis import strategies as st
from test_turns import CLASSES, queues, told
from worlds import clusters

from gpujob.fleet.devices.group import groups_of
from gpujob.fleet.kubernetes.priority_classes import PriorityClass
from gpujob.fleet.pools.fleet import Fleet
from gpujob.fleet.sources.cluster_file import read_cluster
from gpujob.fleet.sources.incremental import FleetIndex
from gpujob.fleet.storage.claim_volumes import Volumes
from gpujob.fleet.storage.volume_records import VolumeClaim
from gpujob.schedule.answers import LastRejections
from gpujob.schedule.pending_job import PendingJob
from gpujob.schedule.queue import ALWAYS, SchedulingCycle, place_all

events = st.lists(
    st.tuples(st.integers(0, 4), st.sampled_from([0, 1, 2, 4, 6, 7, 8, 64]), st.sampled_from(["1", "16", "100"]),
              st.sampled_from(["", "", "once", "one-pod"])),
    min_size=2, max_size=8,
)  # fmt: skip
"""A node, the GPUs that its holder has left from now on, the holder's CPU, and the claim that it mounts."""

VOLUMES = Volumes(
    {("team", "once"): VolumeClaim(one_node=True), ("team", "one-pod"): VolumeClaim(one_node=True, one_pod=True)},
    complete=True,
)


@st.composite
def claiming(draw: st.DrawFn) -> list[PendingJob]:
    """A queue, some of whose jobs mount a claim."""
    claims = st.sampled_from([(), (), ("once",), ("one-pod",), ("once", "one-pod")])
    return [replace(each, demand=each.demand.but(claims=draw(claims))) for each in draw(queues())]


class World:
    """A cluster that changes pod by pod, as the operator's index sees it."""

    def __init__(self, objects: list[Object]) -> None:
        read = read_cluster(objects)
        self.index = FleetIndex(ANY_IMAGES)
        self.nodes = list(read.nodes)
        for node in self.nodes:
            self.index.put_node(node, groups_of(node, ANY_IMAGES))
        self.resources = {node.name: [group.resource for group in groups_of(node, ANY_IMAGES)] for node in self.nodes}
        for node in self.nodes:
            self.hold(node.name, 8, "1", "")

    def happens(self, place: int, gpus: int, cpu: str, claim: str) -> None:
        self.hold(self.nodes[place % len(self.nodes)].name, gpus, cpu, claim)

    def hold(self, name: str, gpus: int, cpu: str, claim: str) -> None:
        """The pod that holds a node's devices has this many of them."""
        asks = dict.fromkeys(self.resources[name][:1], str(gpus)) if gpus else {}
        raw = pod(f"on-{name}", name, asks, cpu=cpu)
        raw["metadata"]["namespace"] = "team"
        raw["spec"]["volumes"] = [{"persistentVolumeClaim": {"claimName": claim}}] if claim else []
        (held,) = read_cluster([raw]).pods
        self.index.put_pod(("", held.uid), held)

    def fleet(self) -> Fleet:
        known = {held["metadata"]["name"]: PriorityClass(held["metadata"]["name"], held["value"]) for held in CLASSES}
        return replace(self.index.fleet(), priorities=known, volumes=VOLUMES)


def fresh(queue: list[PendingJob], fleet: Fleet) -> object:
    return told(place_all(queue, fleet, ANY_IMAGES))


@given(objects=clusters(odd=False, admin=False), queue=claiming(), events=events)
def test_a_cycle_with_the_refusals_of_the_last_one_decides_as_a_fresh_one(
    objects: list[Object], queue: list[PendingJob], events: list[tuple[int, int, str, str]]
) -> None:
    world, refusals = World(objects), LastRejections()
    for event in (None, *events):
        if event is not None:
            world.happens(*event)
        fleet = world.fleet()
        refusals.begin(0)
        cycle = SchedulingCycle(ANY_IMAGES, None, refusals)
        again = told(placing for placing in cycle.run(queue, fleet, ALWAYS) if placing is not None)
        assert again == fresh(queue, fleet)


@given(objects=clusters(odd=False, admin=False), queue=claiming(), events=events)
def test_where_all_classes_are_refused_again_a_fresh_decision_refuses_everybody(
    objects: list[Object], queue: list[PendingJob], events: list[tuple[int, int, str, str]]
) -> None:
    world, refusals = World(objects), LastRejections()
    refusals.begin(0)
    placings = [each for each in SchedulingCycle(ANY_IMAGES, None, refusals).run(queue, world.fleet(), ALWAYS) if each]
    for event in events:
        world.happens(*event)
        fleet = world.fleet()
        if not all(refusals.retry(fleet, ANY_IMAGES, 0)):
            break
        assert told(placings) == fresh(queue, fleet)
        assert not any(each.choice and not each.job.plan_only for each in placings)
