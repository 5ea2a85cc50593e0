"""The cards that a machine gives and the queues that it serves, as the command line writes them. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from agent.gpu import Gpu
from modes.fraction import Fraction
from policies.model.effective import EffectivePolicy
from policies.model.problems import printable, quoted

MAX_SHARE = 16
"""Characters of a queue's share."""
_CARDS = re.compile(r"([0-9]{1,3})(?:-([0-9]{1,3}))?", re.ASCII)

_LIST = re.compile(r"=[0-9.]+,", re.ASCII)
"""In what was read as a name: a share, and a comma before the next queue."""


@dataclass(frozen=True, slots=True)
class ServedQueue:
    """A queue, and the share that each of its tasks gets."""

    name: str
    fraction: Fraction
    image: str | None = None
    """Image of the containers in which its tasks run; None for processes."""


def read_gpus(text: str) -> tuple[int, ...] | None:
    """Return the numbers in "0-2" or "0,1", sorted; None for "all".

    Raises:
        ValueError: it is neither; the message says how to write it.
    """
    if text == "all":
        return None
    parts = [_CARDS.fullmatch(part) for part in text.split(",")]
    ranges = [range(int(part[1]), int(part[2] or part[1]) + 1) for part in parts if part is not None]
    if len(ranges) != len(parts) or not all(ranges):
        raise ValueError(f"--gpus {quoted(text)}: write numbers such as 0-2 or 0,1, or all")
    return tuple(sorted({number for each in ranges for number in each}))


def numbers_of(gpus: Sequence[Gpu], before: Mapping[int, str]) -> dict[int, str]:
    """Return the UUID of the card that each number means.

    If the driver lists fewer cards than before and no new one, a card is lost, and the driver may have
    renumbered the others: then numbers mean what they meant before.
    """
    now = {gpu.index: gpu.uuid for gpu in gpus}
    return dict(before) if set(now.values()) < set(before.values()) else now


def chosen(
    gpus: Sequence[Gpu], wanted: Collection[int] | None, numbers: Mapping[int, str]
) -> tuple[Gpu, ...]:
    """Return those of the driver's `gpus` that are to be given; a lost one that has a number is left out.

    `wanted` are their `numbers`; None stands for all cards that are not in MIG mode.

    Raises:
        ValueError: there is none, or one that is named is not there or is in MIG mode.
    """
    if missing := sorted(set(wanted or ()) - numbers.keys()):
        listed = ", ".join(map(str, sorted(numbers))) or "no card"
        raise ValueError(f"--gpus names {missing[0]}, which the driver does not list: it has {listed}")
    named = {numbers[number] for number in wanted or ()}
    found = tuple(gpu for gpu in gpus if gpu.uuid in named or (wanted is None and not gpu.mig))
    if in_mig := [gpu.index for gpu in found if gpu.mig]:
        raise ValueError(f"--gpus names {in_mig[0]}, which is in MIG mode: turn it off, or leave it out")
    if not found:
        raise ValueError("the driver lists no usable card")
    return found


def read_queues(
    texts: Iterable[str], policy: EffectivePolicy, images: Mapping[str, str]
) -> tuple[ServedQueue, ...]:
    """Return the queues of texts such as "half_gpu=0.5" in their order, which is their priority.

    `policy` says which shares of one card there are; `images` are by queue.

    Raises:
        ValueError: a text is wrong, a name comes twice, or an image is for no queue.
    """
    queues = tuple([_queue(text, policy, images) for text in texts])
    names = [queue.name for queue in queues]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f'--queue names "{min(twice)}" twice')
    if strangers := set(images) - set(names):
        raise ValueError(f"--image names queue {quoted(min(strangers))}, which --queue does not")
    return queues


def _queue(text: str, policy: EffectivePolicy, images: Mapping[str, str]) -> ServedQueue:
    name, _, share = text.rpartition("=")
    # A name like "--gpus" is an option whose turn `--queue` took.
    if not name or not share or not name.isprintable() or name.startswith("-"):
        raise ValueError(f"--queue {quoted(text)} must be NAME=SHARE, such as half_gpu=0.5")
    if _LIST.search(name):
        raise ValueError(f"--queue {quoted(text)}: write blanks between queues, such as a=0.5 b=1")
    fraction = share_of(share, policy)
    if fraction is None:
        parts = ", ".join(text for text, each in policy.fractions.items() if not each.is_whole)
        asks, advice = printable(share[:MAX_SHARE]), f"use {parts} of one card, or whole cards such as 1 or 2"
        raise ValueError(f'queue "{name[:40]}" asks for {asks}: {advice}')
    return ServedQueue(name, fraction, images.get(name))


def share_of(text: str, policy: EffectivePolicy) -> Fraction | None:
    """Return what a number such as "0.5" or "2" means; None if it is no share of the policy and not whole."""
    wanted = Fraction.ratio_of_text(text) if len(text) <= MAX_SHARE else None
    if wanted is None:
        return None
    cards, rest = divmod(wanted[0], wanted[1])
    if rest:
        parts = (each for each in policy.fractions.values() if not each.is_whole)
        return next((each for each in parts if each.ratio[0] * wanted[1] == wanted[0] * each.ratio[1]), None)
    return Fraction(cards * policy.slices_per_gpu, policy.slices_per_gpu)
