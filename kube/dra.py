"""Names of Dynamic Resource Allocation: the agent's driver, NVIDIA's, and the claims of fractions."""

from __future__ import annotations

from typing import Literal

from kube.names import PREFIX

DRIVER = "gpu.clearml-injector.io"
"""The driver that the agent is where it offers GPUs by DRA; its DeviceClass has the same name."""
NVIDIA_DRIVER = "gpu.nvidia.com"
"""NVIDIA's driver; its DeviceClass of whole cards has the same name."""
DriverName = Literal["gpu.clearml-injector.io", "gpu.nvidia.com"]
MEMORY_CAPACITY = "memory"
"""The capacity of a device of which claims take a part; both drivers' unit is 1Mi."""
CLAIM_NAME = "gpu-fraction"
"""The name in `spec.resourceClaims` of the claim of a pod's share, and prefix of its template's name."""
REQUEST_NAME = "gpu"
"""The name of the request in the claim; alternatives of a card's size are named `m` and its MiB."""
TEMPLATE_LABEL = PREFIX + "template"
"""Label of the ResourceClaimTemplates that the controller makes."""
