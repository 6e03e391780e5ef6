"""A job with every default explicit: the input of placement. Equal demands get equal decisions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from gpujob.catalog.devices.throughput import TRAINING, Work, work_of
from gpujob.fleet.kubernetes.namespaces import IdRanges, NodeSelection
from gpujob.fleet.policy.limit_range import Limits
from gpujob.fleet.pools.arriving import Arriving
from gpujob.fleet.pools.pool import Pool
from gpujob.fleet.storage.claim_volumes import Mount
from gpujob.fleet.storage.volume_ties import Tie
from gpujob.placement.request.gang import Gang
from gpujob.placement.request.launch import Program
from gpujob.placement.request.model_requirements import ModelDemand
from gpujob.placement.request.profile_measurements import Learned
from gpujob.values.derived import derived
from gpujob.values.finding import Finding
from gpujob.values.vocabulary import Backend, CapacityType, DeviceKind, Method, Objective, Precision, Reason, Vendor


class ExcludedNode(NamedTuple):
    """A node, until when (RFC 3339) it is left out, the attempt that failed there, and why that failed."""

    node: str
    until: str
    attempt: int
    why: str

    @property
    def finding(self) -> Finding:
        """Why the node does not take the job now."""
        sentence = "node {} is left out until {}, since attempt {} failed there ({})"
        return Finding(Reason.NODE_EXCLUDED, sentence, (self.node, self.until, self.attempt, self.why))


class Attachment(NamedTuple):
    """A claim of the job that other pods mount, and with which another node, or another pod, cannot mount it meanwhile."""

    claim: str
    mounts: tuple[Mount, ...]
    one_pod: bool = False
    """Whether one pod at a time can mount it; else one node."""

    @property
    def nodes(self) -> frozenset[str]:
        """The nodes on which the job can mount it now."""
        return frozenset() if self.one_pod else frozenset(mount.node for mount in self.mounts if mount.node)

    @property
    def finding(self) -> Finding:
        """Why no other node takes the job now, or none at all."""
        first, others = self.mounts[0], len(self.mounts) - 1
        user = f"{first.user} and {others} more" if others else first.user
        where = f"node {first.node}" if first.node else "a node to be added"
        sentence = "PersistentVolumeClaim {} {} on {} by {}, and one {} at a time can mount it"
        state = "will be mounted" if first.starts else "is mounted"
        return Finding(
            Reason.ACCESS_MODE, sentence, (self.claim, state, where, user, "pod" if self.one_pod else "node")
        )


@dataclass(frozen=True, slots=True)
class ProbeTarget:
    """The pool and the gang that come first, and the sentence with the reason."""

    pool: str
    shape: str
    why: str
    probe: bool = False
    then: str = ""
    """The next step, as a clause."""


DEFAULT_FRAMEWORK = "pytorch"
DEFAULT_DEVICES = (DeviceKind.WHOLE,)
DEFAULT_CAPACITY_TYPES = (CapacityType.ON_DEMAND, CapacityType.RESERVED)


@dataclass(frozen=True, slots=True)
class OwnRuntime:
    """The user's own image: its stack, and the GPURuntime with its facts (None: unchecked)."""

    backend: Backend
    image: str
    runtime: str | None


@dataclass(frozen=True)
class Demand:
    """What a job needs; sizes in bytes, CPU in millicores, money in micro-dollars; None if the job requests none.

    It holds nothing that names the job, so that many equal jobs share one evaluation.
    """

    gangs: tuple[Gang, ...] = (Gang(),)
    """Whole-gang alternatives, at least one: the job runs as exactly one of them. Filters evaluate one at a time."""
    gpu_memory: int | None = None
    model: ModelDemand | None = None
    """The model whose memory is estimated, in place of gpu_memory."""
    sized_by_model: bool = False
    """Whether the number of GPUs follows from the model, because the job names none."""
    nodes_given: bool = False
    """Whether the job names its number of nodes."""
    vendors: frozenset[Vendor] = frozenset(Vendor)
    accelerators_allowed: tuple[str, ...] = ()
    accelerators_denied: tuple[str, ...] = ()
    meant: tuple[tuple[str, frozenset[str]], ...] = ()
    """The job's accelerator names that are not ids, with the ids that each means."""
    makers: Mapping[str, Vendor] = field(default_factory=dict, hash=False)
    """The vendor of each accelerator that the job names, by id; set with `meant`."""
    pools_allowed: tuple[str, ...] = ()
    pools_denied: tuple[str, ...] = ()
    capacity_types: tuple[CapacityType, ...] = DEFAULT_CAPACITY_TYPES
    devices: tuple[DeviceKind, ...] = DEFAULT_DEVICES
    max_price: int | None = None
    budgeted: bool = False
    """Whether placement.budget is set, so that the price must be known."""
    objective: Objective = Objective.VALUE
    objective_given: bool = True
    """Whether the job names its objective."""
    work: Work = TRAINING
    framework: str = DEFAULT_FRAMEWORK
    framework_version: str | None = None
    python: str | None = None
    requires: tuple[str, ...] = ()
    own_images: tuple[OwnRuntime, ...] = ()
    millicores: int | None = None
    memory: int | None = None
    storage: int | None = None
    shared_memory: int | None = None
    written: tuple[tuple[str, str], ...] = ()
    """The text of the job's sizes and price limit, by the name of the field here."""
    as_root: bool = False
    watches_steps: bool = False
    """Whether the job sets spec.stall."""
    own_command: bool = True
    """Whether the job names the command of its containers."""
    programs: tuple[Program, ...] = ()
    """What its command line and variables set for nodes and GPUs, then those of each of its shapes."""
    repeated: tuple[tuple[int, int], ...] = ()
    """The indices in spec.shapes of entries with nodes, GPUs and accelerator of an earlier one, and of that."""
    precision: Precision | None = None
    """The number format that the job names; None if the usual one is assumed."""
    gfx_override: str | None = None
    """The job's HSA_OVERRIDE_GFX_VERSION; empty if only the pod knows it."""
    image_volumes: bool = False
    """Whether its pods mount OCI images."""
    priority_class: str | None = None
    service_account: str | None = None
    """The ServiceAccount that the job names; None for `default`."""
    unread: str = ""
    """The objects that the job names and that cannot be read, in a sentence."""
    new_claims: tuple[tuple[str, int], ...] = ()
    """Volume claims that each pod creates (ephemeral volumes): StorageClass (empty: the default) and bytes."""
    claim_volumes: tuple[int, ...] = ()
    """The index in spec.volumes of each of these claims."""
    ids: IdRanges | None = None
    """The uids and groups that the platform assigns to pods of the job's namespace."""
    run_as: tuple[int | None, int | None] = (None, None)
    """The uid and the fsGroup that the job names."""
    claims: tuple[str, ...] = ()
    """PersistentVolumeClaims that its pods mount."""
    mountable: frozenset[str] | None = None
    """Existing nodes on which all of them can be mounted; None: any. This field and the next ones are set by `volumes`."""
    ties: tuple[str, ...] = ()
    """The claims that leave only these nodes, with the reason of each."""
    tied: tuple[Tie, ...] = ()
    """What the volumes of these claims require of a node."""
    once_made: tuple[frozenset[str] | None, tuple[Tie, ...]] | None = None
    """These nodes and requirements once PersistentVolumes are made for claims whose StorageClass makes none; None: no others."""
    single: tuple[str, ...] = ()
    """The claims that one node at a time can mount."""
    attached: tuple[Attachment, ...] = ()
    """Those of them that pods mount."""
    attachable: frozenset[str] | None = None
    """The nodes on which all of these can be mounted now; None: any."""
    lost: tuple[str, ...] = ()
    """The claims that do not exist."""
    unseen: tuple[str, ...] = ()
    """The claims of a namespace without a known claim."""
    unmade: tuple[tuple[int, str], ...] = ()
    """Of volumes whose claims get no volume: the index in spec.volumes and the reason."""
    troubled: tuple[tuple[str, str, str], ...] = ()
    """The claims with which no pod starts, the reason of each and what ends it."""
    terminating: str = ""
    """Its namespace if that is being deleted; set by `bounded`."""
    selection: NodeSelection | None = None
    """The labels that its namespace requires of nodes; set by `bounded`, which keeps the namespace then."""
    limits: Limits | None = None
    """The bounds that the LimitRanges of its namespace set for its pods; set by `bounded`."""
    copies_code: bool = False
    """Whether its pods have a container that copies code and requests no devices."""
    namespace: str = ""
    """The job's namespace if it matters; otherwise empty, so that equal jobs of many namespaces are one demand."""
    refused_as_object: bool = False
    """Whether its GPUJob does not exist yet and a quota of GPUJobs leaves none for it; set for jobs of a manifest."""
    ends_before: int | None = None
    """A beginning of announced maintenance, in seconds since 1970, by which the job has ended; `undisturbed` sets it."""
    wait_seconds: int = 0
    """Seconds that the job still waits for a better pool than those with room; 0 takes what is free now."""
    arriving: tuple[Arriving, ...] = ()
    """New nodes whose devices are pending, by name."""
    pools_away: tuple[tuple[str, str], ...] = ()
    """Pools whose nodes did not come lately, and the time (RFC 3339) until which they are not waited for."""
    pools_resting: tuple[tuple[str, str, str], ...] = ()
    """Pools whose nodes did not accept the job's pods lately, the time (RFC 3339) until which they are not tried, and the reason."""
    refused_everywhere: tuple[str, str] | None = None
    """The time (RFC 3339) until which no pool is tried, because the API server refuses the job's pods whatever the pool, and the
    reason; None if it does not."""
    excluded_nodes: tuple[ExcludedNode, ...] = ()
    """Nodes that the job excludes after an infrastructure failure, by name."""
    memory_floor: int | None = None
    """Bytes that each GPU must have since an attempt ran out of GPU memory; None if none did."""
    stays_on: str = ""
    """The pool on which the last attempt failed by the job's own fault; the next attempt uses no other."""
    keeps_vendor: bool = False
    """Whether later attempts stay on the vendor of an attempt that ran, because the other may not read its checkpoints."""
    resumes_on: Vendor | None = None
    """The vendor of the last attempt that ran, if the job keeps its vendor; `timely` sets it."""

    learned: Learned | None = None
    """The measurements of earlier runs of this work; None if there are none."""
    exploration: int | None = None
    """Micro-dollars that trying an unmeasured device may cost more than the best one; None: no exploration."""
    probe_steps: int | None = None
    """Steps of a probe on each device with room before the job is placed; None: no probes."""
    probes_failed: tuple[tuple[str, str], ...] = ()
    """Pools on which a probe failed, and its message."""
    probed: tuple[tuple[str, str], ...] = ()
    """Devices and gangs of the job's own probes so far, whatever their result."""
    under_way: tuple[tuple[tuple[str, str], int], ...] = ()
    """Devices and gangs on which jobs of its profile run now, and how many; set for jobs that explore."""
    unstarted: tuple[tuple[str, str], ...] = ()
    """The probes that did not start."""
    trying: ProbeTarget | None = None
    """The pool that comes first whatever the objective."""
    unprobed: str = ""
    """Why no probe runs although the job requests them, as a clause."""

    @derived
    def gang(self) -> Gang:
        """The gang under evaluation: the only one, or the first of several."""
        return self.gangs[0]

    @derived
    def nodes(self) -> int:
        """Nodes of the gang under evaluation."""
        return self.gang.nodes

    @derived
    def gpus_per_node(self) -> int:
        """GPUs of each of its pods."""
        return self.gang.gpus_per_node

    def ids_of(self, words: Iterable[str]) -> frozenset[str]:
        """The ids of accelerators that the job's names mean; an unresolved name counts as an id."""
        meant = dict(self.meant)
        return frozenset(each for word in words for each in meant.get(word, (word,)))

    def is_meant_for(self, gang: Gang, accelerators: Iterable[str]) -> bool:
        """Whether a gang's accelerator, if it names one, is among these ids."""
        return gang.accelerator is None or not self.ids_of((gang.accelerator,)).isdisjoint(accelerators)

    def may_mean(self, words: Iterable[str], pool: Pool) -> bool:
        """Whether one of these names of accelerators means a pool's devices, or may: devices that nothing identifies are any of their
        vendor's.
        """
        ids = self.ids_of(words)
        if pool.accelerator is not None or pool.models:
            return not ids.isdisjoint(pool.models or (pool.accelerator_id,))
        return pool.vendor_assumed or any(self.makers.get(each, pool.vendor) is pool.vendor for each in ids)

    def outlasts(self, begins: int | None) -> bool:
        """Whether the job may still run when maintenance begins, at a time in seconds since 1970 or an unknown one."""
        return begins is None or self.ends_before is None or begins < self.ends_before

    def arrives(self, node: str) -> Arriving | None:
        """The time until which a node's devices are pending; None if they are not."""
        return next((each for each in self.arriving if each.node == node), None)

    def awaited(self, nodes: Iterable[str]) -> list[Arriving]:
        """Those of these nodes whose devices are pending."""
        return [*filter(None, map(self.arrives, nodes))] if self.arriving else []

    def attaches(self, node: str) -> bool:
        """Whether a node can mount the job's claims beside the pods that mount them now."""
        return self.attachable is None or node in self.attachable

    def excludes(self, node: str) -> ExcludedNode | None:
        """The exclusion of a node; None if it is not excluded."""
        return next((each for each in self.excluded_nodes if each.node == node), None)

    def as_written(self, name: str, otherwise: str) -> str:
        """The text of one of the job's amounts."""
        return dict(self.written).get(name, otherwise)

    def spreads(self, gang: Gang) -> bool:
        """Whether the decision assumes that the model is sharded over the gang's GPUs although the job does not say so.

        Several GPUs that the job does not request are only useful then, and serving engines do not hold a whole model on each GPU.
        A training job that names its GPUs holds the whole model on each where each can, as data parallel programs do, and is
        sharded elsewhere, as a job that names no number is.
        """
        model = self.model
        if model is None or model.sharding_given or gang.gpus == 1:
            return False
        return self.sized_by_model or gang.sharded or model.method is Method.INFERENCE

    def scales(self, gang: Gang) -> bool:
        """Whether the gang counts as its number of GPUs times as fast as one GPU.

        Not if sharded training is only assumed: an unsharded program uses one of them, or fails. Inference is tensor parallel
        whether the number is given or computed.
        """
        serves = self.model is not None and self.model.method is Method.INFERENCE
        return serves or not self.spreads(gang)

    def only(self, gang: Gang) -> Demand:
        """The same demand for one gang alone."""
        return self if len(self.gangs) == 1 and self.gang is gang else self.but(gangs=(gang,))

    def but(self, **changes: Any) -> Demand:
        """`dataclasses.replace` at a tenth of its time: a decision replaces fields for every gang, a fix search for hundreds of
        changes.
        """
        other = object.__new__(Demand)
        other.__dict__.update(self.__dict__)
        other.__dict__.update(changes)
        for name in _OF_GANG if "gangs" in changes else ():
            other.__dict__.pop(name, None)
        return other

    def with_model(self, model: ModelDemand) -> Demand:
        """The same demand with another model, and the work that follows from it."""
        return self.but(model=model, work=work_of(model.method, model.precision, model.concurrency or model.batch))

    def changed(self, before: Gang, after: Gang) -> Demand:
        """The same demand with one of its gangs changed."""
        return self.but(gangs=tuple(after if gang == before else gang for gang in self.gangs))


_OF_GANG: Final = ("gang", "nodes", "gpus_per_node")
"""Values derived from the gangs: an explanation reads them 20 times for each pool."""
