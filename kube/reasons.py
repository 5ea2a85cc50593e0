"""The reasons that a review can end with: a closed list for logs, metrics, audit annotations and the page."""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """Reason codes. A code never changes its meaning; docs/reference/reasons.md explains each to a user."""

    INJECTED = "injected"
    UNCHANGED = "unchanged"
    NO_SHARE = "no-share"
    NOT_LABELLED = "not-labelled"
    NOT_HANDLED = "not-handled"
    MIRROR_POD = "mirror-pod"

    LABEL = "label-not-allowed"
    KEY = "key-unknown"
    ALIAS = "alias-not-allowed"
    GPUS = "gpus-not-allowed"
    GPU_KIND = "gpu-kind"
    COMPUTE = "compute-not-allowed"
    LABEL_NOT_ON_TEMPLATE = "label-not-on-template"
    POD_EXISTS = "pod-exists"
    CONTAINER_UNKNOWN = "container-unknown"
    CONTAINER_AMBIGUOUS = "container-ambiguous"
    CONTAINERS = "containers-not-allowed"
    SEVERAL_GPU_CONTAINERS = "several-gpu-containers"
    GPU_AMOUNT = "gpu-amount"
    GPU_INDEX_SET = "gpu-index-set"
    OTHER_GPU_SYSTEM = "other-gpu-system"
    ENV_VALUE_FROM = "env-value-from"
    MOUNT_PATH = "mount-path"
    AFFINITY = "affinity-matches-nothing"
    MANY_DEMANDS = "too-many-demands"
    TOO_LARGE = "pod-too-large"
    DUPLICATE_NAME = "duplicate-name"
    PRIVILEGED = "privileged"
    CAPABILITY = "capability"
    HOST_PID = "host-pid"
    HOST_IPC = "host-ipc"
    HOST_PATH = "host-path"
    CDI_ANNOTATION = "cdi-annotation"
    NO_NODE = "no-matching-node"
    NO_PIECE = "no-room-in-one-piece"
    MEMORY = "memory-too-small"
    IMAGE = "image-does-not-fit"
    OVER_QUOTA = "over-quota"
    QUOTA_UNKNOWN = "quota-unknown"
    QUOTA_GATE = "quota-gate"
    CLAIM_TEMPLATE = "claim-template"
    NO_CONTROLLER = "controller-away"
    NO_POLICIES = "policies-broken"
    UNREADABLE = "unreadable-object"
    INTERNAL = "internal-error"

    # The hash of str: that of enumerations is a Python function, and each review needs it three times.
    __hash__ = str.__hash__


ADMITTED = frozenset(
    {
        Reason.INJECTED,
        Reason.UNCHANGED,
        Reason.NO_SHARE,
        Reason.NOT_LABELLED,
        Reason.NOT_HANDLED,
        Reason.MIRROR_POD,
    }
)
"""Reasons with which an object is admitted."""

DENIED = frozenset(Reason) - ADMITTED
"""Reasons with which an object is denied."""
