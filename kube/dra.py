"""Names of Dynamic Resource Allocation: the drivers of GPUs, and the claims of fractions."""

from __future__ import annotations

from typing import Literal

from kube.names import PREFIX

DRIVER = "gpu.clearml-injector.io"
"""The driver that the agent is where it offers GPUs by DRA; its DeviceClass has the same name."""
NVIDIA_DRIVER = "gpu.nvidia.com"
"""NVIDIA's driver; its DeviceClass of whole cards has the same name."""
DriverName = Literal["gpu.clearml-injector.io", "gpu.nvidia.com"]
"""The drivers whose cards claims of shares may take, as policies and placement requests name them."""
SHARE_CAPACITY = "share"
"""The capacity of a device of the agent's driver of which claims take a part, in millionths of the card."""
CAPACITIES = {DRIVER: SHARE_CAPACITY, NVIDIA_DRIVER: "memory"}
"""The capacity of each driver's devices of which claims take a part; NVIDIA's is in bytes."""
SHARES_OF_CARD = 1_000_000
MEMORY_ATTRIBUTE = "memoryMiB"
"""The attribute with a card's memory for programs, of the agent's driver."""
CLAIM_NAME = "gpu-fraction"
"""The name in `spec.resourceClaims` of the claim of a pod's share, and prefix of its template's name."""
REQUEST_NAME = "gpu"
"""The name of the request in the claim; alternatives for sizes of cards are named `m` and MiB.

If several containers share the claim, each has a request of its own, named `gpu-` and its number from 0."""
TEMPLATE_LABEL = PREFIX + "template"
"""Label of the ResourceClaimTemplates that the controller makes."""


def part_of_card(share: int) -> str:
    """Return a share of a card, of SHARES_OF_CARD, as the label says it: "0.5"."""
    whole, part = divmod(share, SHARES_OF_CARD)
    return f"{whole}.{part:06}".rstrip("0").rstrip(".")
