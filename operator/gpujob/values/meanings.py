"""What each Reason means and what to do about it: one sentence each. docs/reasons.md is made of them.

A row is "Reason: meaning" and, on a line of its own, the remedy; "none" where nothing is to be done. The sentences of a job carry its
own numbers and names; these say what is the same in all of them.
"""

from __future__ import annotations

from typing import Final

NEVER: Final = """
VendorExcluded: placement.vendors or the vendors of images leave this vendor out
    name it there
AcceleratorExcluded: placement.accelerators or the shape leaves this accelerator out
    allow it there
PoolExcluded: placement.pools leaves this pool out
    allow it there
ProbeFailed: the job's own trial failed on this pool
    read the trial's sentence; a new GPUJob tries again
CapacityTypeExcluded: placement.capacityTypes leaves nodes that are paid for in this way out
    add the type
DeviceExcluded: the pool's devices are parts, shared or integrated, or whole, and the job asks for another kind
    add the kind to placement.devices
SharedDevice: other pods use the same device at the same time, and memory is not kept apart
    add Shared to placement.devices, with one GPU a job
MemTooSmall: a GPU has less usable memory than the job or its model needs
    lower gpuMemory, shard the model over more GPUs, or take larger ones
ArchUnsupported: the image has no code for this device, or no framework build has
    another image in images, or another accelerator
CpuArchMismatch: the image is not built for the processors of the nodes
    an image for that architecture
DriverTooOld: the nodes' driver is older than the image needs
    upgrade the driver, or take an older image
MemRanOut: an attempt of the job ran out of GPU memory, and the device has less than it asks for since (retries.memoryFactor)
    a smaller batch, or a larger GPU
PrecisionUnsupported: the device does not compute in model.precision
    another precision, or another accelerator
FrameworkUnsupported: the image lacks the framework's version, Python or package that the job asks for, or the device lacks a feature
    relax framework or requires, or another image
ImageNeedsRoot: the image works as root only and the job does not run as root
    set securityContext.runAsUser to 0, or another image
NamespaceExcluded: the GPUPool's namespaceSelector leaves the job's namespace out
    label the namespace as the sentence says, or another pool
WholeNodesOnly: the pool gives out whole nodes (HostDevices), and the job asks for a part of one
    set gpusPerNode to all GPUs of a node
TaintNotTolerated: the nodes have a taint that the pool does not tolerate
    tolerate it in spec.tolerations of a GPUPool, or remove it
PoolTooSmall: the pool has fewer GPUs, or fewer nodes with enough of them, than the job needs even when it is empty
    a smaller gang, or more nodes
NodeTooSmall: no node has the CPU or memory that each pod asks for
    lower resources, or fewer GPUs a node
DiskTooSmall: no node has the disk for image and job
    lower resources.ephemeralStorage, or nodes with larger disks
ZoneConflict: a PersistentVolume can be mounted from other nodes only
    a volume of the pool's zone, or another pool
ImageVolumeUnsupported: the kubelet or container runtime of the nodes cannot mount code.image
    upgrade them, or bring the code by a ConfigMap or a PersistentVolumeClaim
AccessMode: a volume that one node at a time can mount, and a job of several nodes
    a ReadWriteMany volume, or one node
PriceCap: the whole job costs more an hour than placement.maxPricePerHour
    raise the limit, or ask for less
PriceUnknown: a price limit is set and the pool has no price
    give the pool a price in a GPUPool
"""

MEND: Final = """
DeviceUnknown: no label and no catalog row says what the devices are
    label the nodes, or a GPUPool with spec.accelerator
MemUnknown: nothing says how much memory the devices have
    spec.memoryPerGPU of a GPUPool
ModelsDiffer: a node or a pool holds several models and a pod gets any of them
    give each model nodes of its own, or say in a GPUPool what the sentence names
LabelsContradict: labels of the nodes say things that cannot both be true
    correct or restart the labeller; a GPUPool decides meanwhile
NoDevicePlugin: labels tell of devices that no device plugin offers
    install or mend the vendor's device plugin on the nodes
NoDeviceClass: devices of a DRA driver that no DeviceClass offers, or that of the GPUPool is not there
    create the DeviceClass that the sentence names
NamespaceUnknown: the labels of the job's namespace decide, and the description of the cluster lacks them
    capture the cluster with its namespaces
PodSecurityBlocked: the Pod Security level of the namespace forbids what the pods would be
    another level for the namespace, another user, or another pool
RuntimeClassMissing: the RuntimeClass that the GPUPool names is not there
    create it, or remove spec.runtimeClassName
RuntimeHandlerMissing: the nodes lack the handler that the RuntimeClass asks for
    install it on the nodes, or another spec.runtimeClassName
RuntimeClassExcludes: the nodes lack a label that the RuntimeClass asks for (scheduling.nodeSelector)
    label the nodes, or another spec.runtimeClassName
RuntimeUnknown: images names a GPURuntime that neither the catalog nor the cluster has, or that is of an image for the other stack
    correct the name; the sentence tells the nearest
PoolUnknown: placement.pools names a pool that is not there
    correct the name; the sentence lists the pools
AcceleratorUnknown: placement.accelerators or a shape names an unknown accelerator
    correct the name; `gpujob catalog` lists them
FeatureUnknown: requires names an unknown feature
    correct the name
FrameworkUnknown: framework.name is no framework of the catalog
    correct the name
ModelUnknown: model.name is no model of the catalog
    correct the name, or give model.parameters in its place
VolumeMissing: a PersistentVolumeClaim of the job is not there, or cannot be used
    create it, or take it off the job
PriorityClassUnknown: priorityClassName is no PriorityClass of the cluster
    correct the name, or create it
InvalidSpec: the spec cannot be used as it is, although the API server accepted it
    change the field that the sentence names
NameConflict: an object that is not the job's has the name of one of its children, or of the runner's ConfigMap
    delete or rename that object
ChildRefused: the API server refuses a child of the job
    the sentence is the API server's: a policy, a webhook, a field
"""

LATER: Final = """
NotReady: a node is not Ready, is being deleted, or its devices are being worked on
    none: it is looked at again when the node changes
Cordoned: a node is cordoned
    kubectl uncordon, when its work is done
NoAllocatable: a node has the labels of devices and offers none now
    see to its device plugin, if it stays so
WaitingForDevices: a node is new and its devices are still to come
    none; after 15 minutes see to its driver and device plugin
DeviceTainted: a slice of a DRA driver, or a DeviceTaintRule, keeps pods off devices
    mend the devices, or remove the taint
NotEnoughFree: the GPUs, CPU or memory are there and in use by others
    none: the job starts when they are free; `explain` says who holds them
Fragmented: enough GPUs are free, but not on one node, or not on enough nodes
    fewer GPUs a node, or wait
QueuedBehind: a job of higher priority goes first on the devices that this one would take
    none; or a priorityClassName of a higher value
MayGrow: the pool has too few nodes, and an autoscaler may add some
    none; give the pool spec.provision, so that it is asked for nodes
QuotaExceeded: a ResourceQuota of the namespace is used up or too small
    raise it, or ask for less
LimitRangeExceeded: a LimitRange of the namespace allows no such pod
    ask for what it allows, or change it
NodesDidNotCome: nodes that were to be added did not come in time
    see the autoscaler's events; other pools are tried meanwhile
NodeExcluded: the infrastructure failed an attempt of the job on a node, which the job leaves out for ten minutes
    none: other nodes are tried meanwhile; see to the node if it fails again
Unschedulable: the scheduler bound pods to none of their nodes, so that the job gave its GPUs back
    fix what the scheduler reports; other pools are tried meanwhile
ChildNotCreated: the job has a place, and the API server does not create a child of it for now
    the sentence is the API server's: a quota, a namespace that ends, a webhook that does not answer; it is asked again within 15 s
Probed: a short trial of the job ended, and the next one or the job itself follows
    none
"""

PREFLIGHT: Final = """
ImageBackendMismatch: the image's torch is built for the other vendor, or for the CPU
    name an image with the right build in images; a tag is no proof of what is inside
ImageBroken: torch cannot be imported, or takes Python down with it
    mend the image: the error names the library
CommandNotFound: the command's program is not in the image, or may not be executed
    correct command; a script from code without the executable bit is started by `bash script.sh`
DevicePermission: a device node is there and does not open for the job's uid
    an admin adds the group to spec.supplementalGroups of the GPUPool
DeviceCountMismatch: torch sees more or fewer GPUs than the job has
    see to device plugin and driver of the node; set runtimeClassName in the GPUPool; remove CUDA_VISIBLE_DEVICES and its like from env
DeviceUnusable: a GPU is there and does not compute, hangs, or computes wrongly
    cordon the node, see to the device; the error is the driver's own
MemBelowRequest: a GPU has less free memory than asked
    processes outside Kubernetes hold it, other pods share it, or the node holds a smaller model than its labels tell
SharedMemoryTooSmall: /dev/shm is smaller than promised
    lower resources.sharedMemory, or see to the node
FolderNotWritable: a folder takes no file of the job's uid
    securityContext.fsGroup or runAsUser; `readOnly: true` on a volumeMount that is only read
NoInterpreter: no shell or no Python in the image, so that nothing can be checked
    none, or an image with both to have checks and figures
PreflightTimedOut: torch was not imported in 35 seconds
    none: the program runs unchecked; a slow disk or network file system does it
PreflightFault: the preflight ended without a result
    with exit code 137 the pod's memory is too small to import torch; else please report it
PreflightPassed: image, devices, memory and folders are what was promised
    none
PreflightPending: the preflight has not run yet
    none
PreflightDisabled: spec.preflight is Disabled, so nothing is checked
    none
"""

DOUBTS: Final = """
NodeUnknown: CPU and memory of nodes that an autoscaler may add are unknown
    spec.provision.cpu and spec.provision.memory of the GPUPool
NodeDoubted: an agent reports a fault or a risk of a node that the job uses
    see to what the label names
MemTight: the model fits, and with what the allocator may reserve beyond it may not
    a larger GPU, or gpuMemory if it is known
ShardingAssumed: the estimate takes the model as sharded over all GPUs of the job
    say in model.sharding how it is
FrameworkUnmeasured: memory estimate, progress and speed are known of PyTorch, and the job's framework is another one
    write gpuMemory; call gpujob_report.step() after each step
NoCommand: neither command nor args nor an image of one's own is given, so that the catalog image's own command runs
    write spec.command
DriverUnknown: no label says which driver the nodes have, or of the image which it needs
    label the nodes, or driver of the GPURuntime
DriverUntested: the driver is outside of those that this ROCm release was tried with
    none; a driver within them is safer
DriverForward: the driver is older than the image's CUDA and works by its forward compatibility package
    none, or upgrade the driver
ArchOverridden: the device passes for another one, as the job asked with HSA_OVERRIDE_GFX_VERSION
    none; results may be wrong
OverrideNotSet: HSA_OVERRIDE_GFX_VERSION is asked for and is not set on this device
    none
ImageCompiledAtStart: the image has no code for the device but can compile it at the first start
    none; the first start takes longer
ImageUnchecked: nothing is known of the image
    a GPURuntime that describes it
ImageVolumeUnchecked: whether a node can mount code.image is not known
    none
KernelOld: the kernel of an AMD node is older than ROCm needs, or than is better for it
    upgrade the node's kernel
SystemUnlisted: ROCm is not known to run on the operating system of an AMD node
    none, or install one that the sentence names
QuotaUnchecked: a ResourceQuota has a scope that nothing is known of, or leaves no ConfigMap
    see that the quota leaves enough
PriceIndicative: the price is a list price, of another region, or a bound
    set one in a GPUPool
NoPrice: no price of the pool is known; under Cost and Value it comes after those with one
    set one in a GPUPool
PriceInvalid: the price in a GPUPool or annotation is not a number of dollars, so it is not used
    correct it as the sentence says
IdOutOfRange: the job names a uid or an fsGroup that OpenShift's restricted-v2 refuses in its namespace
    leave it out, or let the pods' service account use another SCC
RunsAsRoot: the pods run as root
    none, unless the namespace is to be "restricted"
BF16Emulated: the device has no native BF16
    set model.precision, or another accelerator
LabelsGone: the labels of a node are gone and what they said is kept
    see to the labeller
LabelUnreadable: a label is not what its labeller writes and is not used
    correct the label
IntegratedMemory: the device shares its memory with the host
    leave room for the host in gpuMemory
TaintPreferredAgainst: a chosen node has a PreferNoSchedule taint
    none
"""

STATES: Final = """
Placed: pool, nodes and image are chosen
    none
Waiting: it fits, but not now
    none: the sentence says for what
Impossible: no pool of the cluster can ever run it
    the sentence tells the nearest change that makes it fit
Misconfigured: the job or the cluster has a fault that must be fixed first
    the sentence tells it
NoPool: the cluster has no GPU nodes, or the GPUPool selects none
    add nodes, see to labels and device plugins, or correct spec.nodeSelector
PlanOnly: spec.suspend is set, so the job is planned and not run
    unset suspend to run it
NotSuspended: spec.suspend is not set
    none
Starting: the pods are there and not all of them run yet
    none, or what the sentence tells of a pod
Running: the pods run
    none
Probing: the pods run, for a short trial on one pool (spec.probe)
    none; the next pool or the job itself follows
NotStarted: the pods do not run yet
    none
ChildSuspended: the child Job is suspended by a user, so none of its pods runs; its GPUs stay held for it
    resume the child Job, or set spec.suspend to give the GPUs back
Ended: the job ended
    none
Succeeded: every pod ended well
    none
NotEnded: the job has not ended
    none
PodFailed: a pod ended badly
    the sentence names pod, exit code and the end of its log
ImageNotPulled: the image of a pod was not pulled within five minutes
    a correct image or pull secret where the registry refuses it; else see to the registry, the job is tried on another node
ContainerNotStarted: a container of a pod did not start within five minutes
    the ConfigMap, Secret or key that the sentence names; else see to driver and container runtime of the node
OutOfMemory: the kernel ended a container that used more main memory than its limit
    a higher resources.memory, or fewer workers of the data loader
GPUOutOfMemory: the program ran out of GPU memory
    the sentence says how much would have held it: a higher gpuMemory, a smaller batch, or retries.memoryFactor
RendezvousTimeout: the pods did not find each other in time
    what the sentence names: network policies, the interface, the port
NodeLost: the node of a pod went away, shut down or did not answer
    none: the job is tried again, retries.infrastructure times
Evicted: the node or an administrator evicted a pod
    none: the job is tried again, retries.infrastructure times; the sentence says why the pod was evicted
Preempted: a pod made room for one of higher priority
    none, or a higher priorityClassName
PodDeleted: somebody deleted a pod, or its node went away
    none: the job is tried again, retries.infrastructure times
PodNotAdmitted: the kubelet of a node refused a pod, for example since it has fewer devices than it said
    see to device plugin and kubelet of the node; the job is tried again
DeviceFault: the program ended with the words of a broken device
    see to the device; the job is tried again
ChildLost: the child Job was deleted while it ran
    create the job again
BeingDeleted: the GPUJob is being deleted and nothing of it runs any more; another finalizer holds the object
    whoever put the finalizer there takes it off
EarlierAttemptEnding: a pod of an earlier attempt still runs, and two attempts must not write one checkpoint
    none; where its node is dead, delete the node or the pod
ReporterRead: the operator reads what the job's program reports
    none
NoReporter: nothing listens on the reporter's port
    none, or gpujob_report.step() in a program without torch
TelemetryBlocked: the pod cannot be reached from the operator
    the NetworkPolicy that the sentence spells out
ReportUnreadable: what answers on the reporter's port is no reporter
    another spec.telemetry.port
ReportOfAnother: the report is of another job or attempt, and nothing of it is counted
    none where pods are on the network of their nodes; else GPUJOB_JOB_UID and GPUJOB_ATTEMPT as they were set
NotRead: nothing was read of the current attempt so far
    none
Overlaps: an older GPUPool claims nodes that this one selects too
    narrow spec.nodeSelector
NoOverlap: no older GPUPool claims this one's nodes
    none
SpecNotRead: a GPUPool that the operator writes was edited; the edit changes nothing
    make it yours, or write a GPUPool of your own
SpecAsWritten: the spec is what the operator wrote
    none
Read: labels and catalog say what the devices are
    none, or what the message doubts
"""

IN_PLANS: Final = "`plan` and `explain` for each pool, and `status.candidates`"
SECTIONS: Final = (
    (
        "A pool can never run the job",
        NEVER,
        f"{IN_PLANS}; where every pool has one, condition Placed is False: Impossible",
    ),
    (
        "Something must be fixed first",
        MEND,
        f"condition Placed, state Misconfigured; {IN_PLANS}; condition Read of a GPUPool",
    ),
    ("It fits, but not now", LATER, f"condition Placed, state Queued; {IN_PLANS}"),
    ("Before the program starts", PREFLIGHT, "condition PreflightPassed, and Failed where it ended the job"),
    (
        "Doubts, which refuse nothing",
        DOUBTS,
        "`plan` and `explain` for each pool, and the message of the condition Read of a GPUPool",
    ),
    ("What conditions and events say", STATES, "the conditions and events of a GPUJob, the conditions of a GPUPool"),
)
"""Title, rows, and where the reasons of a section show."""
