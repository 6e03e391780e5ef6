"""Records of GPUJobs, child Jobs, their Services and pods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gpujob.api.frozen_spec import frozen_digest
from gpujob.fleet.assembly.usage import PodReservation, reservations_of
from gpujob.fleet.kubernetes.objects import Pod, Resources
from gpujob.fleet.labels.maintenance import Tolerated
from gpujob.status.records.gpu_memory import RanOut
from gpujob.status.records.preflight import Check
from gpujob.status.records.rendezvous import Missed

MOST_PODS: Final = 1024
"""The number of pods of the largest gang (spec.nodes)."""


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A GPUJob in the API server: spec and status are unchanged, and packed once it has ended."""

    namespace: str
    name: str
    uid: str
    generation: int
    created: str
    version: str
    leaving: bool
    spec: Mapping[str, Any]
    status: Mapping[str, Any]

    @property
    def spec_digest(self) -> str:
        """The digest of what of the spec cannot change while a child Job runs: its program is made from that."""
        return frozen_digest(self.spec)


@dataclass(frozen=True, slots=True)
class Hint:
    """The decision that a child Job carries: status.placement and its sentence, else empty."""

    placement: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ChildRecord:
    """A child Job: its owner, its nodes, its resources, and how it ended."""

    namespace: str
    name: str
    uid: str
    owner_uid: str
    """The uid of the GPUJob to which it belongs, by its name and label, else by its controller."""
    attempt: int
    leaving: bool
    pods: int
    nodes: tuple[str, ...]
    resource: str
    gpus: int
    needs: Resources
    hint: Hint
    others: tuple[tuple[str, int], ...] = ()
    """Devices that are no GPUs, for each pod."""
    priority_class: str | None = None
    created: str = ""
    ended: str = ""
    """Complete, Failed or empty."""
    ended_at: str = ""
    reason: str = ""
    message: str = ""
    runner: str = ""
    """The ConfigMap that brings the runner into its pods; empty if they run without."""
    preflight: bool = False
    """Whether its pods begin with a preflight."""
    job_name: str = ""
    """The name of its GPUJob, as its annotation says."""
    orphan_of: str = ""
    """The uid of its GPUJob if it has no owner and its name is one that the operator makes from this uid; else empty."""
    paused: bool = False
    """Whether it is suspended, as admission of Jobs does: it gets no pods and keeps its GPUs."""
    resumed: str = ""
    """When the Job controller went on after the last suspension; empty if it never was suspended, and while it is."""
    generation: int = 0
    """How often its spec was written; 1 at its creation, and the operator never changes it."""
    failing_since: str = ""
    """When the Job controller began to end its pods because it fails (condition FailureTarget); empty while it does not."""
    not_on: tuple[str, ...] = ()
    """The nodes that pods which wait for new nodes leave out."""
    volume_claims: tuple[str, ...] = ()
    """The PersistentVolumeClaims that its pods mount."""
    new_claims: tuple[tuple[str, int], ...] = ()
    """The claims that each of its pods makes: StorageClass (empty: the default) and bytes."""
    made_from: int | None = None
    """The generation of the GPUJob whose spec it was made from; None if it does not say."""
    spec_digest: str = ""
    """The digest of that spec (`JobRecord.spec_digest`); empty if it does not say."""
    emptied: bool = False
    """Whether a user has set the number of its pods to 0."""

    def reservations(self) -> tuple[PodReservation, ...]:
        """The reservations of its pods; none for a Job that has ended, is deleted (no pod follows) or has no owner."""
        if self.ended or self.leaving or not self.resource or not self.owner_uid:
            return ()
        pool = str(self.hint.placement.get("pool", ""))
        # Pods that wait for new nodes are pinned to none.
        nodes = self.nodes or ("",) * min(self.pods, MOST_PODS)
        return reservations_of(
            self.owner_uid,
            self.attempt,
            self.namespace,
            nodes,
            pool,
            self.resource,
            self.gpus,
            self.needs,
            self.others,
            self.priority_class,
            not_on=self.not_on,
            volume_claims=self.volume_claims,
            job=self.job_name or self.name,
            new_claims=self.new_claims,
        )


@dataclass(frozen=True, slots=True)
class ServiceRecord:
    """A gang's Service and its owner."""

    owner_uid: str
    """As of a child Job."""
    uid: str = ""
    job_name: str = ""
    """As of a child Job."""
    orphan_of: str = ""
    """As of a child Job."""


DEFAULT_SCHEDULER: Final = "default-scheduler"


@dataclass(frozen=True, slots=True)
class PodState:
    """The state of one pod of a job."""

    name: str
    child_uid: str
    """The uid of the child Job that controls the pod."""
    node: str
    phase: str
    running: bool
    leaving: bool
    child_name: str = ""
    """The name of the Job that controls the pod, which outlives the Job."""
    namespace: str = ""
    started: str = ""
    waiting_reason: str = ""
    waiting_message: str = ""
    exit_code: int | None = None
    reason: str = ""
    message: str = ""
    pod_reason: str = ""
    """The kubelet's reason for the end of the whole pod (Evicted, NodeShutdown, …); empty if its containers ended."""
    pod_message: str = ""
    disruption: str = ""
    """The reason of the pod's condition DisruptionTarget (PreemptionByScheduler, …); empty without it."""
    disruption_message: str = ""
    disrupted_at: str = ""
    """When that condition became true."""
    index: int | None = None
    """Its index in the gang; the first process of the job is in pod 0."""
    address: str = ""
    port: int | None = None
    """The address of its reporter."""
    on_host_network: bool = False
    """Whether it uses the host network, where another program may answer."""
    check: Check | None = None
    """The preflight's result; None before it began."""
    gone_at: str = ""
    """Its deletionTimestamp: the end of the grace that it gets; empty without a deletion."""
    grace: int = 0
    """Seconds of that grace."""
    others: tuple[str, ...] = ()
    """Its other ordinary containers that run: something injected them."""
    ended: str = ""
    """When its container ended, by its node's clock (RFC 3339); empty before."""
    unhealthy: tuple[str, ...] = ()
    """Its devices that the kubelet reports as Unhealthy: resource and id."""
    ran_out: RanOut | None = None
    """GPU memory that its program ran out of; None if it did not fail, or for another reason."""
    missed: Missed | None = None
    """The program's message about missing pods; None if it failed otherwise or did not fail."""
    unready: bool = False
    """Whether its volumes, its network or its sandbox are not there yet, on its node: no image is pulled before that."""
    broken: str = ""
    """The words of its last lines by which a device is broken; empty if it did not fail, or otherwise."""
    created: str = ""
    """Its creationTimestamp."""
    released: bool = False
    """Whether it was asked to end and has no finalizer of its Job, which then does not count how it ends."""
    tolerated: Tolerated = ()
    """The taints that it tolerates, with what admission added; empty once it is bound."""
    scheduler: str = ""
    """The schedulerName of its spec; empty once it is bound."""
    gone: bool = False
    """Whether the pod does not exist any more: this is what it said last."""

    @property
    def other_scheduler(self) -> str:
        """The scheduler that its spec names, where that is not the default one; empty otherwise."""
        return "" if self.scheduler == DEFAULT_SCHEDULER else self.scheduler

    @property
    def shows_why_it_ends(self) -> bool:
        """Whether it failed, was asked to end, or the kubelet reports what of it is broken."""
        ends = self.leaving or self.phase == "Failed" or bool(self.exit_code)
        return ends or bool(self.disruption or self.pod_reason or self.unhealthy)


@dataclass(frozen=True, slots=True)
class PodRecord:
    """A pod: its resources and, for a job's own pods, its state."""

    use: Pod
    state: PodState | None

    @property
    def shows_why_it_ends(self) -> bool:
        """As of its state; False for a pod of no job."""
        return self.state is not None and self.state.shows_why_it_ends
