"""Reasons: one word for each state of a candidate, job, pool or pod, with its meaning and remedy. docs/reasons.md shows them all."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Reason(StrEnum):
    """Why: one CamelCase word for a condition, an event, a candidate or a warning; "none" is a remedy for nothing."""

    meaning: str
    remedy: str

    def __new__(cls, word: str, meaning: str = "", remedy: str = "") -> Reason:
        reason = str.__new__(cls, word)
        reason._value_, reason.meaning, reason.remedy = word, meaning, remedy
        return reason

    # fmt: off
    # A pool can never run the job.
    VENDOR_EXCLUDED = ("VendorExcluded", "placement.vendors or the vendors of images exclude this vendor", "name it there")
    ACCELERATOR_EXCLUDED = ("AcceleratorExcluded", "placement.accelerators or the shape excludes this accelerator", "allow it there")
    POOL_EXCLUDED = ("PoolExcluded", "placement.pools excludes this pool", "allow it there")
    PROBE_FAILED = ("ProbeFailed", "the job's own probe failed on this pool", "read its message; an edited job tries again")
    CAPACITY_TYPE_EXCLUDED = ("CapacityTypeExcluded", "placement.capacityTypes excludes the capacity type of the nodes",
        "add the type")
    DEVICE_EXCLUDED = ("DeviceExcluded",
        "the pool has another kind of devices (whole, parts, shared or integrated) than the job asks for",
        "add the kind to placement.devices")
    SHARED_DEVICE = ("SharedDevice", "other pods use the same device at the same time, and nothing isolates its memory",
        "add Shared to placement.devices, with one GPU a job")
    MEM_TOO_SMALL = ("MemTooSmall", "a GPU has less usable memory than the job or its model needs",
        "lower gpuMemory, shard the model over more GPUs, or use larger ones")
    ARCH_UNSUPPORTED = ("ArchUnsupported", "the image has no code for this device, or no framework build has",
        "name another image in images, or allow another accelerator")
    CPU_ARCH_MISMATCH = ("CpuArchMismatch", "the image is not built for the processors of the nodes",
        "name an image for that architecture in images")
    DRIVER_TOO_OLD = ("DriverTooOld", "the nodes' driver is older than the image needs", "upgrade the driver, or use an older image")
    MEM_RAN_OUT = ("MemRanOut",
        "an attempt ran out of GPU memory, the job now asks for more (retries.memoryFactor), and the device has less",
        "use a smaller batch, or a larger GPU")
    PRECISION_UNSUPPORTED = ("PrecisionUnsupported", "the device does not compute in model.precision, or does not read the weights",
        "set another precision, or allow another accelerator")
    FRAMEWORK_UNSUPPORTED = ("FrameworkUnsupported",
        "the image lacks the framework's version, Python or package that the job asks for, or the device lacks a feature",
        "relax framework or requires, or name another image")
    IMAGE_NEEDS_ROOT = ("ImageNeedsRoot", "the image works as root only and the job does not run as root",
        "set securityContext.runAsUser to 0, or name another image")
    NAMESPACE_EXCLUDED = ("NamespaceExcluded", "the GPUPool's namespaceSelector leaves the job's namespace out",
        "label the namespace as the sentence says, or use another pool")
    WHOLE_NODES_ONLY = ("WholeNodesOnly", "the pool assigns whole nodes (HostDevices), and the job requests a part of one",
        "set gpusPerNode to all GPUs of a node")
    TAINT_NOT_TOLERATED = ("TaintNotTolerated", "the nodes have a taint that the pool does not tolerate",
        "tolerate it in spec.tolerations of a GPUPool, or remove it")
    POOL_TOO_SMALL = ("PoolTooSmall",
        "the pool has fewer GPUs, or fewer nodes with enough of them, than the job needs even when it is empty",
        "ask for a smaller gang, or add nodes")
    NODE_TOO_SMALL = ("NodeTooSmall", "no node has the CPU or memory that each pod needs", "lower resources, or use fewer GPUs a node")
    DISK_TOO_SMALL = ("DiskTooSmall", "no node has the disk for image and job",
        "lower resources.ephemeralStorage, or use nodes with larger disks")
    ZONE_CONFLICT = ("ZoneConflict", "a PersistentVolume can be mounted from other nodes only",
        "use a volume of the pool's zone, or another pool")
    NODES_NOT_SELECTED = ("NodesNotSelected", "the node selector of the job's namespace leaves the nodes out",
        "use another pool or namespace, or give the nodes the label that the sentence names")
    IMAGE_VOLUME_UNSUPPORTED = ("ImageVolumeUnsupported", "the kubelet or container runtime of the nodes cannot mount code.image",
        "upgrade them, or put the code into a ConfigMap or a PersistentVolumeClaim")
    ACCESS_MODE = ("AccessMode",
        "only one node, or one pod, can mount a volume: the job has several nodes (Impossible), or another pod mounts it (Queued)",
        "use a ReadWriteMany volume, or one node; where another pod mounts it, wait: the job starts when that pod ends")
    PRICE_CAP = ("PriceCap", "the whole job costs more an hour than placement.maxPricePerHour", "raise the limit, or ask for less")
    PRICE_UNKNOWN = ("PriceUnknown", "a price limit or a budget is set and the pool has no price", "give the pool a price in a GPUPool")

    # Something must be fixed first.
    DEVICE_UNKNOWN = ("DeviceUnknown", "no label and no catalog row says what the devices are",
        "label the nodes, or write a GPUPool with spec.accelerator")
    MEM_UNKNOWN = ("MemUnknown", "the memory of the devices is unknown", "set spec.memoryPerGPU in a GPUPool")
    MODELS_DIFFER = ("ModelsDiffer", "a node or a pool has several models of devices, and a pod gets any of them",
        "give each model nodes of its own, or set in a GPUPool what the sentence names")
    LABELS_CONTRADICT = ("LabelsContradict", "labels of the nodes contradict each other",
        "correct or restart the labeller; a GPUPool decides meanwhile")
    NO_DEVICE_PLUGIN = ("NoDevicePlugin", "labels announce devices that no device plugin offers",
        "install or fix the vendor's device plugin on the nodes")
    NO_DEVICE_CLASS = ("NoDeviceClass", "no DeviceClass offers devices of a DRA driver, or the GPUPool's DeviceClass is missing",
        "create the DeviceClass that the sentence names")
    NAMESPACE_UNKNOWN = ("NamespaceUnknown", "the cluster's description lacks the labels of the job's namespace, which decide",
        "capture the cluster with its namespaces")
    NAMESPACE_TERMINATING = ("NamespaceTerminating", "the job's namespace is being deleted, and the API server creates no pod there",
        "create the GPUJob in another namespace, or in a new one of that name when this one is gone")
    POD_SECURITY_BLOCKED = ("PodSecurityBlocked", "the Pod Security level of the namespace forbids the job's pods",
        "set another level for the namespace, run as another user, or use another pool")
    HOST_ACCESS_DENIED = ("HostAccessDenied",
        "the GPUPool gives its pods device files or the network of the host, and the chart allows neither",
        "set the value of the chart that the sentence names to true, or use another pool")
    RUNTIME_CLASS_MISSING = ("RuntimeClassMissing", "the RuntimeClass that the GPUPool names does not exist",
        "create it, or remove spec.runtimeClassName")
    RUNTIME_HANDLER_MISSING = ("RuntimeHandlerMissing", "the nodes lack the handler that the RuntimeClass requires",
        "install it on the nodes, or set another spec.runtimeClassName")
    RUNTIME_CLASS_EXCLUDES = ("RuntimeClassExcludes", "the nodes lack a label that the RuntimeClass requires (scheduling.nodeSelector)",
        "label the nodes, or set another spec.runtimeClassName")
    RUNTIME_UNKNOWN = ("RuntimeUnknown",
        "images names a GPURuntime that neither the catalog nor the cluster has, or one for the other stack",
        "correct the name; the message names the nearest")
    POOL_UNKNOWN = ("PoolUnknown", "placement.pools names a pool that does not exist", "correct the name; the sentence lists the pools")
    ACCELERATOR_UNKNOWN = ("AcceleratorUnknown", "placement.accelerators or a shape names an unknown accelerator",
        "correct the name; `gpujob catalog` lists them")
    FEATURE_UNKNOWN = ("FeatureUnknown", "requires names an unknown feature", "correct the name")
    FRAMEWORK_UNKNOWN = ("FrameworkUnknown", "the catalog has no framework of the name in framework.name", "correct the name")
    MODEL_UNKNOWN = ("ModelUnknown", "the catalog has no model of the name in model.name", "correct the name, or set model.parameters")
    VOLUME_MISSING = ("VolumeMissing", "a PersistentVolumeClaim of the job does not exist, or cannot be used",
        "do what the sentence says: create the claim, create it again, or remove it from the job")
    PRIORITY_CLASS_UNKNOWN = ("PriorityClassUnknown", "the cluster has no PriorityClass of the name in priorityClassName",
        "correct the name, or create the class")
    SERVICE_ACCOUNT_NOT_ALLOWED = ("ServiceAccountNotAllowed", "the admin does not allow the ServiceAccount in serviceAccountName",
        "leave it out, name an allowed one, or ask the admin to add it to the chart's admission.allowedServiceAccounts")
    INVALID_SPEC = ("InvalidSpec", "the operator cannot use the spec, although the API server accepted it",
        "change the field that the sentence names")
    CRDS_OUTDATED = ("CRDsOutdated",
        "the CRDs of the cluster lack fields that the operator writes, and no other operator leads: no operator runs the job",
        "upgrade the chart with crds.enabled=true, or apply the crds/ of the operator's version with kubectl")
    NAME_CONFLICT = ("NameConflict",
        "an object that is not the job's has the name of one of its children, or of the runner's ConfigMap",
        "delete or rename that object")
    CHILD_REFUSED = ("ChildRefused", "the API server refuses a child of the job",
        "fix what the API server's sentence names: a policy, a webhook, a field")

    # It fits, but not now.
    NOT_READY = ("NotReady", "a node is not Ready, is being deleted, or an agent works on its devices",
        "none: it is checked again when the node changes")
    CORDONED = ("Cordoned", "a node is cordoned", "uncordon the node (kubectl uncordon) when the work on it is done")
    NO_ALLOCATABLE = ("NoAllocatable", "a node has the labels of devices and offers no device now",
        "check its device plugin, if this lasts")
    WAITING_FOR_DEVICES = ("WaitingForDevices", "a node is new and its device plugin does not offer its devices yet",
        "none; after 15 minutes check its driver and device plugin")
    DEVICE_TAINTED = ("DeviceTainted", "a taint of a ResourceSlice or a DeviceTaintRule keeps pods off devices",
        "fix the devices, or remove the taint")
    NOT_ENOUGH_FREE = ("NotEnoughFree", "other pods use the GPUs, CPU or memory",
        "none: the job starts when they are free; `explain` says which jobs use them")
    FRAGMENTED = ("Fragmented", "enough GPUs are free, but not on one node, or not on enough nodes", "use fewer GPUs a node, or wait")
    QUEUED_BEHIND = ("QueuedBehind", "a job of higher priority goes first on the devices that this one would take",
        "none; or set a priorityClassName of a higher value")
    MAY_GROW = ("MayGrow", "the pool has too few nodes, and an autoscaler may add some",
        "none; set spec.provision of the GPUPool, so that jobs request new nodes")
    QUOTA_EXCEEDED = ("QuotaExceeded", "a ResourceQuota of the namespace is used up or too small", "raise it, or ask for less")
    LIMIT_RANGE = ("LimitRangeExceeded", "a LimitRange of the namespace forbids the job's pods", "stay within its limits, or change it")
    NODES_DID_NOT_COME = ("NodesDidNotCome", "the autoscaler did not add nodes in time",
        "see the autoscaler's events; other pools are tried meanwhile")
    NODE_EXCLUDED = ("NodeExcluded",
        "the infrastructure failed an attempt of the job on a node, and the job excludes this node for ten minutes",
        "none: other nodes are tried meanwhile; check the node if it fails again")
    UNSCHEDULABLE = ("Unschedulable", "the scheduler bound the pods to no node, so the job gave its GPUs back",
        "fix what the scheduler reports; other pools are tried meanwhile")
    CONTROL_PLANE_SILENT = ("ControlPlaneSilent",
        "no scheduler has looked at the job's pods, or the Job controller does not make them, so the job gives its GPUs back",
        "check kube-scheduler, the scheduler that schedulerName names, or kube-controller-manager, as the sentence says")
    NODE_TAKEN = ("NodeTaken", "other pods took the room of the job's pods on a node, or the node was lost, before they were bound",
        "none: the job is placed again at once")
    NAMESPACE_BUDGET_EXCEEDED = ("NamespaceBudgetExceeded",
        "the jobs of the namespace have used up its monthly budget, an annotation of the Namespace; running jobs continue",
        "wait for the next month, or ask an administrator for a higher budget")
    CHILD_NOT_CREATED = ("ChildNotCreated", "the job is placed, but the API server does not create a child of it for now",
        "fix what the API server's sentence names (a quota, a namespace that ends, a webhook that does not answer); the operator "
        "tries again within 15 s")
    PROBED = ("Probed", "a probe of the job ended; the next probe or the job itself follows", "none")

    # Before the program starts.
    IMAGE_BACKEND_MISMATCH = ("ImageBackendMismatch", "the image's torch is built for the other vendor, or for the CPU",
        "name an image with the right build in images; do not rely on its tag")
    IMAGE_BROKEN = ("ImageBroken", "torch cannot be imported, or its import crashes Python",
        "fix the image: the error names the library")
    COMMAND_NOT_FOUND = ("CommandNotFound", "the command's program is not in the image, or may not be executed",
        "correct command; a script from code without the executable bit is started by `bash script.sh`")
    DEVICE_PERMISSION = ("DevicePermission", "a device node is there and does not open for the job's uid",
        "an admin adds the group to spec.supplementalGroups of the GPUPool")
    DEVICE_COUNT_MISMATCH = ("DeviceCountMismatch", "torch sees more or fewer GPUs than the job has",
        "check device plugin and driver of the node; set runtimeClassName in the GPUPool; remove CUDA_VISIBLE_DEVICES and its "
        "like from env")
    DEVICE_UNUSABLE = ("DeviceUnusable", "a GPU is there and does not compute, hangs, or computes wrongly",
        "cordon the node, check the device; the error is the driver's own")
    MEM_BELOW_REQUEST = ("MemBelowRequest", "a GPU has less free memory than asked",
        "processes outside Kubernetes hold it, other pods share it, or the node holds a smaller model than its labels report")
    SHARED_MEMORY_TOO_SMALL = ("SharedMemoryTooSmall", "/dev/shm is smaller than promised",
        "lower resources.sharedMemory, or check the node")
    FOLDER_NOT_WRITABLE = ("FolderNotWritable", "the job's uid cannot write to a folder",
        "set securityContext.fsGroup or runAsUser; set `readOnly: true` on a volumeMount that the job only reads")
    NO_INTERPRETER = ("NoInterpreter", "the image has no shell or no Python, so the preflight cannot run",
        "none; for checks and figures use an image with both")
    PREFLIGHT_TIMED_OUT = ("PreflightTimedOut", "torch was not imported in 35 seconds",
        "none: the program runs unchecked; the usual cause is a slow disk or network file system")
    PREFLIGHT_FAULT = ("PreflightFault", "the preflight ended without a result",
        "with exit code 137 raise the pod's memory, which is too small to import torch; else report it")
    PREFLIGHT_PASSED = ("PreflightPassed", "image, devices, memory and folders are as the placement expected", "none")
    PREFLIGHT_PENDING = ("PreflightPending", "the preflight has not run yet", "none")

    # Warnings, which reject nothing.
    NODE_UNKNOWN = ("NodeUnknown", "CPU, memory or disk of nodes that an autoscaler may add is unknown",
        "set spec.provision.cpu, memory and ephemeralStorage of the GPUPool")
    NODE_DOUBTED = ("NodeDoubted", "an agent reports a fault or a risk of a node that the job uses", "check what the label names")
    MAINTENANCE_PLANNED = ("MaintenancePlanned",
        "maintenance is announced for a node that the job uses, and ends pods there: the pool counts as a fifth more expensive",
        "save checkpoints, or run a job that ends before")
    MEM_TIGHT = ("MemTight", "the model fits, but the allocator's reserve may not fit beside it",
        "use a larger GPU, or set gpuMemory if you know it")
    SHARDING_ASSUMED = ("ShardingAssumed", "the estimate assumes that the program shards the model over all GPUs of the job",
        "set model.sharding to what the program does")
    HEADS_NOT_DIVIDED = ("HeadsNotDivided",
        "the attention heads of the model cannot be divided over the GPUs of a node, as tensor parallel engines require",
        "set a number of GPUs that divides them")
    FRAMEWORK_UNMEASURED = ("FrameworkUnmeasured",
        "memory estimate, progress and speed are for PyTorch, and the job has another framework",
        "set gpuMemory; call gpujob_report.step() after each step")
    NO_STEPS = ("NoSteps",
        "a field of the job depends on the program's steps, and inference reports no steps by itself",
        "call gpujob_report.step() after each batch, or remove the field")
    NO_COMMAND = ("NoCommand",
        "the job has no command, no args and no image of its own, so the command of the catalog's image runs",
        "set spec.command")
    LAUNCH_DIFFERS = ("LaunchDiffers",
        "an option of a launcher, or a variable of the job that chooses GPUs, names other nodes or GPUs than the job",
        "remove the option or the variable: the operator sets the numbers, and a pod sees only its own GPUs")
    DRIVER_UNKNOWN = ("DriverUnknown", "the driver of the nodes, or the driver that the image needs, is unknown",
        "label the nodes, or set the driver in the GPURuntime")
    DRIVER_UNTESTED = ("DriverUntested", "this ROCm release was not tested with the driver of the nodes",
        "none; a tested driver is safer")
    DRIVER_FORWARD = ("DriverForward", "the driver is older than the image's CUDA and works by its forward compatibility package",
        "none, or upgrade the driver")
    ARCH_OVERRIDDEN = ("ArchOverridden", "the device passes for another one, as the job asked with HSA_OVERRIDE_GFX_VERSION",
        "none; results may be wrong")
    OVERRIDE_NOT_SET = ("OverrideNotSet", "the operator does not set HSA_OVERRIDE_GFX_VERSION of the job on this device", "none")
    IMAGE_COMPILED_AT_START = ("ImageCompiledAtStart", "the image has no code for the device but can compile it at the first start",
        "none; the first start takes longer")
    IMAGE_UNCHECKED = ("ImageUnchecked", "the facts of the image are unknown", "write a GPURuntime that describes it")
    IMAGE_VOLUME_UNCHECKED = ("ImageVolumeUnchecked", "it is unknown whether a node can mount code.image", "none")
    KERNEL_OLD = ("KernelOld", "the kernel of an AMD node is older than ROCm needs or recommends", "upgrade the node's kernel")
    SYSTEM_UNLISTED = ("SystemUnlisted", "ROCm is not known to run on the operating system of an AMD node",
        "none, or install one that the sentence names")
    QUOTA_UNCHECKED = ("QuotaUnchecked", "a ResourceQuota has an unknown scope, or allows no further ConfigMap",
        "check that the quota leaves enough")
    NODES_DIFFER = ("NodesDiffer",
        "the gang uses nodes of several pools with equal GPUs that differ in other facts, which the sentence names: the worst counts",
        "none; make the nodes equal, or ask for fewer nodes, for the facts of one pool")
    PLATFORMS_DIFFER = ("PlatformsDiffer", "nodes of a GPUPool have another system or CPU architecture than most of its Linux nodes",
        "none: they are a part of the pool; narrow spec.nodeSelector to exclude them")
    PRICE_INDICATIVE = ("PriceIndicative", "the price is a list price, of another region, or a bound", "set one in a GPUPool")
    NO_PRICE = ("NoPrice", "the price of the pool is unknown: Cost and Value rank it last", "set one in a GPUPool")
    PRICE_INVALID = ("PriceInvalid", "the price in a GPUPool or annotation is not a number of dollars, so it is not used",
        "correct it as the sentence says")
    ID_OUT_OF_RANGE = ("IdOutOfRange", "the job sets a uid or an fsGroup that OpenShift's restricted-v2 refuses in its namespace",
        "leave it out, or let the pods' service account use another SCC")
    RUNS_AS_ROOT = ("RunsAsRoot", "the pods run as root", 'none, unless the namespace is to be "restricted"')
    BF16_EMULATED = ("BF16Emulated", "the device has no native BF16", "set model.precision, or another accelerator")
    LABELS_GONE = ("LabelsGone", "the labels of a node are gone, and their last values still count", "check the labeller")
    LABEL_UNREADABLE = ("LabelUnreadable", "a label has a value that its labeller never writes; it is ignored", "correct the label")
    INTEGRATED_MEMORY = ("IntegratedMemory", "the device shares its memory with the host", "leave room for the host in gpuMemory")
    TAINT_PREFERRED_AGAINST = ("TaintPreferredAgainst", "a chosen node has a PreferNoSchedule taint", "none")

    # What conditions and events say.
    PLACED = ("Placed", "pool, nodes and image are chosen", "none")
    WAITING = ("Waiting", "it fits, but not now", "none: the sentence says what it waits for")
    IMPOSSIBLE = ("Impossible", "no pool of the cluster can ever run it", "the message names the nearest change that makes it fit")
    MISCONFIGURED = ("Misconfigured", "the job or the cluster has a fault that must be fixed first", "the message names it")
    NO_POOL = ("NoPool", "the cluster has no GPU nodes, or the GPUPool selects none",
        "add nodes, check labels and device plugins, or correct spec.nodeSelector")
    PLAN_ONLY = ("PlanOnly", "spec.suspend is set, so the job is planned and does not run", "unset suspend to run it")
    NOT_SUSPENDED = ("NotSuspended", "spec.suspend is not set", "none")
    STARTING = ("Starting", "the pods exist and not all of them run yet", "none, or fix what the message says about a pod")
    RUNNING = ("Running", "the pods run", "none")
    PROBING = ("Probing", "the pods run a probe on one pool (placement.probe)", "none; the next probe or the job itself follows")
    NOT_STARTED = ("NotStarted", "the pods do not run yet", "none")
    CHILD_SUSPENDED = ("ChildSuspended", "a user suspended the child Job, so none of its pods runs; it keeps its GPUs",
        "resume the child Job, or set spec.suspend to give the GPUs back")
    ENDED = ("Ended", "the job ended", "none")
    SUCCEEDED = ("Succeeded", "every pod ended well", "none")
    POD_FAILED = ("PodFailed", "a pod failed", "read the sentence: it has pod, exit code and the end of the log")
    IMAGE_NOT_PULLED = ("ImageNotPulled", "the image of a pod was not pulled within five minutes",
        "if the registry refuses it, correct image or pull secret; else check the registry: the job is tried on another node")
    CONTAINER_NOT_STARTED = ("ContainerNotStarted", "a container of a pod did not start within five minutes",
        "create the ConfigMap, Secret or key that the sentence names; else check driver and container runtime of the node")
    OUT_OF_MEMORY = ("OutOfMemory", "the kernel ended a container that used more main memory than its limit",
        "raise resources.memory, or use fewer workers of the data loader")
    GPU_OUT_OF_MEMORY = ("GPUOutOfMemory", "the program ran out of GPU memory",
        "raise gpuMemory to what the sentence says, use a smaller batch, or set retries.memoryFactor")
    RENDEZVOUS_TIMEOUT = ("RendezvousTimeout", "the pods did not find each other in time",
        "check what the sentence names: network policies, the interface, the port")
    NODE_LOST = ("NodeLost", "the node of a pod was deleted, shut down or did not answer",
        "none: the job is tried again, retries.infrastructure times")
    EVICTED = ("Evicted", "the node or an admin evicted a pod, or a disruption removed it while the operator was off",
        "none: the job is tried again, retries.infrastructure times; the sentence says why the pod was evicted")
    PREEMPTED = ("Preempted", "a pod made room for one of higher priority", "none, or a higher priorityClassName")
    POD_DELETED = ("PodDeleted", "a user deleted a pod, or its node was deleted",
        "none: the job is tried again, retries.infrastructure times")
    POD_REPLACED = ("PodReplaced",
        "Kubernetes failed the child Job because of a pod that a suspension had ended or another pod had replaced",
        "none: the job is tried again, and uses up no retry")
    POD_NOT_ADMITTED = ("PodNotAdmitted", "the kubelet of a node refused a pod, for example for want of the devices that it reported",
        "check device plugin and kubelet of the node; the job is tried again")
    DEADLINE_EXCEEDED = ("DeadlineExceeded", "the attempts of the job together ran for activeDeadlineSeconds",
        "create a new GPUJob with a longer deadline; the program can continue from its checkpoint")
    BUDGET_EXCEEDED = ("BudgetExceeded",
        "the attempts of the job together have cost placement.budget; it is suspended and holds no GPUs",
        "raise placement.budget: the job then continues")
    DEVICE_FAULT = ("DeviceFault", "node, kubelet or program report a broken device", "check the device; the job is tried again")
    STALLED = ("Stalled", "the job made no step for longer than its bound",
        "check the rank that the sentence names; with spec.stall.action: Restart it continues from its checkpoint")
    STEPS_GO_ON = ("StepsGoOn", "a job that stood still works again", "none")
    CHILD_LOST = ("ChildLost", "the child Job was deleted, or its label or pods taken off, while it ran", "create the job again")
    BEING_DELETED = ("BeingDeleted", "the GPUJob is being deleted and none of its pods runs; another finalizer holds the object",
        "wait for the owner of the finalizer to remove it")
    EARLIER_ATTEMPT_ENDING = ("EarlierAttemptEnding",
        "a pod of an earlier attempt still runs, and two attempts must not write one checkpoint",
        "do what the sentence says: wait, delete the pod, delete a dead node, or restart a node that hangs")
    REPORTER_READ = ("ReporterRead", "the operator reads what the job's program reports", "none")
    NO_REPORTER = ("NoReporter", "nothing listens on the reporter's port", "none; in a program without torch call gpujob_report.step()")
    TELEMETRY_BLOCKED = ("TelemetryBlocked", "a network policy, a firewall or a mesh's proxy keeps the operator from the pod's port",
        "add the NetworkPolicy, firewall rule or annotation that the sentence spells out")
    REPORT_UNREADABLE = ("ReportUnreadable", "another program answers on the reporter's port", "set another spec.telemetry.port")
    REPORT_OF_ANOTHER = ("ReportOfAnother", "the report is of another job or attempt, and does not count",
        "none if pods are on the network of their nodes; else leave GPUJOB_JOB_UID and GPUJOB_ATTEMPT as they were set")
    NOT_READ = ("NotRead", "the operator has read no report of the current attempt yet", "none")
    OVERLAPS = ("Overlaps", "an older GPUPool selects nodes that this one selects too", "narrow spec.nodeSelector")
    NO_OVERLAP = ("NoOverlap", "no older GPUPool selects this one's nodes", "none")
    SPEC_NOT_READ = ("SpecNotRead", "a user edited a GPUPool that the operator writes; the edit has no effect",
        "make the pool yours, or write a GPUPool of your own")
    SPEC_AS_WRITTEN = ("SpecAsWritten", "the spec is what the operator wrote", "none")
    READ = ("Read", "labels and catalog identify the devices", "none, or fix what the message warns of")
    # fmt: on


_IN_PLANS: Final = "`plan` and `explain` for each pool, and `status.candidates`"
SECTIONS: Final = (
    ("A pool can never run the job", Reason.VENDOR_EXCLUDED,
     f"{_IN_PLANS}; where every pool has one, condition Placed is False: Impossible"),
    ("Something must be fixed first", Reason.DEVICE_UNKNOWN,
     f"condition Placed, state Misconfigured; {_IN_PLANS}; condition Read of a GPUPool"),
    ("It fits, but not now", Reason.NOT_READY, f"condition Placed, state Queued; {_IN_PLANS}"),
    ("Before the program starts", Reason.IMAGE_BACKEND_MISMATCH,
     "condition PreflightPassed, and Failed where it ended the job"),
    ("Warnings, which reject nothing", Reason.NODE_UNKNOWN,
     "`plan` and `explain` for each pool, and the message of the condition Read of a GPUPool"),
    ("What conditions and events say", Reason.PLACED,
     "the conditions and events of a GPUJob, the conditions of a GPUPool"),
)  # fmt: skip
"""The first reason of each section, its title, and where its reasons are shown."""

FIXABLE_REASONS: Final = frozenset({
    Reason.DEVICE_UNKNOWN, Reason.MEM_UNKNOWN, Reason.MODELS_DIFFER, Reason.LABELS_CONTRADICT,
    Reason.NO_DEVICE_PLUGIN, Reason.NO_DEVICE_CLASS, Reason.NAMESPACE_UNKNOWN, Reason.NAMESPACE_TERMINATING,
    Reason.POD_SECURITY_BLOCKED, Reason.HOST_ACCESS_DENIED, Reason.RUNTIME_CLASS_MISSING, Reason.RUNTIME_HANDLER_MISSING,
    Reason.RUNTIME_CLASS_EXCLUDES, Reason.RUNTIME_UNKNOWN, Reason.POOL_UNKNOWN, Reason.ACCELERATOR_UNKNOWN,
    Reason.FEATURE_UNKNOWN, Reason.FRAMEWORK_UNKNOWN, Reason.INVALID_SPEC, Reason.MODEL_UNKNOWN,
    Reason.VOLUME_MISSING, Reason.PRIORITY_CLASS_UNKNOWN, Reason.SERVICE_ACCOUNT_NOT_ALLOWED, Reason.NO_POOL,
})  # fmt: skip
"""Reasons that a user or admin can fix; every other reason of a filter means infeasible."""
