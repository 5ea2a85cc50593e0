"""The claim of a share: the ResourceClaimTemplate from which Kubernetes makes each pod's ResourceClaim.

The agent's driver offers shares of cards: a fraction asks for the same of any card, and MiB for another
share of each size. NVIDIA's driver offers memory: MiB ask for the same of any card, and a fraction is taken
of one size, because the limit is written into the pod.

A template's name says what it asks for, so that admission policies can compare it with the pod's label, and
ends with a digest of its content: equal shares of one namespace have one template.
"""

from __future__ import annotations

import hashlib
import re
from itertools import accumulate, pairwise
from typing import Any

import msgspec

from kube.dra import CAPACITIES, CLAIM_NAME, DRIVER, MEMORY_ATTRIBUTE, REQUEST_NAME, SHARES_OF_CARD
from modes.claim_name import MAX_SIZES
from modes.fraction import Fraction
from modes.gpu_kinds import EVERY_KIND, GIGABYTES, GpuKinds, is_pattern

_MAX_ALTERNATIVES = 16
"""Alternatives of all requests of a claim together, so that the scheduler has few combinations to try."""
_MAX_APART = 2
"""Containers whose parts may be on different cards: the scheduler tries all combinations of cards."""
_BINARY = ("Mi", "Gi", "Ti", "Pi")
_DECIMAL = ("", "k", "M")
_encode = msgspec.json.Encoder(order="sorted").encode


class ClaimedShare(msgspec.Struct, frozen=True, gc=False):
    """What the claim of one pod asks for."""

    driver: str
    """One of CAPACITIES."""
    fraction: Fraction
    """If several containers share it, each has a request of its own in the claim."""
    sizes: tuple[int, ...] = ()
    """MiB of the cards that it may be taken of, the smallest first, at most `most_sizes`.

    Empty if it asks for the same of any card (`needs_sizes`)."""
    kinds: GpuKinds = EVERY_KIND
    """Kinds of GPU that the pod accepts."""
    any_card: bool = False
    """Whether the parts of two containers may be on different cards; those of more are on one."""

    @property
    def is_apart(self) -> bool:
        """Whether containers have parts that may be on different cards."""
        return self.any_card and 1 < self.fraction.containers <= _MAX_APART


def needs_sizes(fraction: Fraction, driver: str | None) -> bool:
    """Whether the amount that a share asks for, of cards of this driver, depends on the size of the card."""
    return not fraction.is_whole and bool(fraction.mib) == (driver == DRIVER)


def most_sizes(fraction: Fraction, driver: str | None) -> int:
    """Return the most sizes of cards that the claim of a fraction can name."""
    if driver != DRIVER:
        return 1
    # One alternative is for cards that are smaller than those that are known.
    return max(1, min(MAX_SIZES, _MAX_ALTERNATIVES // max(1, len(fraction.split))) - 1)


def are_large_enough(fraction: Fraction, sizes: tuple[int, ...]) -> bool:
    """Whether each of these cards holds it, and each part of it is at least 1 MiB, the least of a claim."""
    return fraction.is_whole or all(
        fraction.mib <= size and min(fraction.mib_of_parts(size)) > 0 for size in sizes
    )


def is_order_of_choice(sizes: tuple[int, ...]) -> bool:
    """Whether sizes are in the order in which a claim names them: the smallest first, each once."""
    return all(one < other for one, other in pairwise(sizes))


def request_name(part: int | None) -> str:
    """Return the name of the request for one of several containers by position, or for a single one."""
    return REQUEST_NAME if part is None else f"{REQUEST_NAME}-{part}"


def amounts_by_size(share: ClaimedShare) -> dict[int, int]:
    """Return what all parts ask for of a card of each size that the claim names, in the driver's unit.

    The size is 0 if the claim asks for the same of any card; the amount is 0 for whole cards.
    """
    return {size: sum(_amounts(share, size)) for size in _alternatives(share)}


def template_spec(share: ClaimedShare) -> dict[str, Any]:
    """Return the template's `spec` as the API server stores it.

    Raises:
        ValueError: a fraction without a size, too many or too small sizes, or models that are no patterns.
    """
    fraction, most = share.fraction, most_sizes(share.fraction, share.driver)
    if needs_sizes(fraction, share.driver):
        if not 1 <= len(share.sizes) <= most:
            raise ValueError(f"{len(share.sizes)} sizes of cards: a claim needs 1 to {most}")
        if not are_large_enough(fraction, share.sizes):
            raise ValueError("the share is less than 1 MiB of a card, or more than all of it")
    amounts = [_amounts(share, size) for size in _alternatives(share)]
    if not fraction.is_whole and min(map(min, amounts)) < 1:
        raise ValueError(f"the share is less than 1 of {SHARES_OF_CARD} parts of a card")
    parts = len(amounts[0])
    names = [request_name(at if fraction.split else None) for at in range(parts)]
    devices: dict[str, Any] = {
        "requests": [
            _request(share, name, of_each, needs_model=not at or share.is_apart)
            for at, (name, of_each) in enumerate(zip(names, zip(*amounts, strict=True), strict=True))
        ]
    }
    if parts > 1 and not share.is_apart:
        devices["constraints"] = [{"matchAttribute": f"{share.driver}/uuid"}]
    if share.driver == DRIVER and fraction.gpus > 1 and not (fraction.mib or fraction.is_whole):
        # A container has one limit for all of its cards.
        devices["constraints"] = [{"matchAttribute": f"{DRIVER}/{MEMORY_ATTRIBUTE}"}]
    if fraction.mib and share.driver == DRIVER:
        devices["config"] = list(map(_exact_limit, names, fraction.mib_of_parts(0)))
    return {"spec": {"devices": devices}}


def template_name(share: ClaimedShare) -> str:
    """Return the template's name, such as "gpu-fraction-4of8-m81920-" and 16 hexadecimal digits.

    The parts of several containers follow the whole: in slices as "-p2-p1", or in MiB.

    Raises:
        ValueError: as `template_spec`.
    """
    fraction = share.fraction
    digest = _digest(template_spec(share))
    amount, one = fraction.ratio
    asked = f"{fraction.mib}mi" if fraction.mib else f"{amount}of{one}"
    if fraction.is_whole:
        asked = "whole"
    several = [f"x{fraction.gpus}"] if fraction.gpus > 1 else []
    parts = [f"p{part}" for part in fraction.split_mib or fraction.split]
    sizes = [f"m{size}" for size in share.sizes] if needs_sizes(fraction, share.driver) else []
    return "-".join([CLAIM_NAME, asked, *several, *parts, *sizes, digest])


def is_named_after(name: str, spec: Any) -> bool:
    """Whether a template's name ends with the digest of its `spec`, as those that the controller makes."""
    return name.endswith(f"-{_digest(spec)}")


def _digest(spec: Any) -> str:
    return hashlib.sha256(_encode(spec)).hexdigest()[:16]


def _quantity(amount: int, base: int, suffixes: tuple[str, ...]) -> str:
    """Return an amount in the form in which the API server stores it: "20Gi" for 20480 MiB."""
    suffix = 0
    while amount and amount % base == 0 and suffix < len(suffixes) - 1:
        amount, suffix = amount // base, suffix + 1
    return f"{amount}{suffixes[suffix]}"


def _alternatives(share: ClaimedShare) -> tuple[int, ...]:
    """Return the sizes of cards for which a request has an alternative; 0 for any.

    Shares for MiB hold for all cards from one size up to the next, so that no card that joins later is left
    out. One that is smaller than all known ones is taken whole.
    """
    fraction, sizes = share.fraction, share.sizes
    if not needs_sizes(fraction, share.driver):
        return (0,)
    least = max(fraction.mib, share.kinds.min_mib)
    has_room = (len(sizes) + 1) * max(1, len(fraction.split)) <= _MAX_ALTERNATIVES
    is_below = share.driver == DRIVER and least < sizes[0] and has_room
    return (*sizes, least) if is_below else sizes


def _amounts(share: ClaimedShare, size: int) -> tuple[int, ...]:
    """Return what each request asks for of a card of this size, in the driver's unit; 0 for whole cards."""
    fraction = share.fraction
    if fraction.is_whole:
        return (0,)
    if share.driver != DRIVER:
        return fraction.mib_of_parts(size)
    if not fraction.mib:
        # Rounded down, so that three thirds have room on a card.
        return fraction.mib_of_parts(SHARES_OF_CARD)
    # Rounded up once for all parts: together they must have room on the card that holds their MiB.
    ends = [-(-mib * SHARES_OF_CARD // size) for mib in accumulate(fraction.mib_of_parts(size))]
    return tuple([end - before for before, end in pairwise((0, *ends))])


def _exact_limit(request: str, mib: int) -> dict[str, Any]:
    """Return the driver's configuration by which a share for MiB is limited to exactly these."""
    parameters = {"apiVersion": f"{DRIVER}/v1", "kind": "GpuMemory", "memoryMiB": mib}
    return {"requests": [request], "opaque": {"driver": DRIVER, "parameters": parameters}}


def _request(
    share: ClaimedShare, name: str, amounts: tuple[int, ...], *, needs_model: bool
) -> dict[str, Any]:
    """Return one request: for the first card of the sizes that has room, or for one kind of card.

    `amounts` has an entry for each size, or the one of any card. It need not name the models if it has to be
    on the card of another request that does.
    """
    sizes, least = _alternatives(share), share.kinds.min_mib if needs_model else 0
    models = _models(share) if needs_model else ""
    if sizes == (0,):
        of_any = _has_memory(share, least, None) if least else ""
        return {"name": name, "exactly": _subrequest(share, amounts[0], of_any, models)}
    if share.driver != DRIVER:
        # The driver reports bytes: up to 1 MiB more is the same size.
        is_size = _has_memory(share, sizes[0], sizes[0] + 1)
        return {"name": name, "exactly": _subrequest(share, amounts[0], is_size, models)}
    above = dict(pairwise(sorted(sizes)))
    of_sizes = [
        {"name": f"m{size}", **_subrequest(share, amount, _has_memory(share, size, above.get(size)), models)}
        for size, amount in zip(sizes, amounts, strict=True)
    ]
    return {"name": name, "firstAvailable": of_sizes}


def _subrequest(share: ClaimedShare, amount: int, *expressions: str) -> dict[str, Any]:
    """Return a request without a name, or one of several that would do; of whole cards if `amount` is 0."""
    found: dict[str, Any] = {
        "deviceClassName": share.driver,
        "allocationMode": "ExactCount",
        "count": share.fraction.gpus,
    }
    if selectors := [{"cel": {"expression": each}} for each in expressions if each]:
        found["selectors"] = selectors
    if amount:
        base, suffixes = (1000, _DECIMAL) if share.driver == DRIVER else (1024, _BINARY)
        found["capacity"] = {"requests": {CAPACITIES[share.driver]: _quantity(amount, base, suffixes)}}
    return found


def _has_memory(share: ClaimedShare, least: int, above: int | None) -> str:
    """CEL: the card has so many MiB or more, and less than `above`.

    A card without the attribute is passed over: an error would stop the pod on all nodes. (A look at the type
    of an attribute costs more than Kubernetes allows.)
    """
    if share.driver == DRIVER:
        memory = f"device.attributes['{DRIVER}'].?{MEMORY_ATTRIBUTE}.orValue(0)"
        bounds = [f"{memory} >= {least}"]
        bounds += [] if above is None else [f"{memory} < {above}"]
    else:
        capacity = f"device.capacity['{share.driver}'].?{CAPACITIES[share.driver]}"
        compared = f"{capacity}.orValue(quantity('0')).compareTo"
        bounds = [f"{compared}(quantity('{least}Mi')) >= 0"]
        bounds += [] if above is None else [f"{compared}(quantity('{above}Mi')) < 0"]
    return " && ".join(bounds)


def _models(share: ClaimedShare) -> str:
    """CEL: the card's model matches one of the patterns, as `modes/gpu_kinds.py` matches them."""
    if not share.kinds.models:
        return ""
    if not all(map(is_pattern, share.kinds.models)):
        raise ValueError("the models have a text that is no pattern")
    patterns = "|".join([_regular(pattern) for pattern in share.kinds.models])
    attributes = f"device.attributes['{share.driver}']"
    return f"'productName' in {attributes} && {attributes}.productName.matches('(?i)^({patterns})$')"


def _regular(pattern: str) -> str:
    """Return a pattern as a regular expression for the whole model: its words, in their order.

    A pattern has only letters, digits and `*-_.`, so that nothing in it can end the text of the expression.
    """
    words = [re.sub(r"[*]", "[^- ]*", word.replace(".", "[.]")) for word in pattern.split("-")]
    return "(.*[- ])?" + "[- ](.*[- ])?".join([f"{word}({GIGABYTES})?" for word in words]) + "([- ].*)?"
