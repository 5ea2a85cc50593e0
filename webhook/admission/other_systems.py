"""Names of annotations of other GPU sharing systems: KAI, Run:ai and HAMi."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from kube.names import CONTAINER_ANNOTATION, GPU_MODEL_ANNOTATION, GPUS_ANNOTATION, NVIDIA_DOMAIN

SCHEDULERS = frozenset({"kai-scheduler", "runai-scheduler", "hami-scheduler"})
"""Their schedulers, which place no pod that requests what ours do."""
DEFAULT_SCHEDULER = "default-scheduler"
"""Kubernetes' own, which a pod without a name gets."""
KAI_FRACTION, KAI_MEMORY = "gpu-fraction", "gpu-memory"
KAI_GPUS, KAI_CONTAINER = "gpu-fraction-num-devices", "gpu-fraction-container-name"
KAI_LIMITS = {
    "gpu-fraction-limit": KAI_FRACTION,
    "gpu-memory-limit": KAI_MEMORY,
    "gpu-fraction.limit": KAI_FRACTION,
    "gpu-memory.limit": KAI_MEMORY,
}
"""From the limit up to which a pod may grow, as Run:ai and as KAI writes it, to the guaranteed amount."""
KAI_MPS, KAI_MIG = "mps", "mig-profile"
KAI_CONTAINERS = NVIDIA_DOMAIN + "container."
"""Prefix of annotations about one container, of KAI since 0.18 and of Run:ai since 3.0."""
KAI_EARLY = "nvidia.cdi.k8s.io/"
"""Prefix of the same before KAI's release 0.18, and of annotations that name devices (CDI)."""
KAI_AMOUNTS = (KAI_FRACTION, KAI_MEMORY, *KAI_LIMITS)
"""A pod with one of them requests a share."""
_FURTHER_OF_KAI = re.compile(
    r"nvidia\.com/(?:container\.|mig-)|kai\.scheduler/container\.|nvidia\.cdi\.k8s\.io/[^/]+\.gpu-memory\."
)

HAMI_USE_TYPE, HAMI_NO_TYPE = NVIDIA_DOMAIN + "use-gputype", NVIDIA_DOMAIN + "nouse-gputype"
HAMI_USE_UUID, HAMI_NO_UUID = NVIDIA_DOMAIN + "use-gpuuuid", NVIDIA_DOMAIN + "nouse-gpuuuid"
HAMI_MODE, HAMI_NUMA = NVIDIA_DOMAIN + "vgpu-mode", NVIDIA_DOMAIN + "numa-bind"
HAMI_NODE_POLICY, HAMI_GPU_POLICY = "hami.io/node-scheduler-policy", "hami.io/gpu-scheduler-policy"
HAMI_ANNOTATIONS = (
    HAMI_USE_TYPE,
    HAMI_NO_TYPE,
    HAMI_USE_UUID,
    HAMI_NO_UUID,
    HAMI_MODE,
    HAMI_NUMA,
    HAMI_NODE_POLICY,
    HAMI_GPU_POLICY,
)
"""HAMi's annotations about a pod's cards."""

OURS_INSTEAD: Mapping[str, str | None] = {
    **dict.fromkeys((*KAI_AMOUNTS, KAI_MIG, *HAMI_ANNOTATIONS)),
    KAI_GPUS: GPUS_ANNOTATION,
    KAI_CONTAINER: CONTAINER_ANNOTATION,
    HAMI_USE_TYPE: GPU_MODEL_ANNOTATION,
}
"""Each annotation, and our equivalent; None if there is none."""


def further_of_kai(annotations: Collection[str]) -> list[str]:
    """Return KAI's annotations about one container or a MIG instance, which have a part of their own."""
    return sorted([name for name in annotations if _FURTHER_OF_KAI.match(name) or name == KAI_MIG])
