"""Every word that users, conditions, events, metrics and labels share, each defined once with one sentence.

`reasons` has the reasons; the rooms use these members, never their text.
"""

from __future__ import annotations

from enum import StrEnum, unique
from typing import Final

from gpujob.values.reasons import FIXABLE_REASONS as FIXABLE_REASONS
from gpujob.values.reasons import Reason as Reason

GROUP: Final = "gpujob.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
FIELD_MANAGER: Final = "gpujob-operator"
TELEMETRY_PORT: Final = "telemetry"
"""The name of the training container's port on which its reporter serves."""
REPORT_OPTIMIZER: Final = "GPUJOB_REPORT_OPTIMIZER"
"""The one variable of the operator that a job may set: Off keeps the reporter out of optimizers."""
KILLED: Final = (137, 143)
"""Exit codes of a terminated program: SIGKILL and SIGTERM."""
PREFLIGHT: Final = "preflight"
"""The init container that checks image and devices; its result is in its termination message."""
RUNNER_PREFIX: Final = "gpujob-runner-"
"""The name prefix of the ConfigMaps that bring the runner into pods; the hash of their content follows."""


@unique
class Vendor(StrEnum):
    """Who makes the device; one gang never mixes them."""

    AMD = "AMD"
    NVIDIA = "NVIDIA"

    @property
    def resource(self) -> str:
        """The resource under which this vendor's device plugin offers whole devices."""
        return "amd.com/gpu" if self is Vendor.AMD else "nvidia.com/gpu"


@unique
class Backend(StrEnum):
    """The software stack that a container image is built for."""

    CUDA = "CUDA"
    ROCM = "ROCm"

    @property
    def vendor(self) -> Vendor:
        """The vendor whose devices this stack drives."""
        return Vendor.NVIDIA if self is Backend.CUDA else Vendor.AMD


@unique
class DeviceKind(StrEnum):
    """What one Kubernetes device is; a job takes whole ones unless placement.devices lists more."""

    WHOLE = "Whole"
    """A whole device, or a GCD of an MI250X card."""
    PARTITION = "Partition"
    """A fraction with memory of its own: a MIG slice, an AMD partition (DPX, QPX, CPX), a virtual fraction."""
    SHARED = "Shared"
    """A share of a device that other pods use at the same time: time-slicing, MPS."""
    INTEGRATED = "Integrated"
    """A device that shares its memory with the host: an APU, GB10."""


@unique
class DeviceMode(StrEnum):
    """How a pool's pods get its devices."""

    DEVICE_PLUGIN = "DevicePlugin"
    """By a resource name in their limits, which a device plugin or a DeviceClass offers."""
    DRA = "DRA"
    """By a ResourceClaim, or by the resource name that the devices' DeviceClass has."""
    HOST_DEVICES = "HostDevices"
    """By the host's device files: privileged, all GPUs of a node, only in a GPUPool that says so."""


@unique
class HostAccess(StrEnum):
    """What of the host an installation lets GPUPools give to pods: values of the chart's `admission`."""

    DEVICES = "hostDevices"
    NETWORK = "hostNetwork"


@unique
class CapacityType(StrEnum):
    """How a node is paid for, and so whether the cloud can reclaim it."""

    ON_DEMAND = "OnDemand"
    RESERVED = "Reserved"
    SPOT = "Spot"


@unique
class Objective(StrEnum):
    """What the choice of a pool optimises."""

    VALUE = "Value"
    """The price of the work: the job's cost an hour divided by its speed."""
    COST = "Cost"
    """The price of the whole job for an hour."""
    SPEED = "Speed"
    """How fast the whole job is."""


@unique
class WorkKind(StrEnum):
    """What a job does with its GPUs."""

    TRAINING = "Training"
    """Training of all weights."""
    FINE_TUNING = "FineTuning"
    """Training of adapters on frozen weights."""
    INFERENCE = "Inference"
    """Forward passes only."""


@unique
class Precision(StrEnum):
    """The number format of a job's matrix products; weights have the same, or 32 bits under Mixed and FP8."""

    FP8 = "FP8"
    BF16 = "BF16"
    FP16 = "FP16"
    FP32 = "FP32"
    MIXED = "Mixed"
    """16 bits in the device's format: BF16, or FP16 on older devices."""


@unique
class RunFormat(StrEnum):
    """The number format of a measured run's matrix products."""

    FP32 = "FP32"
    FP16 = "FP16"
    BF16 = "BF16"
    FP8 = "FP8"
    INT8 = "INT8"
    FP4 = "FP4"


@unique
class Evidence(StrEnum):
    """The source of a measured throughput, the most trusted first."""

    AUDITED = "Audited"
    """Peers audited it (MLCommons)."""
    MEASURED = "Measured"
    """Measured by a party that sells none of the devices."""
    CLAIMED = "Claimed"
    """Stated by the vendor of the device."""


@unique
class Outcome(StrEnum):
    """The outcome of a candidate (pool × runtime × gang)."""

    CHOSEN = "Chosen"
    FITS = "Fits"
    BUSY = "Busy"
    MISCONFIGURED = "Misconfigured"
    REJECTED = "Rejected"


@unique
class Verdict(StrEnum):
    """The outcome of a job's placement; the three kinds of "no" are never mixed."""

    PLACED = "Placed"
    WAITING = "Waiting"
    MISCONFIGURED = "Misconfigured"
    IMPOSSIBLE = "Impossible"


@unique
class State(StrEnum):
    """The one-word summary of a GPUJob, computed from its conditions and pods."""

    QUEUED = "Queued"
    PLACED = "Placed"
    STARTING = "Starting"
    RUNNING = "Running"
    SUSPENDED = "Suspended"
    RESTARTING = "Restarting"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    MISCONFIGURED = "Misconfigured"
    IMPOSSIBLE = "Impossible"


@unique
class ConditionType(StrEnum):
    """Condition types of a GPUJob and of a GPUPool."""

    PLACED = "Placed"
    """Whether pool, nodes and image are chosen."""
    RUNNING = "Running"
    """Whether every pod of the job runs."""
    PREFLIGHT_PASSED = "PreflightPassed"
    """Whether image, devices, memory and folders were as expected when the pods started."""
    COMPLETE = "Complete"
    """Whether the job ended well."""
    FAILED = "Failed"
    """Whether the job ended badly."""
    SUSPENDED = "Suspended"
    """Whether the job is a plan only."""
    STALLED = "Stalled"
    """Whether the job makes no step for longer than its bound."""
    TELEMETRY_REACHABLE = "TelemetryReachable"
    """Whether the operator can read what the job's program reports."""
    OVERLAPS = "Overlaps"
    """Whether an older GPUPool claims nodes that this one selects too."""
    EDITED = "Edited"
    """Whether a user changed the spec of a GPUPool that the operator wrote, which has no effect."""
    READ = "Read"
    """Whether the devices of a GPUPool are known and jobs can use them; its message has the warnings."""


@unique
class Method(StrEnum):
    """What is done with a model."""

    FULL = "Full"
    LORA = "LoRA"
    QLORA = "QLoRA"
    INFERENCE = "Inference"


@unique
class Optimizer(StrEnum):
    """What updates the weights, by the states that it keeps."""

    ADAMW = "AdamW"
    """As fused=True updates, in place."""
    ADAMW_FOREACH = "AdamWForeach"
    """PyTorch's default on a GPU (foreach): all parameters at once."""
    ADAMW_8BIT = "AdamW8Bit"
    PAGED_ADAMW_8BIT = "PagedAdamW8Bit"
    ADAFACTOR = "Adafactor"
    LION = "Lion"
    SGD = "SGD"
    SGD_MOMENTUM = "SGDMomentum"


@unique
class Checkpointing(StrEnum):
    """Which activations are recomputed in the backward pass instead of kept."""

    NONE = "None"
    LAYERS = "Layers"
    SELECTIVE = "Selective"


@unique
class Sharding(StrEnum):
    """What is sharded over the GPUs of a gang."""

    NONE = "None"
    ZERO1 = "ZeRO1"
    ZERO2 = "ZeRO2"
    ZERO3 = "ZeRO3"
    FSDP = "FSDP"
    TENSOR_PARALLEL = "TensorParallel"


@unique
class PreflightMode(StrEnum):
    """The effect of a failed preflight on a job."""

    REQUIRED = "Required"
    """The job fails before its program starts."""
    WARN = "Warn"
    """The condition reports it, the program runs."""
    DISABLED = "Disabled"
    """Nothing is checked."""


@unique
class WeightFormat(StrEnum):
    """Number formats of less than 16 bits in which weights are published and served."""

    FP8 = "FP8"
    """8 bits; embedding and head in 16."""
    INT8 = "INT8"
    """As FP8, of whole numbers (GPTQ-Int8, w8a8, bitsandbytes in 8 bits)."""
    INT4 = "INT4"
    """4 bits with a 16-bit scale and a zero for each 128 (AWQ, GPTQ)."""
    FP4 = "FP4"
    """4 bits with an 8-bit scale for each 16 (NVFP4)."""
    NF4 = "NF4"
    """4 bits with a 32-bit scale for each 64 (bitsandbytes)."""
    MXFP4 = "MXFP4"
    """4 bits with an 8-bit scale for each 32, of experts alone; all else in 16."""


SPENDING: Final = "gpujob-spending"
"""The ConfigMap of the operator's namespace that says what namespaces with a monthly budget have spent."""


class Label:
    """Label keys that the operator writes."""

    JOB = f"{GROUP}/job"
    """On children and pods: the GPUJob's name, cut to a label's length."""
    JOB_UID = f"{GROUP}/job-uid"
    """On children and pods: the GPUJob's uid; the selector of everything that belongs to it."""
    ATTEMPT = f"{GROUP}/attempt"
    """On children and pods: the number of the attempt."""
    HOST_DEVICES = f"{GROUP}/host-devices"
    """On pods that get the host's device files: of these a node takes one."""
    DISCOVERED = f"{GROUP}/discovered"
    """On GPUPool objects that the operator found, in contrast to those of an admin."""
    DISCOVERED_POOL = f"{GROUP}/discovered-pool"
    """In the selector of a discovered GPUPool. No node has it: such a pool is grouped by facts and selects nothing."""
    RUNNER = f"{GROUP}/runner"
    """On the ConfigMaps that bring the runner into pods."""
    MANAGED_BY = "app.kubernetes.io/managed-by"
    """On everything that the operator creates: `gpujob-operator`."""


class Annotation:
    """Annotation keys that the operator reads or writes."""

    PRICE_PER_GPU_HOUR = f"{GROUP}/price-per-gpu-hour"
    """On a Node, by an admin: US dollars an hour for each GPU."""
    MONTHLY_BUDGET = f"{GROUP}/monthly-budget"
    """On a Namespace, by an admin: US dollars that its jobs may cost in a month before no other one starts."""
    PLACEMENT = f"{GROUP}/placement"
    """On a child Job: the chosen candidate, for the time before the status write."""
    DIGEST = f"{GROUP}/decision"
    """On a child Job: the digest of the decision it was made from."""
    GENERATION = f"{GROUP}/generation"
    """On a child Job: the generation of the GPUJob whose spec it was made from."""
    SPEC = f"{GROUP}/spec"
    """On a child Job: the digest of that spec, without the fields that may change at any time."""
    CLAIMS = f"{GROUP}/claims"
    """On a child Job whose pods get devices by ResourceClaims: the devices and their number in each."""
    JOB_NAME = f"{GROUP}/job-name"
    """On children: the GPUJob's full name."""
