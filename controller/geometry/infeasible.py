"""Why no division of any known card can hold a request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from controller.geometry.model import Amounts
from modes.mig_geometry import most_instances
from modes.mig_profiles import CARDS, MigCard

MAX_CARDS_ON_A_NODE = 16
"""More than any server has: the limit for requests as long as no node shows its number of cards."""


def never_fits(wants: Amounts, largest: Mapping[MigCard, int]) -> str | None:
    """Return what is wrong with a request that no division can serve; None if one may serve it.

    Judged by all known cards; `largest` is the largest number of each card on one node.
    """
    for name, count in wants:
        able = {card: most_instances(card, name) for card in CARDS if most_instances(card, name)}
        if not able:
            return f"no known card has the MIG profile {name}: {_advice(largest)}"
        most = max(each * largest.get(card, MAX_CARDS_ON_A_NODE) for card, each in able.items())
        if count > most:
            return f"{count} instances of {name} are more than the {most} that a node can have: ask for fewer"
    return None


def _advice(known: Iterable[MigCard]) -> str:
    names = [profile.name for card in known for profile in card.profiles]
    if not names:
        return "ask for a profile that nvidia-smi mig -lgip lists"
    return f"ask for one of {', '.join(dict.fromkeys(names))}"
