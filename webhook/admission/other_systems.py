"""Names of annotations of other GPU sharing systems: KAI, Run:ai and HAMi."""

from __future__ import annotations

from collections.abc import Mapping

from kube.names import CONTAINER_ANNOTATION, GPU_MODEL_ANNOTATION, GPUS_ANNOTATION, NVIDIA_DOMAIN

KAI_FRACTION, KAI_MEMORY = "gpu-fraction", "gpu-memory"
KAI_GPUS, KAI_CONTAINER = "gpu-fraction-num-devices", "gpu-fraction-container-name"
KAI_LIMITS = {KAI_FRACTION: "gpu-fraction-limit", KAI_MEMORY: "gpu-memory-limit"}
"""Run:ai's annotations: from a guaranteed amount to the limit up to which a pod may grow."""
KAI_MPS = "mps"
KAI_CONTAINERS = NVIDIA_DOMAIN + "container."
"""Prefix of KAI's newer annotations, which have an amount for each container."""
KAI_AMOUNTS = (KAI_FRACTION, KAI_MEMORY, *KAI_LIMITS.values())
"""A pod with one of them requests a share."""

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
    **dict.fromkeys((*KAI_AMOUNTS, *HAMI_ANNOTATIONS)),
    KAI_GPUS: GPUS_ANNOTATION,
    KAI_CONTAINER: CONTAINER_ANNOTATION,
    HAMI_USE_TYPE: GPU_MODEL_ANNOTATION,
}
"""Each annotation, and our equivalent; None if there is none."""
