"""The claim of a share: the ResourceClaimTemplate from which Kubernetes makes each pod's ResourceClaim.

A template's name says what it asks for, so that admission policies can compare it with the pod's label, and
ends with a digest of its content: equal shares of one namespace have one template.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise
from typing import Any

import msgspec

from kube.dra import CLAIM_NAME, REQUEST_NAME, ClaimNames, CustomCards, DriverName
from modes.fraction import MAX_CONTAINERS, Fraction
from modes.gpu_kinds import EVERY_KIND, GIGABYTES, GpuKinds, is_pattern

MAX_SIZES = 8
"""Alternatives that Kubernetes accepts in one request."""
_MAX_ALTERNATIVES = 16
"""Alternatives of all requests of a claim together, so that the scheduler has few combinations to try."""
_MAX_APART = 2
"""Containers whose parts may be on different cards: the scheduler tries all combinations of cards."""
MAX_NAME = 230
"""Characters of a template's name; no name of ours is longer."""
_DIGITS = 9
_NUMBER = rf"[0-9]{{1,{_DIGITS}}}"
_NAME = re.compile(
    rf"{CLAIM_NAME}-(?:({_NUMBER})of({_NUMBER})|({_NUMBER})mi|whole)(?:-x([0-9]{{1,3}}))?"
    rf"((?:-p{_NUMBER}){{0,{MAX_CONTAINERS}}})"
    rf"((?:-m{_NUMBER}){{0,{MAX_SIZES}}})-[0-9a-f]{{16}}",
    re.ASCII,
)
_CUSTOM = re.compile(
    r"device\.driver == '([-.a-z0-9]{1,63})' && '([A-Za-z0-9_]{1,32})' in device\.capacity\['\1'\]", re.ASCII
)
_MODELS = re.compile(r"device\.attributes\['[-.a-z0-9]{1,63}'\]\.([A-Za-z0-9_]{1,32})\.matches\(", re.ASCII)
"""What `_is_custom_card` and `_models` write."""
_EIGHTHS = 8
_SUFFIXES = ("Mi", "Gi", "Ti", "Pi")
_encode = msgspec.json.Encoder(order="sorted").encode


class ClaimedShare(msgspec.Struct, frozen=True, gc=False):
    """What the claim of one pod asks for."""

    driver: DriverName
    fraction: Fraction
    """If several containers share it, each has a request of its own in the claim."""
    sizes: tuple[int, ...] = ()
    """MiB of the cards that a fraction may be taken of, the best first, at most `most_sizes`.

    Empty for whole GPUs and for requested MiB, which ask for the same amount of any card."""
    kinds: GpuKinds = EVERY_KIND
    """Kinds of GPU that the pod accepts."""
    any_card: bool = False
    """Whether the parts of two containers may be on different cards; those of more are on one."""
    custom: ClaimNames | None = None
    """The names in the claims of a custom driver; None for the agent's driver and NVIDIA's."""

    @property
    def names(self) -> ClaimNames:
        """The names in the claim; the DeviceClass of a driver that is not custom has the driver's name."""
        return self.custom or ClaimNames(self.driver)


class _Asked(msgspec.Struct, frozen=True):
    """What one request asks for."""

    mib: tuple[int, ...]
    """Of each size, or the one amount of any card; 0 for whole cards."""
    needs_model: bool = True
    """Whether it must name the models: not if it has to be on the card of another request that does."""


class NamedShare(msgspec.Struct, frozen=True, gc=False):
    """What the claim of one pod asks for, as its template's name says."""

    part: tuple[int, int] = (1, 1)
    """Numerator and denominator of the part of each card; the whole card for whole GPUs and requested MiB."""
    mib: int = 0
    """Requested MiB of each card; 0 if the claim asks for a part."""
    gpus: int = 1
    """Number of cards."""
    sizes: tuple[int, ...] = ()
    """As in `ClaimedShare`."""
    mib_of_parts: tuple[int, ...] = ()
    """Requested MiB of each of several containers; their sum is `mib`."""

    def eighths(self, cards: tuple[int, ...]) -> int:
        """Return the most eighths of cards that the claim can take, rounded up for each card.

        Args:
            cards: MiB of the cards that it may take, the smallest first. Requested MiB take all of a card as
                long as none of these holds them. Parts of several containers may be on different cards.
        """
        if self.mib:
            parts = [_eighths_of_mib(mib, cards) for mib in self.mib_of_parts or (self.mib,)]
            return self.gpus * sum(parts)
        amount, one = self.part
        return self.gpus * -(-amount * _EIGHTHS // one)

    def most_mib(self, cards: tuple[int, ...]) -> int | None:
        """Return the most MiB that the claim can take of such cards; None if that is unknown."""
        if self.mib:
            return self.gpus * self.mib
        sizes = [size for size in self.sizes if size in cards] or self.sizes or cards
        return self.gpus * (max(sizes) * self.part[0] // self.part[1]) if sizes else None


def needs_sizes(fraction: Fraction) -> bool:
    """Whether the amount that a share asks for depends on the size of the card."""
    return not (fraction.is_whole or fraction.mib)


def most_sizes(fraction: Fraction) -> int:
    """Return the most sizes of cards that the claim of a fraction can name."""
    return min(MAX_SIZES, _MAX_ALTERNATIVES // max(1, len(fraction.split)))


def are_large_enough(fraction: Fraction, sizes: tuple[int, ...]) -> bool:
    """Whether each part of a fraction of each of these cards is at least 1 MiB, the least of a claim."""
    return fraction.is_whole or all(min(_amounts(fraction, size)) > 0 for size in sizes)


def has_name(fraction: Fraction) -> bool:
    """Whether a template's name has room for the numbers of a fraction."""
    return len(str(max(*fraction.ratio, fraction.mib))) <= _DIGITS


def is_order_of_choice(sizes: tuple[int, ...]) -> bool:
    """Whether sizes are in the order in which a claim names them: the smallest first, each once."""
    return all(one < other for one, other in pairwise(sizes))


def request_name(part: int | None) -> str:
    """Return the name of the request for one of several containers by position, or for a single one."""
    return REQUEST_NAME if part is None else f"{REQUEST_NAME}-{part}"


def template_spec(share: ClaimedShare) -> dict[str, Any]:
    """Return the template's `spec` as the API server stores it.

    Raises:
        ValueError: a fraction without a size, too many or too small sizes, models that are no patterns, or
        names that CEL would not read as names.
    """
    _check_names(share.driver, share.custom)
    fraction, most = share.fraction, most_sizes(share.fraction)
    if needs_sizes(fraction):
        if not 1 <= len(share.sizes) <= most:
            raise ValueError(f"{len(share.sizes)} sizes of cards: a claim needs 1 to {most}")
        if not are_large_enough(fraction, share.sizes):
            raise ValueError("the share is less than 1 MiB of a card")
    amounts = [_amounts(fraction, size) for size in (share.sizes if needs_sizes(fraction) else (0,))]
    parts, is_apart = len(amounts[0]), share.any_card and len(amounts[0]) <= _MAX_APART
    requests = [
        _request(share, request_name(at if fraction.split else None), _Asked(mib, not at or is_apart))
        for at, mib in enumerate(zip(*amounts, strict=True))
    ]
    devices: dict[str, Any] = {"requests": requests}
    if parts > 1 and not is_apart:
        devices["constraints"] = [{"matchAttribute": f"{share.driver}/{share.names.uuid}"}]
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
    sizes = [f"m{size}" for size in share.sizes] if needs_sizes(fraction) else []
    return "-".join([CLAIM_NAME, asked, *several, *parts, *sizes, digest])


def is_named_after(name: str, spec: Any) -> bool:
    """Whether a template's name ends with the digest of its `spec`, as those that the controller makes."""
    return name.endswith(f"-{_digest(spec)}")


def _digest(spec: Any) -> str:
    return hashlib.sha256(_encode(spec)).hexdigest()[:16]


def named_share(fraction: Fraction, sizes: tuple[int, ...]) -> NamedShare:
    """Return what the name of a share's template says, on cards of these sizes."""
    if fraction.mib:
        return NamedShare(mib=fraction.mib, gpus=fraction.gpus, mib_of_parts=fraction.split_mib)
    if fraction.is_whole:
        return NamedShare(gpus=fraction.gpus)
    return NamedShare(fraction.ratio, 0, fraction.gpus, sizes)


def share_of_name(name: str) -> NamedShare | None:
    """Return what a template's name says; None if no template of ours can have it.

    A name that nobody checked can say anything: 0 MiB, or more than all of a card.
    """
    match = _NAME.fullmatch(name) if len(name) <= MAX_NAME else None
    if match is None:
        return None
    part = (int(match[1]), max(1, int(match[2]))) if match[1] else (1, 1)
    mib, gpus = int(match[3] or 0), int(match[4] or 1)
    mib_of_parts = _numbers(match[5], "-p") if mib else ()
    return NamedShare(part, mib, gpus, _numbers(match[6], "-m"), mib_of_parts)


def sizes_of_name(name: str) -> tuple[int, ...] | None:
    """Return the sizes of cards in a template's name; None if no template of ours can have it."""
    share = share_of_name(name)
    return share.sizes if share is not None else None


def _numbers(text: str, before: str) -> tuple[int, ...]:
    return tuple([int(number) for number in text.split(before)[1:]])


def _eighths_of_mib(mib: int, cards: tuple[int, ...]) -> int:
    """Return the eighths of the smallest card that holds so many MiB, rounded up; all if none does."""
    one = next((card for card in cards if card >= mib), mib)
    # A broken card may be offered with 0 MiB, and a forged name may ask for that.
    return -(-mib * _EIGHTHS // max(1, one))


def quantity_of_mib(mib: int) -> str:
    """Return MiB in the form in which the API server stores them: "20Gi" for 20480."""
    suffix = 0
    while mib and mib % 1024 == 0 and suffix < len(_SUFFIXES) - 1:
        mib, suffix = mib // 1024, suffix + 1
    return f"{mib}{_SUFFIXES[suffix]}"


def _amounts(fraction: Fraction, size: int) -> tuple[int, ...]:
    """Return the MiB of each request on a card of this size; 0 for whole cards."""
    if fraction.is_whole:
        return (0,)
    return fraction.mib_of_parts(size) if fraction.split else (fraction.share_mib(size),)


def _request(share: ClaimedShare, name: str, asked: _Asked) -> dict[str, Any]:
    """Return one request: for the first card of the sizes that has room, or for any."""
    if not needs_sizes(share.fraction):
        least = _least_memory(share) if share.kinds.min_mib and asked.needs_model else ""
        return {"name": name, "exactly": _subrequest(share, asked, asked.mib[0], least)}
    of_sizes = [
        {"name": f"m{size}", **_subrequest(share, asked, mib, _is_size(share, size))}
        for size, mib in zip(share.sizes, asked.mib, strict=True)
    ]
    return {"name": name, "firstAvailable": of_sizes}


def _subrequest(share: ClaimedShare, asked: _Asked, mib: int, expression: str) -> dict[str, Any]:
    """Return a request without a name, or one of several that would do; of whole cards if `mib` is 0."""
    found: dict[str, Any] = {
        "deviceClassName": share.names.device_class,
        "allocationMode": "ExactCount",
        "count": share.fraction.gpus,
    }
    models = _models(share) if asked.needs_model else ""
    if expressions := [each for each in (_is_custom_card(share), expression, models) if each]:
        found["selectors"] = [{"cel": {"expression": each}} for each in expressions]
    if mib:
        found["capacity"] = {"requests": {share.names.capacity: quantity_of_mib(mib)}}
    return found


def custom_cards_of(expressions: Iterable[str]) -> CustomCards | None:
    """Return the cards of a custom driver that a request's CEL is about; None if there is no such."""
    expressions = list(expressions)
    found = next(filter(None, map(_CUSTOM.fullmatch, expressions)), None)
    if found is None:
        return None
    models = next(filter(None, map(_MODELS.match, expressions)), None)
    cards = CustomCards(found[1], found[2])
    return msgspec.structs.replace(cards, product_name=models[1]) if models is not None else cards


def _is_custom_card(share: ClaimedShare) -> str:
    """CEL: a DeviceClass that is not ours may have devices of other drivers, and such without memory."""
    if share.custom is None:
        return ""
    driver, capacity = share.driver, share.names.capacity
    return f"device.driver == '{driver}' && '{capacity}' in device.capacity['{driver}']"


def _is_size(share: ClaimedShare, mib: int) -> str:
    """CEL: the card has this many MiB, rounded down: drivers may report bytes."""
    memory = _memory(share)
    least, above = f"{memory}.compareTo(quantity('{mib}Mi'))", f"{memory}.compareTo(quantity('{mib + 1}Mi'))"
    return f"{least} >= 0 && {above} < 0"


def _least_memory(share: ClaimedShare) -> str:
    return f"{_memory(share)}.compareTo(quantity('{share.kinds.min_mib}Mi')) >= 0"


def _models(share: ClaimedShare) -> str:
    """CEL: the card's model matches one of the patterns, as `modes/gpu_kinds.py` matches them."""
    if not share.kinds.models:
        return ""
    if not all(map(is_pattern, share.kinds.models)):
        raise ValueError("the models have a text that is no pattern")
    patterns = "|".join([_regular(pattern) for pattern in share.kinds.models])
    return f"device.attributes['{share.driver}'].{share.names.product_name}.matches('(?i)^({patterns})$')"


def _memory(share: ClaimedShare) -> str:
    return f"device.capacity['{share.driver}'].{share.names.capacity}"


@lru_cache(maxsize=64)
def _check_names(driver: str, custom: ClaimNames | None) -> None:
    """Raise ValueError if a name could end its text in an expression, whatever made the share."""
    msgspec.convert(driver, DriverName)
    if custom is not None:
        msgspec.convert(msgspec.structs.asdict(custom), ClaimNames)


def _regular(pattern: str) -> str:
    """Return a pattern as a regular expression for the whole model: its words, in their order.

    A pattern has only letters, digits and `*-_.`, so that nothing in it can end the text of the expression.
    """
    words = [re.sub(r"[*]", "[^- ]*", word.replace(".", "[.]")) for word in pattern.split("-")]
    return "(.*[- ])?" + "[- ](.*[- ])?".join([f"{word}({GIGABYTES})?" for word in words]) + "([- ].*)?"
