"""Names by which pods ask for GPUs in other ways than a policy's: ours to replace, or to refuse."""

from __future__ import annotations

WHOLE_GPU_NAMES = frozenset({"nvidia.com/gpu", "nvidia.com/gpu.shared"})
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
