"""The parts of a pod that a GPUJob's author may write, in Kubernetes' own shapes and without hostPath.

Host access, privileges, node choice and sidecars are left out on purpose: they would undo the decision or the boundary.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gpujob.api.fields import patterns
from gpujob.api.fields.amounts import Storage
from gpujob.api.fields.base import DataKey, DnsLabel, Gid, ObjectName, Path, Reference, Shape, Text, a_list, a_set


class KeyReference(Shape):
    """One key of a ConfigMap or Secret in the job's namespace."""

    name: ObjectName
    """The object's name."""
    key: DataKey
    """The key inside the object."""
    optional: bool | None = None
    """Whether the pod may start without it."""


class FieldReference(Shape):
    """A field of the pod itself."""

    field_path: Annotated[str, Field(max_length=400), patterns.FIELD_PATH]
    """For example metadata.name or status.podIP."""
    api_version: Literal["v1"] | None = None
    """The API version of the path."""


class ResourceFieldReference(Shape):
    """A resource figure of the container."""

    resource: Annotated[str, Field(max_length=64), patterns.RESOURCE_FIELD]
    """For example limits.memory."""
    container_name: DnsLabel | None = None
    """The container; the training container when absent."""
    divisor: Annotated[str, Field(max_length=4), patterns.DIVISOR] | None = None
    """The unit of the figure, for example 1Mi."""


class EnvironmentSource(Shape):
    """Where a variable's value comes from: exactly one member."""

    config_map_key_ref: KeyReference | None = None
    """A key of a ConfigMap."""
    secret_key_ref: KeyReference | None = None
    """A key of a Secret."""
    field_ref: FieldReference | None = None
    """A field of the pod."""
    resource_field_ref: ResourceFieldReference | None = None
    """A resource figure of the container."""


class EnvironmentVariable(Shape):
    """One environment variable of the training container."""

    name: Annotated[str, Field(min_length=1, max_length=256), patterns.VARIABLE]
    """Its name. Only the operator and the device plugin set GPUJOB_*, PET_* and NVIDIA_VISIBLE_DEVICES."""
    value: Text | None = None
    """Its value."""
    value_from: EnvironmentSource | None = None
    """The source of its value, in place of `value`."""


class ObjectReference(Shape):
    """A ConfigMap or Secret in the job's namespace."""

    name: ObjectName
    """The object's name."""
    optional: bool | None = None
    """Whether the pod may start without it."""


class EnvironmentFrom(Shape):
    """All keys of a ConfigMap or Secret as environment variables: exactly one of the two."""

    config_map_ref: ObjectReference | None = None
    """The ConfigMap."""
    secret_ref: ObjectReference | None = None
    """The Secret."""
    prefix: Annotated[str, Field(max_length=128), patterns.VARIABLE_PREFIX] | None = None
    """A prefix for each key."""


class KeyToPath(Shape):
    """One key of a ConfigMap or Secret as a file."""

    key: Annotated[str, Field(min_length=1, max_length=253)]
    """The key."""
    path: Annotated[Path, Field(json_schema_extra={"pattern": patterns.RELATIVE_PATH})]
    """The file's path below the mount, relative."""
    mode: Annotated[int, Field(ge=0, le=511)] | None = None
    """The file's permission bits, as a decimal number."""


Mode = Annotated[int, Field(ge=0, le=511)]


class ConfigMapVolume(Shape):
    """Files from a ConfigMap."""

    name: ObjectName
    """The ConfigMap's name."""
    items: Annotated[tuple[KeyToPath, ...], a_list(items=64)] = ()
    """The keys to show; all when empty."""
    default_mode: Mode | None = None
    """Permission bits of the files, as a decimal number."""
    optional: bool | None = None
    """Whether the pod may start without it."""


class SecretVolume(Shape):
    """Files from a Secret."""

    secret_name: ObjectName
    """The Secret's name."""
    items: Annotated[tuple[KeyToPath, ...], a_list(items=64)] = ()
    """The keys to show; all when empty."""
    default_mode: Mode | None = None
    """Permission bits of the files, as a decimal number."""
    optional: bool | None = None
    """Whether the pod may start without it."""


class ClaimVolume(Shape):
    """A PersistentVolumeClaim of the job's namespace."""

    claim_name: ObjectName
    """The claim's name."""
    read_only: bool | None = None
    """Whether the mount is read-only."""


class EmptyDirVolume(Shape):
    """A folder that lives as long as the pod."""

    medium: Literal["", "Memory"] | None = None
    """Memory for a folder in RAM; the node's disk when absent."""
    size_limit: Storage | None = None
    """The most that it may hold, for example 50Gi."""


class ClaimResources(Shape):
    """The size of a volume that is created for the pod."""

    requests: dict[str, Storage] = Field(default_factory=dict, max_length=4)
    """`storage` and its size."""


AccessMode = Literal["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"]


class ClaimSpec(Shape):
    """The claim that is created for each pod."""

    access_modes: Annotated[tuple[AccessMode, ...], a_set(items=4)] = ()
    """At least one, for example ReadWriteOnce."""
    storage_class_name: ObjectName | None = None
    """The storage class; the cluster's default when absent."""
    resources: ClaimResources
    """The size."""


class ClaimTemplate(Shape):
    """A template of a PersistentVolumeClaim."""

    spec: ClaimSpec
    """The claim."""


class EphemeralVolume(Shape):
    """A volume that is provisioned for each pod and deleted with it."""

    volume_claim_template: ClaimTemplate
    """The claim to create."""


class LocalReference(Shape):
    """An object of the job's namespace."""

    name: ObjectName
    """Its name."""


class CsiVolume(Shape):
    """An inline volume of a CSI driver."""

    driver: ObjectName
    """The driver's name."""
    fs_type: Annotated[str, Field(max_length=32)] | None = None
    """The file system."""
    read_only: bool | None = None
    """Whether the mount is read-only."""
    volume_attributes: dict[str, Annotated[str, Field(max_length=1024)]] = Field(default_factory=dict, max_length=32)
    """The driver's own settings."""
    node_publish_secret_ref: LocalReference | None = None
    """The Secret that the driver gets."""


class ProjectedObject(Shape):
    """A ConfigMap or Secret as a part of a projected volume."""

    name: ObjectName
    """The object's name."""
    items: Annotated[tuple[KeyToPath, ...], a_list(items=64)] = ()
    """The keys to show; all when empty."""
    optional: bool | None = None
    """Whether the pod may start without it."""


class ProjectedSource(Shape):
    """One part of a projected volume: exactly one member."""

    config_map: ProjectedObject | None = None
    """Files from a ConfigMap."""
    secret: ProjectedObject | None = None
    """Files from a Secret."""


class ProjectedVolume(Shape):
    """Several ConfigMaps and Secrets in one folder."""

    sources: Annotated[tuple[ProjectedSource, ...], a_list(items=16)]
    """The parts."""
    default_mode: Mode | None = None
    """Permission bits of the files, as a decimal number."""


class ImageVolume(Shape):
    """The content of an OCI image as a read-only folder."""

    reference: Reference
    """The image."""
    pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = None
    """When to pull it."""


class Volume(Shape):
    """A volume: its name and exactly one source. hostPath is not available."""

    name: DnsLabel
    """The name that volumeMounts use."""
    persistent_volume_claim: ClaimVolume | None = None
    """A PersistentVolumeClaim."""
    config_map: ConfigMapVolume | None = None
    """A ConfigMap."""
    secret: SecretVolume | None = None
    """A Secret."""
    empty_dir: EmptyDirVolume | None = None
    """A folder that lives as long as the pod."""
    ephemeral: EphemeralVolume | None = None
    """A volume provisioned for each pod."""
    csi: CsiVolume | None = None
    """An inline CSI volume."""
    projected: ProjectedVolume | None = None
    """Several ConfigMaps and Secrets in one folder."""
    image: ImageVolume | None = None
    """An OCI image."""


class VolumeMount(Shape):
    """Where a volume is mounted in the training container."""

    name: DnsLabel
    """The volume's name."""
    mount_path: Path
    """The folder inside the container."""
    sub_path: Annotated[str, Field(max_length=1024)] | None = None
    """A path inside the volume."""
    read_only: bool | None = None
    """Whether the mount is read-only."""


class SecurityContext(Shape):
    """The user and groups of the training process. Unset: uid, gid and fsGroup 1000, non-root; on OpenShift the first uid and
    fsGroup of the namespace's ranges."""

    run_as_user: Gid | None = None
    """The uid; 0 is an explicit choice that gives up the "restricted" Pod Security level."""
    run_as_group: Gid | None = None
    """The gid."""
    fs_group: Gid | None = None
    """The group that owns mounted volumes."""
    supplemental_groups: Annotated[tuple[Gid, ...], a_set(items=32)] = ()
    """Further groups; the pool's device groups are added for AMD."""
    run_as_non_root: bool | None = None
    """Whether the kubelet refuses to start the container as root; true unless runAsUser is 0."""
    read_only_root_filesystem: bool | None = None
    """Whether the image's own files are read-only."""


LabelText = Annotated[str, Field(max_length=63), patterns.LABEL_VALUE]


class PodMetadata(Shape):
    """Labels and annotations added to the pods."""

    labels: dict[str, LabelText] = Field(default_factory=dict, max_length=64)
    """Labels; keys of gpujob.dev and kubernetes.io are reserved."""
    annotations: dict[str, Annotated[str, Field(max_length=4096)]] = Field(default_factory=dict, max_length=64)
    """Annotations; keys of gpujob.dev and kubernetes.io are reserved."""
