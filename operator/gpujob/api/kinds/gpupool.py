"""GPUPool: interchangeable devices. Discovered ones show the fleet; an admin's selects nodes and adds facts that labels lack."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gpujob.api.fields import patterns
from gpujob.api.fields.amounts import Dollars, Memory, Millicores, Money, Storage, Within
from gpujob.api.fields.base import Gid, ObjectMeta, ObjectName, Shape, Word, a_list, a_set, list_map
from gpujob.api.kinds.conditions import Condition
from gpujob.api.kinds.pods import EnvironmentVariable
from gpujob.values.vocabulary import API_VERSION

LabelValue = Annotated[str, Field(max_length=63), patterns.LABEL_VALUE]
DeviceCount = Annotated[str, Field(min_length=1, max_length=5), patterns.DEVICE_COUNT]
LabelKey = Annotated[str, Field(min_length=1, max_length=317), patterns.LABEL_KEY]


class LabelRequirement(Shape):
    """One expression of a label selector."""

    key: LabelKey
    """The label's key."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    """How the label is compared."""
    values: Annotated[tuple[LabelValue, ...], a_set(items=64)] = ()
    """The values for In and NotIn."""


class NodeSelector(Shape):
    """Which nodes the pool selects: all given labels and expressions must hold."""

    match_labels: dict[str, LabelValue] = Field(default_factory=dict, max_length=32)
    """Labels with their values."""
    match_expressions: Annotated[tuple[LabelRequirement, ...], a_list(items=32)] = ()
    """Expressions over labels."""


Years = Annotated[str, Within("a number of years", "4", least="0.1", most=100)]
Watts = Annotated[str, Within("a power in watts", "10200", least="0", most=10_000_000)]
PricePerKWh = Annotated[str, Within("a price of a kWh in US dollars", "0.12", least="0", most=1000)]
Effectiveness = Annotated[str, Within("a power usage effectiveness", "1.3", least="1", most=10)]
Share = Annotated[str, Within("a share of hours", "0.7", least="0", most=1, above=True)]


class Ownership(Shape):
    """The cost of owned nodes: ((gpuPurchase × GPUs + hostPurchase) / (years × 8760) + watts / 1000 × pue × pricePerKWh +
    yearlyOperations / 8760) / GPUs / utilization, with the GPUs of one node, gives US dollars an hour for each GPU."""

    gpu_purchase: Dollars
    """Purchase price of one GPU in US dollars, for example "15000"; whole GPUs as Kubernetes counts them (an MI250X card is two)."""
    host_purchase: Dollars | None = None
    """Purchase price of a node without its GPUs in US dollars, for example "60000"; 0 when absent."""
    years: Years
    """Years over which the purchase is written off, for example "4"."""
    watts: Watts | None = None
    """Power that a node draws, GPUs included, for example "10200"; 0 when absent."""
    price_per_k_wh: PricePerKWh | None = Field(default=None, alias="pricePerKWh")
    """Price of a kWh in US dollars, for example "0.12"; 0 when absent."""
    pue: Effectiveness | None = None
    """Power usage effectiveness of the building: all its power divided by that of its machines, for example "1.3"; 1 when
    absent."""
    utilization: Share | None = None
    """The share of hours in which the GPUs are used, for example "0.7": the used hours pay for the idle ones; 1 when absent."""
    yearly_operations: Dollars | None = None
    """Cost of a node in US dollars a year, for example "9000": staff, space, network, support; 0 when absent."""


class Price(Shape):
    """The price of the devices: exactly one member."""

    per_gpu_hour: Money | None = Field(default=None, alias="perGPUHour")
    """US dollars an hour for each GPU, in quotes, for example "2.10"."""
    per_node_hour: Money | None = None
    """US dollars an hour for a whole node, in quotes, for example "16.80"; divided by its devices."""
    ownership: Ownership | None = None
    """The cost of owned nodes, from purchase, power and operations."""


class Toleration(Shape):
    """A taint that this pool's pods tolerate, in addition to the taints of devices, Spot and SKU."""

    key: LabelKey
    """The taint's key."""
    operator: Literal["Exists", "Equal"] = "Exists"
    """Whether any value is tolerated or only `value`."""
    value: LabelValue | None = None
    """The taint's value, for Equal."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """The taint's effect; all when absent."""


class NewTaint(Shape):
    """A taint of new nodes."""

    key: LabelKey
    """The taint's key."""
    value: LabelValue | None = None
    """The taint's value."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]
    """The taint's effect."""


class NamespaceSelector(Shape):
    """Namespaces with jobs that may use the pool: those that have all these labels."""

    match_labels: dict[str, LabelValue] = Field(min_length=1, max_length=16)
    """Labels with their values."""


class FabricSpec(Shape):
    """The fast network between the nodes, for the pods of jobs with several nodes; a job of one node gets none of it."""

    resources: dict[str, DeviceCount] = Field(default_factory=dict, max_length=8)
    """Devices for each pod, by resource, for example rdma/hca: "1"; a node without free ones is busy."""
    capabilities: Annotated[tuple[Literal["IPC_LOCK"], ...], a_set(items=1)] = ()
    """Capabilities of the containers: IPC_LOCK, which RDMA needs to lock memory."""
    annotations: dict[str, Annotated[str, Field(max_length=4096)]] = Field(default_factory=dict, max_length=16)
    """Annotations of the pods, for example of secondary networks; a job's own annotations do not replace them."""
    host_network: bool | None = None
    """Whether pods use the host's network; false when absent."""
    topology_key: LabelKey | None = None
    """A node label whose value all nodes of a job must share, for example the name of a rack or a leaf switch."""


class ProvisionSpec(Shape):
    """Nodes that an autoscaler adds when a pod waits for them; a new node is like the existing ones. If the pool can be without nodes,
    spec.accelerator and gpusPerNode describe a new node."""

    max_nodes: Annotated[int, Field(ge=1, le=10000)]
    """The most nodes that the pool can have, existing nodes included."""
    gpus_per_node: Annotated[int, Field(ge=1, le=64)] | None = None
    """GPUs of a new node; as many as the largest node has when absent. Required if the pool can be without nodes."""
    driver_version: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    """The driver of new nodes, while the pool has no node."""
    cpu_architecture: Literal["amd64", "arm64"] | None = None
    """The CPU architecture of new nodes, while the pool has no node; amd64 when absent."""
    cpu: Millicores | None = None
    """CPU cores of a new node, for example 96."""
    memory: Memory | None = None
    """Main memory of a new node, for example 1800Gi."""
    ephemeral_storage: Storage | None = None
    """Disk of a new node for images and pods, for example 900Gi."""
    taints: Annotated[tuple[NewTaint, ...], a_list(items=16)] = ()
    """Taints of new nodes; those of the existing nodes when absent, none when empty."""


class GPUPoolSpec(Shape):
    """The nodes of the pool, and facts about their devices; labels and the catalog give facts that are absent."""

    node_selector: NodeSelector
    """The nodes that the pool selects; an older pool that selects the same node wins."""
    accelerator: Word | None = None
    """The accelerator, for example MI300X: its catalog id in any case and with any separators, or another name of that one
    model (H100 SXM5). It overrides labels."""
    resource_name: Annotated[str, Field(max_length=253), patterns.RESOURCE_NAME] | None = None
    """The device plugin's resource, for example amd.com/gpu; required if the nodes offer several."""
    price: Price | None = None
    """The price of the devices; it overrides annotations and the catalog."""
    capacity_type: Literal["OnDemand", "Reserved", "Spot"] | None = None
    """How the nodes are paid for; the nodes' labels when absent, else OnDemand."""
    memory_per_gpu: Memory | None = Field(default=None, alias="memoryPerGPU")
    """Usable memory of each device that Kubernetes counts, for example 192Gi, in place of labels and catalog."""
    supplemental_groups: Annotated[tuple[Gid, ...], a_set(items=16)] = ()
    """Group ids that own /dev/kfd and /dev/dri/renderD* on these hosts, for AMD."""
    runtime_class_name: ObjectName | None = None
    """The RuntimeClass of these nodes, for NVIDIA; when absent, `nvidia` if that object exists."""
    tolerations: Annotated[tuple[Toleration, ...], a_list(items=16)] = ()
    """Further taints that the pods tolerate."""
    env: Annotated[tuple[EnvironmentVariable, ...], list_map("name", items=64)] = ()
    """Environment variables for jobs on this pool, for example fabric settings; a job's own variables replace them."""
    device_mode: Literal["DevicePlugin", "DRA", "HostDevices"] | None = None
    """How pods get the devices. DevicePlugin: by the name of a resource. DRA: by ResourceClaims, or by the extended resource of
    the DeviceClass. HostDevices: by the host's device files, in a privileged pod that gets all GPUs of its node, if the namespace's Pod
    Security level allows it. When absent, as the nodes offer them."""
    gpus_per_node: Annotated[int, Field(ge=1, le=64)] | None = None
    """GPUs of each node, for HostDevices if no label counts them."""
    fabric: FabricSpec | None = None
    """The fast network between the nodes, for jobs with several nodes."""
    namespace_selector: NamespaceSelector | None = None
    """The namespaces whose jobs may use the pool; all when absent."""
    provision: ProvisionSpec | None = None
    """Nodes that an autoscaler can add; jobs are placed on them after those that fit existing nodes at equal cost."""


class GPUCount(Shape):
    """Devices of the pool."""

    total: int
    """All devices that the nodes offer."""
    free: int
    """Devices that no pod uses, on nodes that are ready."""


class PoolDisplay(Shape):
    """Texts for `kubectl get`, which cannot compute."""

    price: Annotated[str, Field(max_length=24)] | None = None
    """US dollars an hour for each GPU, in cents, for example 2.10."""


class GPUPoolStatus(Shape):
    """The nodes and devices of the pool; the operator writes it at most every 30 seconds."""

    nodes: int | None = None
    """Number of nodes."""
    gpus: GPUCount | None = None
    """Devices."""
    vendor: Annotated[str, Field(max_length=16)] | None = None
    """AMD or NVIDIA."""
    accelerator: Annotated[str, Field(max_length=63)] | None = None
    """The accelerator's catalog id."""
    resource_name: Annotated[str, Field(max_length=253)] | None = None
    """The device plugin's resource."""
    device_kind: Annotated[str, Field(max_length=16)] | None = None
    """The kind of the devices: Whole, Partition, Shared or Integrated."""
    profile: Annotated[str, Field(max_length=64)] | None = None
    """The partition of the devices, for example 1g.5gb or cpx_nps4."""
    memory: Annotated[str, Field(max_length=24)] | None = None
    """Usable memory of a device."""
    driver: Annotated[str, Field(max_length=64)] | None = None
    """The oldest driver of the nodes."""
    cpu_architecture: Annotated[str, Field(max_length=16)] | None = None
    """The hosts' CPU architecture."""
    instance_type: Annotated[str, Field(max_length=63)] | None = None
    """The nodes' instance type."""
    capacity_type: Annotated[str, Field(max_length=16)] | None = None
    """OnDemand, Reserved or Spot."""
    price_per_gpu_hour: Annotated[str, Field(max_length=24)] | None = Field(default=None, alias="pricePerGPUHour")
    """US dollars an hour for each GPU; absent when unknown."""
    price_source: Annotated[str, Field(max_length=256)] | None = None
    """The source of the price, with its date."""
    problem: Annotated[str, Field(max_length=64)] | None = None
    """Why no job gets these devices, one word, for example AcceleratorUnknown (the conditions have the details); NoPrice if jobs
    get them and no price is known."""
    display: PoolDisplay | None = None
    """Texts for `kubectl get`."""
    conditions: Annotated[tuple[Condition, ...], list_map("type", items=8)] = ()
    """Warnings and their reasons."""


class GPUPool(Shape):
    """Interchangeable GPUs of one kind: discovered by the operator or selected by an admin."""

    api_version: Literal["gpujob.dev/v1alpha1"] = API_VERSION  # type: ignore[assignment]
    kind: Literal["GPUPool"] = "GPUPool"
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)  # an instance here would build its validator at import
    spec: GPUPoolSpec
    """The nodes of the pool, and facts about them."""
    status: GPUPoolStatus | None = None
    """The nodes and devices of the pool."""
