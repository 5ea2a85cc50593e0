"""Which MIG profile serves a share of a GPU: the smallest that holds it, and how much more it gives."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from modes.fraction import Fraction
from modes.mig_profiles import CARDS, MigCard, MigProfile


@dataclass(frozen=True, slots=True)
class MigFit:
    """A profile that holds the requested share. `given` and `asked` are amounts of memory in one unit."""

    profile: MigProfile
    given: int
    asked: int

    @property
    def is_more_than_twice(self) -> bool:
        """Whether more than half of the instance would be idle."""
        return self.given > 2 * self.asked


def named_problem(resource: str, fraction: Fraction) -> str | None:
    """Return why no known card has an instance of that name that holds the share; None if one has."""
    found = [(card, profile) for card in CARDS if (profile := card.profile(resource)) is not None]
    if not found:
        return "is not a known MIG profile"
    if any(fit(card, [profile], fraction, takes_media=True) is not None for card, profile in found):
        return None
    return "holds less on every known card than the label requests"


def fit(
    card: MigCard, profiles: Collection[MigProfile], fraction: Fraction, *, takes_media: bool
) -> MigFit | None:
    """Return the smallest of the profiles that holds the requested MiB, or the fraction; None if none has."""
    if fraction.mib:
        return fit_of_mib(profiles, fraction.mib, takes_media=takes_media)
    return fit_of_fraction(card, profiles, fraction, takes_media=takes_media)


def fit_of_mib(profiles: Iterable[MigProfile], mib: int, *, takes_media: bool = False) -> MigFit | None:
    """Return the smallest of the profiles that has at least `mib` MiB; None if none has.

    Pods get media engines only if they request them by name (`takes_media`).

    Raises:
        ValueError: `mib` is not positive.
    """
    if mib < 1:
        raise ValueError(f"{mib} MiB is not a valid amount of memory")
    enough = (profile for profile in profiles if profile.mib >= mib)
    chosen = _smallest(enough, takes_media=takes_media)
    return MigFit(chosen, chosen.mib, mib) if chosen is not None else None


def fit_of_fraction(
    card: MigCard, profiles: Iterable[MigProfile], fraction: Fraction, *, takes_media: bool = False
) -> MigFit | None:
    """Return the smallest of the profiles that holds the fraction of the card's memory slices.

    An eighth of a card is one of its eight memory slices, although the driver keeps a little of each. None
    if no profile is large enough, and for more than one GPU: an instance is on one card.
    """
    if fraction.gpus > 1:
        return None
    asked = fraction.slices * card.memory
    of_each = fraction.slices_per_gpu
    enough = (profile for profile in profiles if profile.memory * of_each >= asked)
    chosen = _smallest(enough, takes_media=takes_media)
    return MigFit(chosen, chosen.memory * of_each, asked) if chosen is not None else None


def _smallest(profiles: Iterable[MigProfile], *, takes_media: bool) -> MigProfile | None:
    """Return the smallest by memory, then by compute."""
    taken = (profile for profile in profiles if takes_media or not profile.has_media_extensions)
    return min(taken, key=lambda each: (each.memory, each.compute, each.name), default=None)
