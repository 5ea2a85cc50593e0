"""The fields of a pod that a decision needs, decoded in one pass; all others are skipped, and kept."""

from __future__ import annotations

import msgspec

from kube import names
from kube.objects import OwnerReference, SchedulingGate
from kube.scheduling import NodeSelector, Toleration

LABEL = names.FRACTION_LABEL
MEMORY_LABEL = names.MEMORY_LABEL
QUEUE_NAME_LABEL = names.QUEUE_NAME_LABEL
QUEUE_ID_LABEL = names.QUEUE_ID_LABEL


class Present(msgspec.Struct, frozen=True, gc=False):
    """An object of which the rules only need to know that it exists."""


class EnvEntry(msgspec.Struct, rename="camel", gc=False):
    """One environment variable; names may repeat in a container, the last wins."""

    name: str
    value: str | None = None
    value_from: Present | None = None


class UsedClaim(msgspec.Struct, gc=False):
    """A resource claim of the pod that a container uses."""

    name: str | None = None
    request: str | None = None
    """One of the claim's requests; all of them if it is missing."""


class Resources(msgspec.Struct, gc=False):
    """Amounts by resource name, as Kubernetes quantities, and resource claims."""

    limits: dict[str, str | int] | None = None
    requests: dict[str, str | int] | None = None
    claims: list[UsedClaim] | None = None


class VolumeMount(msgspec.Struct, rename="camel", gc=False):
    """A mount of a volume in a container."""

    name: str
    mount_path: str


class VolumeDevice(msgspec.Struct, rename="camel", gc=False):
    """A volume as a block device in a container."""

    device_path: str


class Capabilities(msgspec.Struct, gc=False):
    """Linux capabilities that a container adds to the default ones."""

    add: list[str] | None = None


class SecurityContext(msgspec.Struct, gc=False):
    """The fields of a container's security context that can break isolation between GPUs."""

    privileged: bool | None = None
    capabilities: Capabilities | None = None


class Container(msgspec.Struct, rename="camel", gc=False):
    """A regular or an init container."""

    name: str
    image: str | None = None
    env: list[EnvEntry] | None = None
    resources: Resources | None = None
    volume_mounts: list[VolumeMount] | None = None
    volume_devices: list[VolumeDevice] | None = None
    termination_message_path: str | None = None
    """Path at which the kubelet mounts a file for the termination message."""
    security_context: SecurityContext | None = None
    restart_policy: str | None = None

    @property
    def is_native_sidecar(self) -> bool:
        """Whether an init container with this restart policy runs at the same time as the regular ones."""
        return self.restart_policy == "Always"


class HostPath(msgspec.Struct, gc=False):
    """A path of the node."""

    path: str


class Volume(msgspec.Struct, rename="camel", gc=False):
    """A volume; sources other than hostPath do not matter here."""

    name: str
    host_path: HostPath | None = None


class ResourceClaim(msgspec.Struct, rename="camel", gc=False):
    """A resource claim of a pod (Dynamic Resource Allocation); its device class is not in the pod."""

    name: str | None = None
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class NodeAffinity(msgspec.Struct, gc=False):
    """The pod's node affinity."""

    required: NodeSelector | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: list[Present] | None = msgspec.field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(msgspec.Struct, rename="camel", gc=False):
    """The part of the pod's affinity about nodes."""

    node_affinity: NodeAffinity | None = None


class PodSpec(msgspec.Struct, rename="camel", gc=False):
    """The pod's spec."""

    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    volumes: list[Volume] | None = None
    host_pid: bool | None = msgspec.field(default=None, name="hostPID")
    host_ipc: bool | None = msgspec.field(default=None, name="hostIPC")
    node_name: str | None = None
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: list[Toleration] | None = None
    runtime_class_name: str | None = None
    resource_claims: list[ResourceClaim] | None = None
    overhead: dict[str, str | int] | None = None
    resources: Resources | None = None
    """Requests of the pod as a whole, which replace the sum of its containers'."""
    scheduling_gates: list[SchedulingGate] | None = None
    scheduler_name: str | None = None
    image_pull_secrets: list[dict[str, str]] | None = None


class ObjectMeta(msgspec.Struct, rename="camel", gc=False):
    """Names, owners, labels and annotations."""

    name: str | None = None
    generate_name: str | None = None
    owner_references: list[OwnerReference] | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class Pod(msgspec.Struct, gc=False):
    """A pod as the API server sends it to a mutating webhook."""

    metadata: ObjectMeta | None = None
    spec: PodSpec | None = None


class JobSpec(msgspec.Struct, gc=False):
    """The Job's spec."""

    template: Pod | None = None


class Job(msgspec.Struct, gc=False):
    """A batch/v1 Job."""

    metadata: ObjectMeta | None = None
    spec: JobSpec | None = None
