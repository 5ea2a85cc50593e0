"""Resource names that mean GPUs: the ways in which users request one, and those of other systems."""

from __future__ import annotations

import re

from kube.names import GPU_RESOURCE, SHARED_GPU_RESOURCE

WHOLE_GPU_NAMES = frozenset({GPU_RESOURCE, SHARED_GPU_RESOURCE})
CLEARML_FRACTION_PREFIX = "clear.ml/fraction-"

OTHER_SYSTEM_PREFIXES = (
    "deviceclass.resource.kubernetes.io/",
    "nvidia.com/mig-",
    "nvidia.com/gpumem",
    "nvidia.com/gpucores",
    "nvidia.com/priority",
    "volcano.sh/vgpu",
    "aliyun.com/gpu",
    "amd.com/gpu",
    "gpu.intel.com/",
    "habana.ai/",
    "huawei.com/Ascend",
    "cambricon.com/",
    "hygon.com/dcu",
    "iluvatar.ai/",
    "metax-tech.com/",
    "mthreads.com/",
    "enflame.com/",
    "kunlunxin.com/",
    "aws.amazon.com/neuron",
    "google.com/tpu",
)
"""Device classes, MIG, HAMi, Volcano, Alibaba's GPU sharing, and the GPUs of other vendors."""

NVIDIA_CARD_PREFIXES = (
    GPU_RESOURCE,
    "nvidia.com/mig-",
    CLEARML_FRACTION_PREFIX,
    "aliyun.com/gpu",
    "tencent.com/vcuda",
    "volcano.sh/vgpu",
)
"""Names under which device plugins offer NVIDIA's cards, or parts of them."""

STANDARD_INDEX = r"nvidia\.com/gpu-[0-9]+"
"""Names of single GPUs that a node may advertise, whatever name the policy uses."""

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_EXTENDED_RESOURCE = re.compile(rf"{_LABEL}(\.{_LABEL})*/[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?")
_ONE_GPU = re.compile(STANDARD_INDEX, re.ASCII)


def is_one_gpu(resource: str) -> bool:
    """Whether the name is the standard one of a single GPU, such as "nvidia.com/gpu-3"."""
    return _ONE_GPU.fullmatch(resource) is not None


def policy_name_problem(resource: str) -> str | None:
    """Return why a policy cannot use this name for its slices in any mode; None if it can."""
    if not _EXTENDED_RESOURCE.fullmatch(resource) or resource.partition("/")[0].endswith("kubernetes.io"):
        return "must be the name of an extended resource such as nvidia.com/gpu"
    return None


def taken_name_problem(resource: str) -> str | None:
    """Return why slices cannot have a name with this prefix in any mode; None if they can."""
    if resource.startswith((CLEARML_FRACTION_PREFIX, *OTHER_SYSTEM_PREFIXES)) or is_one_gpu(resource):
        return "means something else, and pods that request it are denied: use another name"
    return None
