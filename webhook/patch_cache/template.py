"""The template of a patch: created once for a key and a share, rendered for every pod with that key."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any

import msgspec

from ledger.placement_request import Placement
from policies.model.effective import EffectivePolicy
from webhook.admission.json_patch import encode
from webhook.admission.mutate import Injection

MARK = "\ue000"
"""A private-use character, which no name in Kubernetes can contain."""
RESERVATION, NODE, MEMORY, MODEL = (
    f"{MARK}{name}{MARK}" for name in ("reservation", "node", "memory", "model")
)


def holds_mark(policy: EffectivePolicy) -> bool:
    """Whether a text of the policy contains the mark, so that gaps would be ambiguous."""
    return repr(MARK).strip("'") in repr(policy)


class Template(msgspec.Struct, frozen=True, eq=False):
    """The JSON text of a patch, with gaps for amounts and names of container, reservation, node and GPUs."""

    texts: tuple[bytes, ...]
    """The texts between the gaps."""
    order: Callable[[tuple[bytes, ...]], Any]
    """Puts the texts for the gaps, followed by these texts, in order."""
    memory_mib: int | None
    """MiB of the share on each GPU; None for whole GPUs."""

    slices: int
    """Slices in all."""
    index: str | None
    """Indices of the GPUs as in the annotation."""

    @classmethod
    def of(cls, injection: Injection, amounts: Sequence[str]) -> Template | None:
        """Return the template of a representative pod's patch, in which marks replace all names.

        None if a mark remains outside the gaps: a text of the pod that would be lost.

        Args:
            injection: has the patch.
            amounts: the marks that replace amounts of the pod.
        """
        names = (injection.container, RESERVATION, NODE, MEMORY, MODEL)
        gaps = [mark.encode() for mark in (*names, *amounts)]
        parts = re.split(b"(%b)" % b"|".join(map(re.escape, gaps)), injection.patch)
        texts = tuple(parts[::2])
        if any(MARK.encode() in text for text in texts):
            return None
        # The first text, then alternately a gap and a text.
        order = [at // 2 + len(gaps) if at % 2 == 0 else gaps.index(part) for at, part in enumerate(parts)]
        return cls(texts, itemgetter(*order), injection.memory_mib, injection.slices, injection.index)

    @property
    def size(self) -> int:
        """Bytes that the template's text takes."""
        return sum(map(len, self.texts))

    def render(self, container: str, placement: Placement, amounts: Sequence[bytes]) -> bytes:
        """Return the patch of one pod. What the placement lacks has no gap here, and is not written."""
        own = encode(container)[1:-1], encode(placement.reservation)[1:-1]
        place = _of_place(placement.node, placement.memory_values, placement.model)
        return b"".join(self.order((*own, *place, *amounts, *self.texts)))


@lru_cache(maxsize=4096)
def _of_place(
    node: str | None, memory_values: tuple[str, ...], model: str | None
) -> tuple[bytes, bytes, bytes]:
    return encode(node)[1:-1], encode(memory_values)[2:-2], encode(model)[1:-1]
