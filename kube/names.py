"""The product's labels, annotations and resource names, each defined once, and Kubernetes' rules for names.

Kubernetes checks names and label values only after mutating webhooks.
"""

from __future__ import annotations

import re

PREFIX = "clearml-injector/"
"""Prefix of all our labels and annotations."""
FRACTION_LABEL = PREFIX + "fraction"
"""Label of a pod: the share of a GPU that it requests."""
MEMORY_LABEL = PREFIX + "gpu-memory"
"""Label of a pod, instead of the fraction: the GPU memory that it requests."""
ASKING_LABELS = (FRACTION_LABEL, MEMORY_LABEL)
"""The injector handles pods that have one of these labels."""
CONTAINER_ANNOTATION = PREFIX + "container"
"""Annotation of a pod, by its author: the container that gets the GPU."""
CONTAINERS_ANNOTATION = PREFIX + "containers"
"""Annotation of a pod, by its author: the containers that share its GPU, and how much of it each gets."""
DEFAULT_CONTAINER_ANNOTATION = "kubectl.kubernetes.io/default-container"
"""Kubernetes' own annotation of a pod: the container that kubectl uses if none is named."""
GPUS_ANNOTATION = PREFIX + "gpus"
"""Annotation of a pod, by its author: number of different GPUs of one node that each give the share."""
GPU_MODEL_ANNOTATION = PREFIX + "gpu-model"
"""Annotation of a pod, by its author: patterns of the GPU models that it accepts."""
MIN_GPU_MEMORY_ANNOTATION = PREFIX + "min-gpu-memory"
"""Annotation of a pod, by its author: the minimum memory of a whole GPU."""
COMPUTE_ANNOTATION = PREFIX + "compute"
"""Annotation of a pod, by its author: the percentage of each GPU's compute that it may use."""
INJECTED_ANNOTATION = PREFIX + "injected"
"""Annotation of a pod: the policy that injected it."""
SLICES_ANNOTATION = PREFIX + "slices"
GPU_INDEX_ANNOTATION = PREFIX + "gpu-index"
GPU_CONTAINER_ANNOTATION = PREFIX + "gpu-container"
MEMORY_MIB_ANNOTATION = PREFIX + "memory-mib"
RESERVATION_ANNOTATION = PREFIX + "reservation"
"""Annotation of a pod: the reservation in the ledger that becomes this pod."""
NO_SHARE_ANNOTATION = PREFIX + "no-share"
"""Annotation of a pod that requested a share, but whose queue or policy gives none: the name of either."""
QUOTA_GATE = PREFIX + "quota"
"""Scheduling gate of a pod that waits for a quota: the webhook adds it, the controller removes it."""
USE_HISTORY_KEY = "history.json"
"""Key of the history in the ConfigMap that keeps what pods used."""
CORDON_ANNOTATION = PREFIX + "cordon"
"""Annotation of a node: GPUs that are out of placement."""
CERTIFICATE_ANNOTATION = PREFIX + "certificate"
"""Annotation of our own pods: the certificate that the kubelet was last asked to mount."""
POLICIES_ANNOTATION = PREFIX + "policies"
"""Annotation of our own pods: the version of the policies that the kubelet was last asked to mount."""
INJECTED_AT_ANNOTATION = PREFIX + "injected-at"
"""Annotation of the `-tls` Secret: when the newest CA of `injected-ca` was read back from the caBundle."""
SEEN_AT_ANNOTATION = PREFIX + "seen-at"
"""Annotation of the `-ca` Secret: when every endpoint was first seen serving a leaf of the current CA."""

PARTITIONING_LABELS = ("cdmo.clear.ml/gpu-partitioning", PREFIX + "gpu-partitioning")
"""Labels of a node. If either has the value "mig", the node's cards are divided on demand."""
MIG_CHANGE_ANNOTATION = PREFIX + "mig-change"
"""Annotation of a node that is cordoned while a card is divided: configuration before, ">", the next."""
MIG_DIVIDED_AT_ANNOTATION = PREFIX + "mig-divided-at"
"""Annotation of a node: when the last division of its cards ended, as RFC 3339."""

WEBHOOK = "fractions.clearml-injector.io"
"""Name of the one entry of the webhook configuration, which a denial begins with."""
GROUP = "clearml-injector.io"
"""API group of the GpuLedger and of the GpuNode."""
API_VERSION = GROUP + "/v1alpha1"
GPU_NODES_PATH = f"/apis/{API_VERSION}/gpunodes"
"""API path of GpuNodes: agents write them, the controller reads them."""
GPU_LEDGERS_PATH = f"/apis/{API_VERSION}/gpuledgers"
"""API path of GpuLedgers: the controller writes them, commands read them."""
RESOURCE_SLICES_PATH = "/apis/resource.k8s.io/v1/resourceslices"
"""API path of ResourceSlices: DRA drivers write them. Kubernetes serves them in this version since 1.34."""
RESOURCE_CLAIMS_PATH = "/apis/resource.k8s.io/v1/resourceclaims"
"""API path of the ResourceClaims of all namespaces: the scheduler writes what they hold."""
AGENT_TAINT = GROUP + "/agent-not-ready"
"""Taint of a node, NoSchedule, while its agent does not serve: a pod bound meanwhile fails for good."""
ADDRESS_ANNOTATION = GROUP + "/address"
"""Annotation of the Lease: address of the leader's API, to which standbys forward requests."""

NVIDIA_DOMAIN = "nvidia.com/"
GPU_RESOURCE = NVIDIA_DOMAIN + "gpu"
"""Extended resource: whole GPUs of a node, or slices of all of them."""
SHARED_GPU_RESOURCE = GPU_RESOURCE + ".shared"
"""The same resource under the name that the device plugin uses when it divides GPUs."""
GPU_RESOURCE_PREFIX = GPU_RESOURCE + "-"
"""Prefix of the resource name of one GPU; its index follows."""
GPU_MEMORY_LABEL = GPU_RESOURCE + ".memory"
"""Node label of GPU feature discovery: MiB of one GPU."""
GPU_PRODUCT_LABEL = GPU_RESOURCE + ".product"
"""Node label of GPU feature discovery: the model of the GPUs."""
HOSTNAME_LABEL = "kubernetes.io/hostname"
"""Node label of the kubelet, by which a pod selects nodes; usually the node's name."""
GPU_PRESENT_LABEL = GPU_RESOURCE + ".present"
"""Node label of GPU feature discovery: "true" on a node with GPUs."""
DEPLOY_CLIENT_LABEL = GPU_RESOURCE + ".deploy.client"
"""Node label of the GPU operator: "true" while clients of the driver may run."""
DEPLOY_PLUGIN_LABEL = GPU_RESOURCE + ".deploy.device-plugin"
DEPLOY_DRIVER_LABEL = GPU_RESOURCE + ".deploy.dra-driver"
"""Node labels of the GPU operator: "true" with a ClusterPolicy, or a GPUCluster."""
GPU_COUNT_LABEL = GPU_RESOURCE + ".count"
GPU_REPLICAS_LABEL = GPU_RESOURCE + ".replicas"
"""Node label of GPU feature discovery: slices of each GPU."""
GPU_SHARING_LABEL = GPU_RESOURCE + ".sharing-strategy"
"""Node label of GPU feature discovery: none, time-slicing or mps."""
GKE_GPU_SHARING_LABEL = "cloud.google.com/gke-gpu-sharing-strategy"
"""Node label of GKE: time-sharing or mps."""
MIG_CONFIG_LABEL = NVIDIA_DOMAIN + "mig.config"
"""Node label that requests a configuration from NVIDIA's MIG manager."""
MIG_CONFIG_STATE_LABEL = MIG_CONFIG_LABEL + ".state"
"""Node label in which the MIG manager reports its state: pending, rebooting, failed or success."""
MAX_GPU_INDEX_DIGITS = 3
"""Maximum digits of a GPU index in a resource name or annotation."""

QUEUE_NAME_LABEL = "clearml-agent-queue-name"
"""Label of a pod, by the ClearML agent: the queue that it came from."""
QUEUE_ID_LABEL = "clearml-agent-queue"
GPU_FRACTIONS = "CLEARML_AGENT_GPU_FRACTIONS"
"""Variable with the part of each GPU that ClearML's agent reports; by itself it reads the label only."""

MAX_LABEL_VALUE = 63
MAX_NAME = 253
"""Maximum length of most objects' names, also of nodes and pods, and of the prefix of a label's key."""

_LABEL_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?", re.ASCII)
_NAMESPACE = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_POSITIVE = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)
_SIGNS_OF_UIDS = bytes.maketrans(b"-.:_", b"0000")


def is_label_value(text: str) -> bool:
    """Whether the API server accepts the text as a label's value."""
    return _LABEL_VALUE.fullmatch(text) is not None


def label_number(text: str | None) -> int | None:
    """Return the positive number in a label's value; None for any other text, as labels are free text."""
    return int(text) if text is not None and _POSITIVE.fullmatch(text) else None


def is_namespace(text: str) -> bool:
    """Whether a namespace can have this name."""
    return _NAMESPACE.fullmatch(text) is not None


def is_uid(text: str) -> bool:
    """Whether the text can be the uid of a review and of its reservation: the API server sends UUIDs."""
    # Every review calls this, and a regular expression takes three times as long.
    return len(text) <= MAX_NAME and text.isascii() and text.encode().translate(_SIGNS_OF_UIDS).isalnum()
