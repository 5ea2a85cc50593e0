"""Annotations of other systems that share GPUs: KAI's, Run:ai's and HAMi's, each name once."""

from __future__ import annotations

from collections.abc import Mapping

from kube.names import CONTAINER_ANNOTATION, GPU_MODEL_ANNOTATION, GPUS_ANNOTATION, NVIDIA_DOMAIN

KAI_FRACTION, KAI_MEMORY = "gpu-fraction", "gpu-memory"
KAI_GPUS, KAI_CONTAINER = "gpu-fraction-num-devices", "gpu-fraction-container-name"
KAI_LIMITS = {KAI_FRACTION: "gpu-fraction-limit", KAI_MEMORY: "gpu-memory-limit"}
"""Run:ai's: by what a pod is guaranteed, up to what it may grow."""
KAI_MPS = "mps"
KAI_AMOUNTS = (KAI_FRACTION, KAI_MEMORY, *KAI_LIMITS.values())
"""A pod with one of them asks for a share."""

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
"""On which cards a pod of HAMi's may go."""

OURS_INSTEAD: Mapping[str, str | None] = {
    **dict.fromkeys((*KAI_AMOUNTS, *HAMI_ANNOTATIONS)),
    KAI_GPUS: GPUS_ANNOTATION,
    KAI_CONTAINER: CONTAINER_ANNOTATION,
    HAMI_USE_TYPE: GPU_MODEL_ANNOTATION,
}
"""Each of them, and our annotation that says the same; None where there is none."""
