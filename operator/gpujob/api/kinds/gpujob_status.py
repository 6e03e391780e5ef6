"""The status of a GPUJob, written by the operator only."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gpujob.api.fields.base import DnsName, Shape, a_list, list_map
from gpujob.api.kinds.conditions import Condition
from gpujob.api.kinds.measured import Cost, Progress, SavedCheckpoint, Throughput, Trial


class PlacementStatus(Shape):
    """The choice of pool, image and nodes."""

    pool: Annotated[str, Field(max_length=253)]
    """The pool."""
    vendor: Annotated[str, Field(max_length=16)]
    """AMD or NVIDIA."""
    accelerator: Annotated[str, Field(max_length=63)]
    """The accelerator's catalog id."""
    device: Annotated[str, Field(max_length=128)] | None = None
    """The device if it is a part of the accelerator, for example MI300X cpx_nps4."""
    probe: int | None = None
    """Steps after which this run ends, because it is a probe; absent for the real run."""
    nodes: int
    """Number of nodes."""
    gpus_per_node: int
    """GPUs of each pod."""
    node_names: Annotated[tuple[DnsName, ...], a_list(items=1024)] = ()
    """The nodes that the pods are pinned to."""
    provision: bool | None = None
    """True: nodes must be added by an autoscaler first; the pods wait for any nodes of the pool."""
    image: Annotated[str, Field(max_length=512)]
    """The container image."""
    runtime: Annotated[str, Field(max_length=253)]
    """The GPURuntime behind the image, or `own`."""
    price_per_hour: Annotated[str, Field(max_length=24)] | None = None
    """US dollars an hour for the whole job; absent when no price is known."""
    current_price_per_hour: Annotated[str, Field(max_length=24)] | None = None
    """US dollars an hour at current prices, if they changed while the attempt runs. The attempt still counts at pricePerHour, and the
    next attempt is placed at the new prices."""
    capacity_type: Annotated[str, Field(max_length=16)] | None = None
    """Spot if the cloud can reclaim the nodes; absent otherwise."""
    price_source: Annotated[str, Field(max_length=256)] | None = None
    """The source of the price; the status of the pool has its date."""
    digest: Annotated[str, Field(max_length=64)] | None = None
    """A digest of the decision."""


class CandidateStatus(Shape):
    """The outcome of one candidate (pool × runtime × shape)."""

    pool: Annotated[str, Field(max_length=253)]
    """The pool."""
    runtime: Annotated[str, Field(max_length=253)]
    """The GPURuntime, or `own`."""
    shape: Annotated[str, Field(max_length=16)]
    """Nodes x GPUs per node."""
    outcome: Annotated[str, Field(max_length=16)]
    """Chosen, Fits, Busy, Misconfigured or Rejected."""
    reason: Annotated[str, Field(max_length=64)] | None = None
    """The first reason, one word."""
    message: Annotated[str, Field(max_length=512)] | None = None
    """The first reason with its numbers."""


class ExcludedPool(Shape):
    """A pool that is excluded for a while because it failed the job."""

    name: DnsName
    """The pool."""
    until: Annotated[str, Field(max_length=32)]
    """When it is tried again."""
    reason: Annotated[str, Field(max_length=64)] | None = None
    """NodesDidNotCome (existing nodes are still used) or Unschedulable."""
    message: Annotated[str, Field(max_length=512)] | None = None
    """The scheduler's message, for Unschedulable."""
    refusal: Annotated[str, Field(max_length=512)] | None = None
    """The API server's words, if it refused the pods."""
    others_until: Annotated[str, Field(max_length=32)] | None = None
    """When another pool is tried: the API server refused the pods on two pools in the same words."""


class ExcludedNode(Shape):
    """A node that is excluded for a while, because an attempt of the job failed there."""

    name: DnsName
    """The node."""
    until: Annotated[str, Field(max_length=32)]
    """When the job may use it again."""
    attempt: int
    """The attempt that failed there."""
    reason: Annotated[str, Field(max_length=64)] | None = None
    """Why that attempt failed, one word."""


class Failures(Shape):
    """How many attempts failed so far, by cause."""

    user: int | None = None
    """Failures of the program or of the job's spec."""
    infrastructure: int | None = None
    """Failures of nodes, devices and the network, evictions and preemptions."""
    spot: int | None = None
    """Attempts that ended because the cloud reclaimed spot nodes; retries do not count them."""


class EndedAttempt(Shape):
    """One ended attempt."""

    attempt: int
    """Its number."""
    pool: Annotated[str, Field(max_length=253)] | None = None
    """The pool that it ran on."""
    vendor: Annotated[str, Field(max_length=16)] | None = None
    """AMD or NVIDIA."""
    nodes: Annotated[tuple[DnsName, ...], a_list(items=8)] = ()
    """Its nodes, the first 8."""
    gpus: int | None = None
    """GPUs of all its pods."""
    from_: Annotated[str, Field(max_length=32)] | None = Field(default=None, alias="from")
    """When all pods first ran; absent if they never did."""
    to: Annotated[str, Field(max_length=32)]
    """When it ended."""
    cost: Annotated[str, Field(max_length=24)] | None = None
    """What it cost in US dollars; absent if no price is known or it never ran."""
    reason: Annotated[str, Field(max_length=64)]
    """Why it ended, one word."""
    blame: Annotated[str, Field(max_length=16)] | None = None
    """If it failed, which count it is in: User, Infrastructure or Spot; Kubernetes is in none."""
    message: Annotated[str, Field(max_length=256)] | None = None
    """Why it ended, in a sentence."""


class Display(Shape):
    """Texts for `kubectl get`, which cannot compute."""

    accelerator: Annotated[str, Field(max_length=80)] | None = None
    """For example 2x8 MI300X, or MI300X (probe) while a probe runs."""
    progress: Annotated[str, Field(max_length=32)] | None = None
    """For example 42 %, or step 1200 if the program does not report its length."""
    throughput: Annotated[str, Field(max_length=32)] | None = None
    """For example 2553 tok/s."""
    cost: Annotated[str, Field(max_length=32)] | None = None
    """For example $1.23."""
    reason: Annotated[str, Field(max_length=64)] | None = None
    """The reason of the condition that explains the state."""


class GPUJobStatus(Shape):
    """The state of the job; written by the operator only."""

    state: Annotated[str, Field(max_length=16)] | None = None
    """Queued, Placed, Starting, Running, Restarting, Suspended, Succeeded, Failed, Misconfigured or Impossible."""
    conditions: Annotated[tuple[Condition, ...], list_map("type", items=16)] = ()
    """Placed, PreflightPassed, Running, TelemetryReachable, Stalled, Complete, Failed, Suspended: each appears once it applies, with a
    reason and one message."""
    placement: PlacementStatus | None = None
    """The choice of pool, image and nodes."""
    candidates: Annotated[tuple[CandidateStatus, ...], a_list(items=8)] = ()
    """The nearest candidates of a job that is not placed; all of them, of any job: kubectl gpujob plan."""
    observed_generation: int | None = None
    """The generation of the spec that this status is about."""
    start_time: Annotated[str, Field(max_length=32)] | None = None
    """When all pods first ran."""
    completion_time: Annotated[str, Field(max_length=32)] | None = None
    """When the job ended."""
    job_name: Annotated[str, Field(max_length=63)] | None = None
    """The child Job of the current attempt."""
    job_uid: Annotated[str, Field(max_length=64)] | None = Field(default=None, alias="jobUID")
    """The uid of the child Job: no other Job of that name counts."""
    attempt: int | None = None
    """The number of the current attempt, from 1."""
    failures: Failures | None = None
    """How many attempts failed, by cause; spec.retries limits `user` and `infrastructure`."""
    failing_since: Annotated[str, Field(max_length=32)] | None = None
    """When the first attempt failed; spec.retries.withinSeconds counts from then."""
    attempts: Annotated[tuple[EndedAttempt, ...], list_map("attempt", items=5)] = ()
    """The last 5 ended attempts: where they ran, for how long, what they cost, and why they ended."""
    excluded_pools: Annotated[tuple[ExcludedPool, ...], list_map("name", items=16)] = ()
    """Pools that got no new nodes or did not run the job's pods, and when they are tried again."""
    gpu_memory: Annotated[str, Field(max_length=24)] | None = None
    """The memory that each GPU must have since an attempt ran out of GPU memory, if spec.retries.memoryFactor is set."""
    excluded_nodes: Annotated[tuple[ExcludedNode, ...], list_map("name", items=16)] = ()
    """Nodes on which the infrastructure failed an attempt, and when the job may use them again."""
    progress: Progress | None = None
    """The progress of the job, written on every 5 percent or every 5 minutes; see updated."""
    throughput: Throughput | None = None
    """The speed of the job, first written after a minute if it runs for longer than 5 more."""
    cost: Cost | None = None
    """The cost of the job so far."""
    ran_seconds: int | None = None
    """Seconds that the earlier attempts ran; with the time since startTime they count for activeDeadlineSeconds."""
    checkpoint: SavedCheckpoint | None = None
    """The last checkpoint that the program reported as saved."""
    probes: Annotated[tuple[Trial, ...], list_map("pool", "shape", items=16)] = ()
    """The measurements of the job's probes."""
    updated: Annotated[str, Field(max_length=32)] | None = None
    """When progress, throughput and cost were written; kubectl gpujob top shows the current ones."""
    display: Display | None = None
    """Texts for kubectl get."""
