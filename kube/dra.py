"""Names of Dynamic Resource Allocation: the drivers of GPUs, and the claims of fractions."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from kube.names import MAX_NAME, PREFIX

DRIVER = "gpu.clearml-injector.io"
"""The driver that the agent is where it offers GPUs by DRA; its DeviceClass has the same name."""
NVIDIA_DRIVER = "gpu.nvidia.com"
"""NVIDIA's driver; its DeviceClass of whole cards has the same name."""
PolicyDriver = Literal["gpu.clearml-injector.io", "gpu.nvidia.com", "custom"]
"""The drivers of a policy: these two, or one whose names the policy gives."""
_LABEL = "[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_CEL_WORDS = (
    "as|break|const|continue|else|false|for|function|if|import|in|let|loop|namespace|null|package|return|true"
    "|var|void|while"
)
DNS_NAME = rf"^{_LABEL}(?:\.{_LABEL})*\Z"
"""Regular expression of the names of drivers and DeviceClasses."""
CEL_NAME = rf"^(?!(?:{_CEL_WORDS})\Z)[A-Za-z_][A-Za-z0-9_]*\Z"
"""Regular expression of the names of capacities and attributes, as far as CEL can write them."""
MAX_DRIVER, MAX_CEL_NAME = 63, 32
"""Characters of a driver's name, and of that of a capacity or attribute: Kubernetes' own limits."""
DriverName = Annotated[str, msgspec.Meta(pattern=DNS_NAME, max_length=MAX_DRIVER)]
CelName = Annotated[str, msgspec.Meta(pattern=CEL_NAME, max_length=MAX_CEL_NAME)]
MEMORY_CAPACITY = "memory"
"""The capacity of a device of which claims take a part, of NVIDIA's driver and by default of custom ones."""
SHARE_CAPACITY = "share"
"""The capacity of a device of the agent's driver of which claims take a part, in millionths of the card."""
SHARES_OF_CARD = 1_000_000
MEMORY_ATTRIBUTE = "memoryMiB"
"""The attribute with a card's memory for programs, of the agent's driver."""


class ClaimNames(msgspec.Struct, frozen=True, gc=False):
    """The names in the claims of one driver's cards, apart from the driver's own."""

    device_class: Annotated[str, msgspec.Meta(pattern=DNS_NAME, max_length=MAX_NAME)]
    capacity: CelName = MEMORY_CAPACITY
    """The capacity of which claims take a part."""
    product_name: CelName = "productName"
    """Attribute with the card's model."""
    uuid: CelName = "uuid"
    """Attribute that is different for each card."""


class CustomCards(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """The cards of a custom driver: the names in its ResourceSlices, as in `resources.custom` of a policy."""

    driver: DriverName
    capacity: CelName = MEMORY_CAPACITY
    product_name: CelName = "productName"


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
