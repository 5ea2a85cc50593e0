"""Which MIG profile serves a share of a GPU: the smallest that holds it."""

from __future__ import annotations

from collections.abc import Iterable

from modes.fraction import Fraction
from modes.mig_profiles import CARDS, MigCard, MigProfile


def named_problem(resource: str, fraction: Fraction) -> str | None:
    """Return why no known card has an instance of that name that holds the share; None if one has."""
    found = [(card, profile) for card in CARDS if (profile := card.profile(resource)) is not None]
    if not found:
        return "is not a known MIG profile"
    if any(fit(card, [profile], fraction, takes_media=True) is not None for card, profile in found):
        return None
    return "holds less on every known card than the label requests"


def fit(
    card: MigCard, profiles: Iterable[MigProfile], fraction: Fraction, *, takes_media: bool = False
) -> tuple[MigProfile, bool] | None:
    """Return the smallest of the profiles that holds a share, and whether more than half would be idle.

    An eighth of a card is one of its eight memory slices, although the driver keeps a little of each. None
    if no profile is large enough, and for more than one GPU: an instance is on one card. Pods get media
    engines only if they request them by name (`takes_media`).
    """
    asked = fraction.mib or fraction.slices * card.memory
    given = {
        profile: profile.mib if fraction.is_of_memory else profile.memory * fraction.slices_per_gpu
        for profile in profiles
        if takes_media or not profile.has_media_extensions
    }
    enough = [profile for profile in given if given[profile] >= asked]
    if not enough or fraction.gpus > 1:
        return None
    smallest = min(enough, key=lambda each: (each.memory, each.compute, each.name))
    return smallest, given[smallest] > 2 * asked
