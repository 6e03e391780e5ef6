"""GPUJob: the user's spec; the status is in `gpujob_status`. A spec needs no vendor's terms.

Every field here has an effect. `kubectl explain` prints the docstring under a field.
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
    """Variables of jobs that run on an NVIDIA pool."""
    rocm: Environment = ()
    """Variables of jobs that run on an AMD pool."""


class CodeConfigMap(Shape):
    """Code from a ConfigMap: each key is a file."""

    name: ObjectName
    """The ConfigMap's name, in the job's namespace."""


class CodeClaim(Shape):
    """Code from a PersistentVolumeClaim."""

    claim_name: ObjectName
    """The claim's name, in the job's namespace."""
    sub_path: Annotated[str, Field(max_length=1024)] | None = None
    """The folder inside the volume; the whole volume when absent."""


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
    """A container image of your own for one software stack."""

    image: Reference
    """The container image."""
    runtime: DnsName | None = None
    """A GPURuntime whose facts (architectures, driver, versions) hold for this image; unknown facts give a warning."""


class Images(Shape):
    """Your own images. If only one of the two is set, the job runs on that stack alone."""

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
    """Only these are allowed; all when empty."""
    deny: Annotated[tuple[Word, ...], a_set(items=64)] = ()
    """These are excluded; none when empty."""


class AllowDenyPools(Shape):
    """Pools by name."""

    allow: Annotated[tuple[DnsName, ...], a_set(items=64)] = ()
    """Only these are allowed; all when empty."""
    deny: Annotated[tuple[DnsName, ...], a_set(items=64)] = ()
    """These are excluded; none when empty. An unknown name gives a warning, because the pool may have no node now."""


class Probe(Shape):
    """Probes before the job is placed: one on each kind of device with room, so that the choice rests on measurements."""

    steps: Annotated[int, Field(ge=1, le=100000)]
    """Optimizer steps of a probe; the program ends after them, and starts again on the chosen pool."""


class Placement(Shape):
    """What limits and ranks the pools. Unset: every pool of both vendors that is not Spot."""

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
    """Capacity types that are accepted, for example [OnDemand, Spot]; OnDemand and Reserved when empty, Spot only if listed."""
    objective: Literal["Value", "Cost", "Speed"] | None = None
    """What to optimise: Value, the price of the work (of the hour if no speed is known); Cost, the price of the whole
    job for an hour; Speed, the speed of the whole job. When absent, Value for a job with a model, a profile or a probe, else
    Cost."""
    max_price_per_hour: Money | None = None
    """The most that the whole job may cost an hour, in US dollars in quotes, for example "20.00"; pools without a known price are
    then rejected."""
    budget: Budget | None = None
    """The most that the job may cost over all its attempts, in US dollars in quotes, for example "500.00". At the limit the
    program gets SIGTERM and the job is suspended; a higher budget resumes it. Pools without a known price are rejected."""
    wait_seconds: Annotated[int, Field(ge=0, le=604800)] | None = None
    """Seconds from its creation that the job waits for a better pool before it takes the next best; 0 when absent."""
    exploration: Money | None = None
    """US dollars in quotes, for example "5.00": the estimated extra cost that the job may have on a device that its profile has not
    measured yet, compared with the best measured device. When absent, the job tries no such device."""
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
    """Variables of this shape; they replace the job's variables of the same name."""
    args: Annotated[tuple[Argument, ...], a_list(items=64)] = ()
    """The program's arguments in this shape, in place of the job's; the job's when empty."""


class Telemetry(Shape):
    """How the job's speed is measured: the reporter counts steps, these fields give the size of a step."""

    port: Annotated[int, Field(ge=1024, le=65535)] | None = None
    """The port of each pod that serves its figures; 9466 when absent. It has no effect on pods on the network of their nodes."""
    samples_per_step: Annotated[int, Field(ge=1, le=1_000_000_000)] | None = None
    """Samples of one optimizer step of the whole job; when absent, the reporter counts those of the DataLoader."""
    tokens_per_step: Annotated[int, Field(ge=1, le=1_000_000_000_000)] | None = None
    """Tokens of one optimizer step of the whole job; when absent, the reporter counts those of the DataLoader."""


class Retries(Shape):
    """How often the job is tried again after an attempt failed; the two counts never mix."""

    user: Annotated[int, Field(ge=0, le=100)] | None = None
    """After failures of the program or of the job's spec; 0 when absent. The attempt stays on the same pool."""
    infrastructure: Annotated[int, Field(ge=0, le=100)] | None = None
    """After failures of nodes, devices and the network, evictions and preemptions; 5 when absent."""
    within_seconds: Annotated[int, Field(ge=1, le=31536000)] | None = None
    """Seconds from the job's first failure in which it is tried again; later failures end the job, whatever is left of the two
    counts. No limit when absent."""
    memory_factor: Annotated[str, Within("a factor", "1.2", least="1", most=8)] | None = None
    """After a GPU out of memory, the next attempt asks for the memory that would have been enough times this factor, for example
    "1.2", and may go to another pool. The failure counts in `user`. When absent, the next attempt asks for the job's own amount."""


class Stall(Shape):
    """When a running job stands still, and what follows. The clock is paused while the program compiles, evaluates or saves."""

    after_seconds: Annotated[int, Field(ge=10, le=604800)] | None = None
    """Seconds without a step; six times the job's slowest step, 90 to 900, when absent."""
    first_step_seconds: Annotated[int, Field(ge=10, le=604800)] | None = None
    """Seconds until the first step; 1800 when absent."""
    phase_seconds: Annotated[int, Field(ge=10, le=604800)] | None = None
    """Seconds without a batch for which a phase pauses the clock; six times its longest earlier one, at least 7200, when absent."""
    action: Literal["Tell", "Restart", "Fail"] | None = None
    """`Tell`: condition Stalled, an event and a metric report it, the job runs on. Restart: the attempt ends and counts in
    retries.infrastructure; the next one continues from the checkpoint. Fail: the job is Failed. `Tell` when absent."""


CHECKPOINTS: Final = "/checkpoint"
"""The folder of checkpoints when checkpoint.path is absent."""


class Checkpoint(Shape):
    """Where the program keeps its checkpoints, and on which vendor a later attempt may continue from them."""

    volume: DnsLabel | None = None
    """The entry of `volumes` that holds the checkpoints: a writable PersistentVolumeClaim or CSI volume. Unset: the program
    keeps them elsewhere, for example in an object store."""
    path: Path | None = None
    """The folder of the checkpoints; the program gets it in GPUJOB_CHECKPOINT_DIR. The volume is mounted there, unless volumeMounts
    has the mount. /checkpoint when absent."""
    resume_on: Literal["SameVendor", "AnyVendor"] | None = None
    """SameVendor: once the program ran, later attempts stay on that vendor. AnyVendor: later attempts may run on either vendor; the
    checkpoints must not depend on it. SameVendor when absent."""


class GPUJobSpec(Shape):
    """What to run and what it needs; the operator chooses vendor, image, pool and nodes."""

    command: Annotated[tuple[Argument, ...], a_list(items=64)] = ()
    """The program, as the container's entry point, for example [torchrun, train.py]; the image's own when empty. The operator
    does not wrap it in a shell."""
    args: Annotated[tuple[Argument, ...], a_list(items=1024)] = ()
    """The program's arguments."""
    working_dir: Path | None = None
    """The working directory. Unset: the code folder if there is `code`, else the image's own."""
    env: Environment = ()
    """Environment variables. Only the operator sets GPUJOB_* and PET_*."""
    env_from: Annotated[tuple[EnvironmentFrom, ...], a_list(items=32)] = ()
    """ConfigMaps and Secrets whose keys become environment variables."""
    env_by_backend: EnvironmentByBackend | None = None
    """Variables for one software stack only."""
    volumes: Annotated[tuple[Volume, ...], list_map("name", items=64)] = ()
    """Volumes; hostPath is not available."""
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
    """Your own images in place of the catalog's."""
    nodes: Nodes | None = None
    """Number of nodes, one pod each, all or none; 1 when absent."""
    gpus_per_node: GPUsPerNode | None = None
    """GPUs of each pod; 1 when absent."""
    shapes: Annotated[tuple[ShapeChoice, ...], a_list(items=16)] = ()
    """Whole-gang alternatives instead of nodes and gpusPerNode: the job runs as exactly one of them, on one vendor.
    An empty list has no effect."""
    gpu_memory: Memory | None = None
    """Usable memory that each GPU must have, as the framework sees it, for example 70G: 80G fits an "80 GB" card, 80Gi does not."""
    model: Model | None = None
    """A model and its use, in place of gpuMemory: the operator estimates the memory that each GPU needs."""
    resources: Resources | None = None
    """CPU, memory, disk and shared memory of each pod."""
    profile: DnsLabel | None = None
    """A name of your own, for example llama-8b-lora. Jobs of one profile do the same work: the measurements of one job count in the
    placement of the next (GPUJobProfile)."""
    placement: Placement | None = None
    """What limits and ranks the pools that the job may get."""
    priority_class_name: ObjectName | None = None
    """A PriorityClass: among waiting jobs, the one with the higher value is placed first, then the older one. The pods get the class
    and its preemption policy; the placement itself uses free GPUs only."""
    suspend: bool | None = None
    """True: plan only. The status shows where the job would go, no pods are created, and those of a running job end."""
    retries: Retries | None = None
    """How often the job is tried again after an attempt failed. A new attempt is a new Job; pauses between them grow."""
    checkpoint: Checkpoint | None = None
    """Where the program keeps checkpoints. It loads the last one if GPUJOB_ATTEMPT is above 1."""
    stall: Stall | None = None
    """What happens to a running job that makes no step. Without this field the job still gets the condition Stalled, if its reporter
    counts steps."""
    active_deadline_seconds: Annotated[int, Field(ge=1, le=2147483647)] | None = None
    """Seconds that the job may run, all attempts together, counted while all its pods run. Then the program gets SIGTERM and the
    job is Failed. No limit when absent."""
    ttl_seconds_after_finished: Annotated[int, Field(ge=0, le=2147483647)] | None = None
    """Seconds from the job's end until the operator deletes the GPUJob, with its pods and their logs; it stays when absent."""
    image_pull_secrets: Annotated[tuple[LocalReference, ...], list_map("name", items=16)] = ()
    """Secrets for private registries, in the job's namespace."""
    security_context: SecurityContext | None = None
    """The user and groups of the training process; uid 1000, non-root when absent."""
    service_account_name: ObjectName | None = None
    """A ServiceAccount of the job's namespace that the admin allows, for rights that a cloud gives to it, such as reading a bucket.
    Pods get no token for the API server. `default` when absent."""
    pod_metadata: PodMetadata | None = None
    """Labels and annotations added to the pods."""
    preflight: Literal["Required", "Warn", "Disabled"] | None = None
    """What a failed check of image, devices, memory and folders does before the program starts. Required: the job fails
    with the reason. Warn: the condition PreflightPassed reports it, the program runs. Disabled: nothing is checked and, unless
    telemetry is set, nothing is measured. Required when absent."""
    telemetry: Telemetry | None = None
    """How the job's speed is measured."""
    termination_grace_period_seconds: Annotated[int, Field(ge=0, le=3600)] | None = None
    """Seconds between SIGTERM and SIGKILL. When absent, 30; with `checkpoint` 120, and in later attempts 30 more than twice the
    duration of the slowest save."""


class GPUJob(Shape):
    """A PyTorch job that runs on AMD or NVIDIA GPUs, on the pool that fits best; one manifest for both."""

    api_version: Literal["gpujob.dev/v1alpha1"] = API_VERSION  # type: ignore[assignment]
    kind: Literal["GPUJob"] = "GPUJob"
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)  # an instance here would build its validator at import
    spec: GPUJobSpec = Field(default_factory=GPUJobSpec)
    """What to run and what it needs."""
    status: GPUJobStatus | None = None
    """The state of the job."""
