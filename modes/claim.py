"""The claim of a share: the ResourceClaimTemplate from which Kubernetes makes each pod's ResourceClaim.

A template's name says what it asks for, so that admission policies can compare it with the pod's label, and
ends with a digest of its content: equal shares of one namespace have one template.
"""

from __future__ import annotations

import hashlib
import re
from itertools import pairwise
from typing import Any

import msgspec

from kube.dra import CLAIM_NAME, MEMORY_CAPACITY, REQUEST_NAME, DriverName
from modes.fraction import Fraction
from modes.gpu_kinds import EVERY_KIND, GIGABYTES, GpuKinds, is_pattern

MAX_SIZES = 8
"""Alternatives that Kubernetes accepts in one request."""
MAX_NAME = 160
"""Characters of a template's name; no name of ours is longer."""
_DIGITS = 9
_NAME = re.compile(
    rf"{CLAIM_NAME}-(?:[0-9]{{1,{_DIGITS}}}of[0-9]{{1,{_DIGITS}}}|[0-9]{{1,{_DIGITS}}}mi|whole)(?:-x[0-9]{{1,3}})?"
    rf"((?:-m[0-9]{{1,{_DIGITS}}}){{0,{MAX_SIZES}}})-[0-9a-f]{{16}}",
    re.ASCII,
)
_SUFFIXES = ("Mi", "Gi", "Ti", "Pi")
_encode = msgspec.json.Encoder(order="sorted").encode


class ClaimedShare(msgspec.Struct, frozen=True, gc=False):
    """What the claim of one pod asks for."""

    driver: DriverName
    fraction: Fraction
    sizes: tuple[int, ...] = ()
    """MiB of the cards that a fraction may be taken of, the best first, at most MAX_SIZES.

    Empty for whole GPUs and for requested MiB, which ask for the same amount of any card."""
    kinds: GpuKinds = EVERY_KIND
    """Kinds of GPU that the pod accepts."""


def needs_sizes(fraction: Fraction) -> bool:
    """Whether the amount that a share asks for depends on the size of the card."""
    return not (fraction.is_whole or fraction.mib)


def are_large_enough(fraction: Fraction, sizes: tuple[int, ...]) -> bool:
    """Whether a fraction of each of these cards is at least 1 MiB, the least that a claim can ask for."""
    return all(fraction.share_mib(size) > 0 for size in sizes)


def is_order_of_choice(sizes: tuple[int, ...]) -> bool:
    """Whether sizes are in the order in which a claim names them: the smallest first, each once."""
    return all(one < other for one, other in pairwise(sizes))


def template_spec(share: ClaimedShare) -> dict[str, Any]:
    """Return the template's `spec` as the API server stores it.

    Raises:
        ValueError: a fraction without a size, too many or too small sizes, or models that are no patterns.
    """
    fraction = share.fraction
    if not needs_sizes(fraction):
        exactly = _asked(share, fraction.mib, _least_memory(share) if share.kinds.min_mib else "")
        return _spec({"name": REQUEST_NAME, "exactly": exactly})
    if not 1 <= len(share.sizes) <= MAX_SIZES:
        raise ValueError(f"{len(share.sizes)} sizes of cards: a claim needs 1 to {MAX_SIZES}")
    if not are_large_enough(fraction, share.sizes):
        raise ValueError("the share is less than 1 MiB of a card")
    of_sizes = [
        {"name": f"m{size}", **_asked(share, fraction.share_mib(size), _is_size(share, size))}
        for size in share.sizes
    ]
    return _spec({"name": REQUEST_NAME, "firstAvailable": of_sizes})


def template_name(share: ClaimedShare) -> str:
    """Return the template's name, such as "gpu-fraction-4of8-m81920-" and 16 hexadecimal digits.

    Raises:
        ValueError: as `template_spec`.
    """
    fraction = share.fraction
    digest = hashlib.sha256(_encode(template_spec(share))).hexdigest()[:16]
    amount, one = fraction.ratio
    asked = f"{fraction.mib}mi" if fraction.mib else f"{amount}of{one}"
    if fraction.is_whole:
        asked = "whole"
    several = [f"x{fraction.gpus}"] if fraction.gpus > 1 else []
    sizes = [f"m{size}" for size in share.sizes] if needs_sizes(fraction) else []
    return "-".join([CLAIM_NAME, asked, *several, *sizes, digest])


def sizes_of_name(name: str) -> tuple[int, ...] | None:
    """Return the sizes of cards in a template's name; None if no template of ours can have it."""
    match = _NAME.fullmatch(name) if len(name) <= MAX_NAME else None
    if match is None:
        return None
    return tuple([int(size) for size in match[1].split("-m")[1:]])


def quantity_of_mib(mib: int) -> str:
    """Return MiB in the form in which the API server stores them: "20Gi" for 20480."""
    suffix = 0
    while mib and mib % 1024 == 0 and suffix < len(_SUFFIXES) - 1:
        mib, suffix = mib // 1024, suffix + 1
    return f"{mib}{_SUFFIXES[suffix]}"


def _spec(request: dict[str, Any]) -> dict[str, Any]:
    return {"spec": {"devices": {"requests": [request]}}}


def _asked(share: ClaimedShare, mib: int, expression: str) -> dict[str, Any]:
    """Return a request, or one of several that would do; of whole cards if `mib` is 0."""
    found: dict[str, Any] = {
        "deviceClassName": share.driver,
        "allocationMode": "ExactCount",
        "count": share.fraction.gpus,
    }
    expressions = [each for each in (expression, _models(share)) if each]
    if expressions:
        found["selectors"] = [{"cel": {"expression": each}} for each in expressions]
    if mib:
        found["capacity"] = {"requests": {MEMORY_CAPACITY: quantity_of_mib(mib)}}
    return found


def _is_size(share: ClaimedShare, mib: int) -> str:
    """CEL: the card has this many MiB, rounded down: drivers may report bytes."""
    memory = f"device.capacity['{share.driver}'].{MEMORY_CAPACITY}"
    least, above = f"{memory}.compareTo(quantity('{mib}Mi'))", f"{memory}.compareTo(quantity('{mib + 1}Mi'))"
    return f"{least} >= 0 && {above} < 0"


def _least_memory(share: ClaimedShare) -> str:
    memory = f"device.capacity['{share.driver}'].{MEMORY_CAPACITY}"
    return f"{memory}.compareTo(quantity('{share.kinds.min_mib}Mi')) >= 0"


def _models(share: ClaimedShare) -> str:
    """CEL: the card's model matches one of the patterns, as `modes/gpu_kinds.py` matches them."""
    if not share.kinds.models:
        return ""
    if not all(map(is_pattern, share.kinds.models)):
        raise ValueError("the models have a text that is no pattern")
    patterns = "|".join([_regular(pattern) for pattern in share.kinds.models])
    return f"device.attributes['{share.driver}'].productName.matches('(?i)^({patterns})$')"


def _regular(pattern: str) -> str:
    """Return a pattern as a regular expression for the whole model: its words, in their order.

    A pattern has only letters, digits and `*-_.`, so that nothing in it can end the text of the expression.
    """
    words = [re.sub(r"[*]", "[^- ]*", word.replace(".", "[.]")) for word in pattern.split("-")]
    return "(.*[- ])?" + "[- ](.*[- ])?".join([f"{word}({GIGABYTES})?" for word in words]) + "([- ].*)?"
