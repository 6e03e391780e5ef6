"""GPUJob: the user's spec; the status is in `gpujob_status`. A spec needs no vendor's terms.

Only fields that act are here; the docstring under a field is what `kubectl explain` prints.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from gpujob.api.fields.amounts import Budget, Memory, Millicores, Money, Storage, Within
from gpujob.api.fields.base import (
    DnsLabel,
    DnsName,
    ObjectMeta,
    ObjectName,
    Path,
    Reference,
    Shape,
    Word,
    a_list,
    a_set,
    list_map,
)
from gpujob.api.kinds.gpujob_status import GPUJobStatus
from gpujob.api.kinds.model import Model
from gpujob.api.kinds.pods import (
    EnvironmentFrom,
    EnvironmentVariable,
    ImageVolume,
    LocalReference,
    PodMetadata,
    SecurityContext,
    Volume,
    VolumeMount,
)
from gpujob.values.vocabulary import API_VERSION

Argument = Annotated[str, Field(max_length=32768)]
Range = Annotated[str, Field(min_length=1, max_length=128)]
Environment = Annotated[tuple[EnvironmentVariable, ...], list_map("name", items=256)]
Nodes = Annotated[int, Field(ge=1, le=1024)]
GPUsPerNode = Annotated[int, Field(ge=1, le=64)]


class EnvironmentByBackend(Shape):
    """Variables that are set on one software stack only."""

    cuda: Environment = ()
    """Set when an NVIDIA pool is chosen."""
    rocm: Environment = ()
    """Set when an AMD pool is chosen."""


class CodeConfigMap(Shape):
    """Code from a ConfigMap: each key is a file."""

    name: ObjectName
    """The ConfigMap's name, in the job's namespace."""


class CodeClaim(Shape):
    """Code from a PersistentVolumeClaim."""

    claim_name: ObjectName
    """The claim's name, in the job's namespace."""
    sub_path: Annotated[str, Field(max_length=1024)] | None = None
    """The folder inside the volume; all of it when absent."""


class Code(Shape):
    """Vendor-neutral code, copied to a writable folder that is the working directory: exactly one source."""

    config_map: CodeConfigMap | None = None
    """A ConfigMap: each key is a file."""
    persistent_volume_claim: CodeClaim | None = None
    """A PersistentVolumeClaim or a folder of it."""
    image: ImageVolume | None = None
    """An OCI image whose files are the code; its nodes need a container runtime that can mount one."""


class Framework(Shape):
    """The framework that the code needs; ranges compare release numbers only (2.14.0a0 counts as 2.14)."""

    name: Annotated[str, Field(min_length=1, max_length=63)] = "pytorch"
    """The framework's name."""
    version: Range | None = None
    """A version range, for example >=2.10,<2.15."""
    python: Range | None = None
    """A range of Python versions, for example >=3.11."""


class OwnImage(Shape):
    """An image of the user's for one software stack."""

    image: Reference
    """The container image."""
    runtime: DnsName | None = None
    """A GPURuntime whose facts (architectures, driver, versions) hold for this image; unknown facts give a warning."""


class Images(Shape):
    """The user's own images. One of the two alone restricts the job to that stack."""

    cuda: OwnImage | None = None
    """The image for NVIDIA pools."""
    rocm: OwnImage | None = None
    """The image for AMD pools."""


class Resources(Shape):
    """Resources of each pod besides GPUs. Unset: the share of the node that belongs to its GPUs."""

    cpu: Millicores | None = None
    """CPU cores, for example 16 or 500m."""
    memory: Memory | None = None
    """Main memory, shared memory included, for example 200Gi."""
    ephemeral_storage: Storage | None = None
    """Local disk, for example 100Gi."""
    shared_memory: Memory | None = None
    """The size of /dev/shm, for example 16Gi; counts in memory. Unset: a quarter of memory, at least 1Gi, at most 64Gi."""


class AllowDenyAccelerators(Shape):
    """Accelerators by their catalog ids, for example MI300X, in any case; H100, A100 or MI300 mean each of their boards and sizes."""

    allow: Annotated[tuple[Word, ...], a_set(items=64)] = ()
    """Only these; all when empty."""
    deny: Annotated[tuple[Word, ...], a_set(items=64)] = ()
    """None of these; nothing is left out when empty."""


class AllowDenyPools(Shape):
    """Pools by name."""

    allow: Annotated[tuple[DnsName, ...], a_set(items=64)] = ()
    """Only these; all when empty."""
    deny: Annotated[tuple[DnsName, ...], a_set(items=64)] = ()
    """None of these; nothing is left out when empty. A pool may have no node now: an unknown name is a warning."""


class Probe(Shape):
    """Probes before the job is placed: one on each kind of device with room, so that the choice rests on measurements."""

    steps: Annotated[int, Field(ge=1, le=100000)]
    """Optimizer steps of a probe; the program ends after them, and starts again on the chosen pool."""


class Placement(Shape):
    """What the choice of a pool may depend on. Unset: every pool of both vendors that is not spot."""

    vendors: Annotated[tuple[Literal["AMD", "NVIDIA"], ...], a_set(items=2)] = ()
    """Vendors that may be chosen, for example [AMD]; both when empty."""
    accelerators: AllowDenyAccelerators | None = None
    """Accelerators that may be chosen."""
    pools: AllowDenyPools | None = None
    """Pools that may be chosen."""
    devices: Annotated[tuple[Literal["Whole", "Partition", "Shared", "Integrated"], ...], a_set(items=4)] = ()
    """Kinds of devices that are accepted; Whole when empty. Partition: MIG slices and AMD partitions. Shared: time-slicing
    and MPS, without isolation of memory. Integrated: devices that share the host's memory."""
    capacity_types: Annotated[tuple[Literal["OnDemand", "Reserved", "Spot"], ...], a_set(items=3)] = ()
    """Ways of paying that are accepted, for example [OnDemand, Spot]; OnDemand and Reserved when empty, Spot only if listed."""
    objective: Literal["Value", "Cost", "Speed"] | None = None
    """What to optimise: Value, the price of the work (of the hour where no speed is known); Cost, the price of the whole
    job for an hour; Speed, how fast the whole job is. When absent, Value for a job with a model, a profile or a probe, else
    Cost."""
    max_price_per_hour: Money | None = None
    """The most that the whole job may cost an hour, in US dollars in quotes, for example "20.00"; pools without a known price are
    then rejected.
    """
    budget: Budget | None = None
    """The most that the job may cost over all its attempts, in US dollars in quotes, for example "500.00". At the limit the
    program gets SIGTERM and the job is suspended; a higher budget resumes it. Pools without a known price are rejected."""
    wait_seconds: Annotated[int, Field(ge=0, le=604800)] | None = None
    """Seconds from its creation that the job waits for a better pool before it takes the next best; 0 when absent."""
    exploration: Money | None = None
    """US dollars in quotes, for example "5.00", that the job may cost more than on the best measured device, by estimate, to
    try one that its profile has not measured yet; nothing is tried when absent."""
    probe: Probe | None = None
    """Short trials on each kind of device with room, then the real run on the best of them."""


class ShapeChoice(Shape):
    """One way to run the whole job: nodes × GPUs, and its differences from the job's own settings."""

    accelerator: Word | None = None
    """Only on this accelerator (a catalog id such as MI300X); any when absent."""
    nodes: Nodes | None = None
    """Number of nodes, one pod each, all or none; 1 when absent."""
    gpus_per_node: GPUsPerNode | None = None
    """GPUs of each pod; 1 when absent."""
    env: Annotated[tuple[EnvironmentVariable, ...], list_map("name", items=32)] = ()
    """Variables of this shape; they win over the job's own."""
    args: Annotated[tuple[Argument, ...], a_list(items=64)] = ()
    """The program's arguments in this shape, instead of the job's; the job's when empty."""


class Telemetry(Shape):
    """How the job's speed is measured: the runner counts steps, these fields give the size of a step."""

    port: Annotated[int, Field(ge=1024, le=65535)] | None = None
    """The port of each pod at which its figures are read; 9466 when absent; unused where pods are on the network of their nodes."""
    samples_per_step: Annotated[int, Field(ge=1, le=1_000_000_000)] | None = None
    """Samples of one optimizer step of the whole job; unset: only steps are counted."""
    tokens_per_step: Annotated[int, Field(ge=1, le=1_000_000_000_000)] | None = None
    """Tokens of one optimizer step of the whole job; unset: only steps are counted."""


class Retries(Shape):
    """How often the job is tried again after an attempt failed; the two counts are never mixed."""

    user: Annotated[int, Field(ge=0, le=100)] | None = None
    """After failures of the program or of the job's spec; 0 when absent. The attempt stays on the same pool."""
    infrastructure: Annotated[int, Field(ge=0, le=100)] | None = None
    """After failures of nodes, devices and the network, evictions and preemptions; 5 when absent."""
    within_seconds: Annotated[int, Field(ge=1, le=31536000)] | None = None
    """Seconds after the job's first failure within which it is tried again, whatever is left of the two counts; without limit when
    absent."""
    memory_factor: Annotated[str, Within("a factor", "1.2", least="1", most=8)] | None = None
    """After an attempt ran out of GPU memory the next one asks for this many times the memory that would have held it, for example
    "1.2", and may go to another pool for it. It counts in `user`. When absent, it asks for what the job says."""


class Stall(Shape):
    """When a running job counts as one that stands still, and what follows. The clock stands while it compiles, evaluates or saves."""

    after_seconds: Annotated[int, Field(ge=10, le=604800)] | None = None
    """Seconds without a step; six times the job's slowest step, 90 to 900, when absent."""
    first_step_seconds: Annotated[int, Field(ge=10, le=604800)] | None = None
    """Seconds until the first step; 1800 when absent."""
    phase_seconds: Annotated[int, Field(ge=10, le=604800)] | None = None
    """Seconds of a phase without a batch for which the clock stands; six times its longest earlier one, at least 7200, when absent."""
    action: Literal["Tell", "Restart", "Fail"] | None = None
    """`Tell`: condition Stalled, an event and a metric say it, the job runs on. Restart: the attempt ends, and the next one goes on
    from the checkpoint; it counts in retries.infrastructure. Fail: the job is Failed and gives its GPUs back. `Tell` when absent."""


CHECKPOINTS: Final = "/checkpoint"
"""The folder of checkpoints where checkpoint.path does not say."""


class Checkpoint(Shape):
    """Where the program keeps its checkpoints, and where a later attempt may go on from them."""

    volume: DnsLabel | None = None
    """The entry of `volumes` that holds them: a PersistentVolumeClaim or a CSI volume that can be written. Unset: the program
    keeps them elsewhere, for example in an object store."""
    path: Path | None = None
    """The folder, which the program finds in GPUJOB_CHECKPOINT_DIR. The volume is mounted there unless volumeMounts does it;
    /checkpoint when absent."""
    resume_on: Literal["SameVendor", "AnyVendor"] | None = None
    """SameVendor: once the program ran, later attempts stay on that vendor. AnyVendor: they go on at either vendor, for programs
    whose checkpoints do not depend on it. SameVendor when absent."""


class GPUJobSpec(Shape):
    """What to run and what it needs; the operator chooses vendor, image, pool and nodes."""

    command: Annotated[tuple[Argument, ...], a_list(items=64)] = ()
    """The program, as the container's entry point, for example [torchrun, train.py]; the image's own when empty. It is never
    wrapped."""
    args: Annotated[tuple[Argument, ...], a_list(items=1024)] = ()
    """The program's arguments."""
    working_dir: Path | None = None
    """The working directory. Unset: the code folder if there is `code`, else the image's own."""
    env: Environment = ()
    """Environment variables. GPUJOB_* and PET_* are the operator's."""
    env_from: Annotated[tuple[EnvironmentFrom, ...], a_list(items=32)] = ()
    """ConfigMaps and Secrets whose keys become environment variables."""
    env_by_backend: EnvironmentByBackend | None = None
    """Variables for one software stack only."""
    volumes: Annotated[tuple[Volume, ...], list_map("name", items=64)] = ()
    """Volumes; hostPath is not offered."""
    volume_mounts: Annotated[tuple[VolumeMount, ...], list_map("mountPath", items=64)] = ()
    """Where the volumes are mounted."""
    code: Code | None = None
    """Vendor-neutral code to run under the chosen image."""
    framework: Framework | None = None
    """The framework and the versions that the code needs."""
    requires: Annotated[tuple[Word, ...], a_set(items=32)] = ()
    """Features that device and image must have, for example BF16, FP8OCP or FP8FNUZ (8-bit floats are two formats),
    FlashAttention; none when empty. kubectl gpujob catalog features lists them."""
    images: Images | None = None
    """The user's own images instead of the catalog's."""
    nodes: Nodes | None = None
    """Number of nodes, one pod each, all or none; 1 when absent."""
    gpus_per_node: GPUsPerNode | None = None
    """GPUs of each pod; 1 when absent."""
    shapes: Annotated[tuple[ShapeChoice, ...], a_list(items=16)] = ()
    """Whole-gang alternatives instead of nodes and gpusPerNode: the job runs as exactly one of them, on one vendor.
    An empty list says nothing."""
    gpu_memory: Memory | None = None
    """Usable memory that each GPU must have, as the framework sees it, for example 70G: 80G fits an "80 GB" card, 80Gi does not."""
    model: Model | None = None
    """A model and what is done with it: the memory that each GPU needs is estimated, instead of gpuMemory."""
    resources: Resources | None = None
    """CPU, memory, disk and shared memory of each pod."""
    profile: DnsLabel | None = None
    """A name of your own, for example llama-8b-lora. Jobs of one profile do the same work: what one measures counts in the placement
    of the next (GPUJobProfile)."""
    placement: Placement | None = None
    """What the choice of a pool may depend on."""
    priority_class_name: ObjectName | None = None
    """A PriorityClass: of the jobs that wait, the one with the higher value is placed first, then the older one. The pods have it too,
    with what it says of preemption; the placement itself takes free GPUs alone."""
    suspend: bool | None = None
    """True: plan only. The status shows where the job would go; nothing is created."""
    retries: Retries | None = None
    """How often the job is tried again after an attempt failed. A new attempt is a new Job; pauses between them grow."""
    checkpoint: Checkpoint | None = None
    """Where checkpoints are kept. The program loads the last one when GPUJOB_ATTEMPT is above 1."""
    stall: Stall | None = None
    """What a running job that makes no step leads to. A job without it gets the condition Stalled as well, where its reporter counts
    steps."""
    active_deadline_seconds: Annotated[int, Field(ge=1, le=2147483647)] | None = None
    """Seconds that the job may run, all attempts together, counted while all its pods run. Then the program gets SIGTERM and the
    job is Failed; without limit when absent."""
    ttl_seconds_after_finished: Annotated[int, Field(ge=0, le=2147483647)] | None = None
    """Seconds after its end when the GPUJob is deleted, with its pods and their logs; it stays when absent."""
    image_pull_secrets: Annotated[tuple[LocalReference, ...], list_map("name", items=16)] = ()
    """Secrets for private registries, in the job's namespace."""
    security_context: SecurityContext | None = None
    """Whom the training process runs as; uid 1000, non-root when absent."""
    service_account_name: ObjectName | None = None
    """A ServiceAccount of the job's namespace that the admin allows, for what a cloud gives to it, such as reading a bucket. No token
    for the API server is mounted; `default` when absent."""
    pod_metadata: PodMetadata | None = None
    """Labels and annotations added to the pods."""
    preflight: Literal["Required", "Warn", "Disabled"] | None = None
    """What a failed check of image, devices, memory and folders does before the program starts. Required: the job fails
    with the reason. Warn: the condition PreflightPassed says it, the program runs. Disabled: nothing is checked and, unless
    telemetry is set, nothing is measured. Required when absent."""
    telemetry: Telemetry | None = None
    """How the job's speed is measured."""
    termination_grace_period_seconds: Annotated[int, Field(ge=0, le=3600)] | None = None
    """Seconds between SIGTERM and SIGKILL. When absent, 30; with `checkpoint` 120, and in later attempts 30 more than twice what the
    slowest save took."""


class GPUJob(Shape):
    """A PyTorch job that runs on AMD or NVIDIA GPUs, wherever it fits best; one manifest for both."""

    api_version: Literal["gpujob.dev/v1alpha1"] = API_VERSION  # type: ignore[assignment]
    kind: Literal["GPUJob"] = "GPUJob"
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)  # an instance here would build its validator at import
    spec: GPUJobSpec = Field(default_factory=GPUJobSpec)
    """What to run and what it needs."""
    status: GPUJobStatus | None = None
    """What became of it."""
