"""What the name of a claim's template says of a share, so that those who see only the pod can count it."""

from __future__ import annotations

import re

import msgspec

from kube.dra import CLAIM_NAME
from modes.fraction import MAX_CONTAINERS, Fraction

MAX_SIZES = 8
"""Alternatives that Kubernetes accepts in one request."""
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
_EIGHTHS = 8


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


def has_name(fraction: Fraction) -> bool:
    """Whether a template's name has room for the numbers of a fraction."""
    return len(str(max(*fraction.ratio, fraction.mib))) <= _DIGITS


def named_share(fraction: Fraction, sizes: tuple[int, ...]) -> NamedShare:
    """Return what the name of a share's template says, on cards of these sizes."""
    if fraction.mib:
        return NamedShare((1, 1), fraction.mib, fraction.gpus, sizes, fraction.split_mib)
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
