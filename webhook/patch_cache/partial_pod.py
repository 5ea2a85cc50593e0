"""A pod decoded in part, in one pass: names, and raw JSON for fields that are only compared.

The fields that rules read are in webhook/admission/pod.py; they are decoded only for pods that the rules
decide. `Keyed` fields are in the cache key; key.py checks the texts of the others. The types of fields that
are not listed here are not checked: the API server has already decoded the object.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from webhook.admission import pod as rules
from webhook.admission_request import PodObject
from webhook.patch_cache.table import ABSENT, AS_WRITTEN, Keyed, Table, if_any
from webhook.patch_cache.template import MARK


class Named(msgspec.Struct, gc=False):
    """An environment variable; only its name is read."""

    name: str


class PartialMount(msgspec.Struct, rename="camel", gc=False):
    """A volume mount of a container."""

    name: str
    mount_path: str


class PartialVolume(msgspec.Struct, rename="camel", gc=False):
    """A volume."""

    name: str


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
    env: Annotated[list[Named] | None, if_any([{"name": MARK}])] = None
    resources: msgspec.Raw = ABSENT
    """In the key without the amounts of CPU and memory (webhook/patch_cache/amounts.py)."""
    restart_policy: Annotated[str | None, Keyed('{0} == "Always"', "Always")] = None
    volume_mounts: Annotated[list[PartialMount] | None, if_any([{"name": MARK, "mountPath": f"/{MARK}"}])] = (
        None
    )
    termination_message_path: str | None = None
    security_context: Annotated[
        PartialSecurityContext | None,
        Keyed("{0} is not None and {0}.privileged is True", {"privileged": True}),
    ] = None


class PartialSpec(msgspec.Struct, rename="camel", gc=False):
    """The pod's spec."""

    volumes: Annotated[list[PartialVolume] | None, if_any([{"name": MARK}])] = None
    init_containers: list[PartialContainer] | None = None
    containers: list[PartialContainer] | None = None
    node_selector: Annotated[msgspec.Raw, AS_WRITTEN] = ABSENT
    host_pid: Annotated[bool | None, if_any(example=True)] = msgspec.field(default=None, name="hostPID")
    tolerations: Annotated[msgspec.Raw, AS_WRITTEN] = ABSENT
    runtime_class_name: Annotated[str | None, Keyed("{0} is not None", MARK)] = None


class PartialPod(PodObject, gc=False):
    """A pod."""

    spec: PartialSpec | None = None


VOLUME = Table(PartialVolume, rules.Volume)
# Policies to which images matter have no keys.
CONTAINER = Table(PartialContainer, rules.Container, "image")
SPEC = Table(PartialSpec, rules.PodSpec, volumes=VOLUME, init_containers=CONTAINER, containers=CONTAINER)
POD_TYPE: Any = msgspec.defstruct(
    "PartialPod", [("spec", SPEC.type | None, None)], bases=(PartialPod,), gc=False
)
"""A partial pod with the other fields that rules read, as raw JSON."""
