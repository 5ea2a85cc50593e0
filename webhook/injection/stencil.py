"""A patch with gaps: written once for a form and a share, filled in for every pod of that form."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from operator import itemgetter
from typing import Any

import msgspec

from ledger.ask import Placement
from policies.effective import EffectivePolicy
from webhook.injection.patch import encode

MARK = "\ue000"
"""A character for private use, which no name in Kubernetes may hold."""
RESERVATION, NODE, MEMORY = (f"{MARK}{name}{MARK}" for name in ("reservation", "node", "memory"))


def holds_mark(policy: EffectivePolicy) -> bool:
    """Whether a policy itself has the mark in some text, so that gaps could not be told from it."""
    return repr(MARK).strip("'") in repr(policy)


class Stencil(msgspec.Struct, frozen=True, eq=False):
    """The JSON text of a patch, with gaps for the names of container, reservation, node and node memory."""

    text: bytes
    """With `%b` for each gap."""
    order: Callable[[tuple[bytes, ...]], Any]
    """Puts the texts for the gaps in their order."""
    memory_mib: int | None
    """MiB of the share on each GPU; None for whole GPUs."""

    @classmethod
    def cut(cls, patch: bytes, container: str, memory_mib: int | None) -> Stencil | None:
        """Make a stencil of the patch of a container, in which marks stand for all names.

        None if there is a mark in it that is no gap: a text that is the pod's own, and would be lost.
        """
        gaps = [mark.encode() for mark in (container, RESERVATION, NODE, MEMORY)]
        parts = re.split(b"(%b)" % b"|".join(map(re.escape, gaps)), patch)
        text = b"%b".join([part.replace(b"%", b"%%") for part in parts[::2]])
        if MARK.encode() in text:
            return None
        return cls(text, itemgetter(*map(gaps.index, parts[1::2])), memory_mib)

    def fill(self, container: str, placement: Placement) -> bytes:
        """Give the patch of one pod. What the placement lacks has no gap here, and is written nowhere."""
        own = encode(container)[1:-1], encode(placement.reservation)[1:-1]
        filled: bytes = self.text % self.order(own + _of_place(placement.node, placement.memory_values))
        return filled


@lru_cache(maxsize=4096)
def _of_place(node: str | None, memory_values: tuple[str, ...]) -> tuple[bytes, bytes]:
    return encode(node)[1:-1], encode(memory_values)[2:-2]
