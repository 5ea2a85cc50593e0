"""A pod decoded in part, in one pass: names, and raw JSON for fields that are only compared.

It holds the fields of a cache key (webhook/patch_cache/key.py). The fields that rules read are in
webhook/admission/pod.py; they are decoded only for pods that the rules decide. The types of other fields are
not checked: the API server has already decoded the object.
"""

from __future__ import annotations

import msgspec

from webhook.admission_request import PodObject

ABSENT = msgspec.Raw()


class Named(msgspec.Struct, gc=False):
    """An environment variable; only its name is read."""

    name: str


class PartialMount(msgspec.Struct, rename="camel", gc=False):
    """A volume mount of a container."""

    name: str
    mount_path: str


class PartialVolume(msgspec.Struct, rename="camel", gc=False):
    """A volume, and whether it is a hostPath."""

    name: str
    host_path: msgspec.Raw = ABSENT


class PartialCapabilities(msgspec.Struct, gc=False):
    """Linux capabilities that a container adds."""

    add: list[str] | None = None


class PartialSecurityContext(msgspec.Struct, gc=False):
    """The fields of a container's security context that can break isolation between GPUs."""

    privileged: bool | None = None
    capabilities: PartialCapabilities | None = None


class PartialContainer(msgspec.Struct, rename="camel", gc=False):
    """A regular or init container."""

    name: str
    env: list[Named] | None = None
    resources: msgspec.Raw = ABSENT
    volume_mounts: list[PartialMount] | None = None
    volume_devices: msgspec.Raw = ABSENT
    termination_message_path: str | None = None
    security_context: PartialSecurityContext | None = None
    restart_policy: str | None = None


class PartialSpec(msgspec.Struct, rename="camel", gc=False):
    """The pod's spec."""

    containers: list[PartialContainer] | None = None
    init_containers: list[PartialContainer] | None = None
    volumes: list[PartialVolume] | None = None
    host_pid: bool | None = msgspec.field(default=None, name="hostPID")
    host_ipc: bool | None = msgspec.field(default=None, name="hostIPC")
    node_name: str | None = None
    node_selector: msgspec.Raw = ABSENT
    affinity: msgspec.Raw = ABSENT
    tolerations: msgspec.Raw = ABSENT
    runtime_class_name: str | None = None
    resource_claims: msgspec.Raw = ABSENT
    overhead: msgspec.Raw = ABSENT
    resources: msgspec.Raw = ABSENT


class PartialPod(PodObject, gc=False):
    """A pod."""

    spec: PartialSpec | None = None
