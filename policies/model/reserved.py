"""Environment variables that would break or bypass a limit if a pod set them."""

from __future__ import annotations

import re

RESERVED = (
    "NVIDIA_VISIBLE_DEVICES",
    "NVIDIA_GPU_MEMORY_*",
    "CUDA_DEVICE_MEMORY_LIMIT*",
    "CUDA_DEVICE_SM_LIMIT*",
    "CUDA_DEVICE_MEMORY_SHARED_CACHE",
    "CUDA_REDIRECT",
    "CUDA_DISABLE_CONTROL",
    "CUDA_OVERSUBSCRIBE",
    "GPU_CORE_UTILIZATION_POLICY",
    "ACTIVE_OOM_KILLER",
    "CUDA_MPS_*",
    "LIBCUDA_LOG_LEVEL",
    "LD_AUDIT",
)
"""Names, or prefixes that end in a star. Libraries in LD_AUDIT are loaded before those in LD_PRELOAD, and can
redirect a program's calls past them."""

_RESERVED = re.compile("|".join(re.escape(name).replace(r"\*", ".*") for name in RESERVED), re.DOTALL)


def is_reserved(name: str) -> bool:
    """Whether every copy of this variable is removed from a GPU container before ours are set."""
    return _RESERVED.fullmatch(name) is not None
