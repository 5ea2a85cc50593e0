"""Geometries against the placements that nvidia-smi prints, tried without any of the product's search."""

import re
from itertools import combinations_with_replacement

import pytest

from modes.mig_geometry import MAX_ARRANGEMENTS, arrangements, full_geometries, geometries, geometry
from modes.mig_profiles import A30, A100_40GB, H100_80GB, MigProfile, card_of_profiles

PRINTED = """
GPU  0 Profile ID 19 Placements: {0,1,2,3,4,5,6}:1
GPU  0 Profile ID 20 Placements: {0,1,2,3,4,5,6}:1
GPU  0 Profile ID 15 Placements: {0,2,4,6}:2
GPU  0 Profile ID 14 Placements: {0,2,4}:2
GPU  0 Profile ID  9 Placements: {0,4}:4
GPU  0 Profile ID  5 Placement : {0}:4
GPU  0 Profile ID  0 Placement : {0}:8
"""
"""`nvidia-smi mig -lgipp` of an A100 and an H100."""
PRINTED_A30 = """
GPU  0 Profile ID 14 Placements: {0,1,2,3}:1
GPU  0 Profile ID 21 Placements: {0,1,2,3}:1
GPU  0 Profile ID  5 Placements: {0,2}:2
GPU  0 Profile ID  6 Placements: {0,2}:2
GPU  0 Profile ID  0 Placement : {0}:4
"""
LINE = re.compile(r"Placements? ?: \{([0-9,]+)\}:([0-9]+)")


def printed(card):
    """Profile name to the sets of memory slices that an instance can take."""
    lines = LINE.findall(PRINTED_A30 if card is A30 else PRINTED)
    return {
        profile.name: [set(range(int(start), int(start) + int(size))) for start in starts.split(",")]
        for profile, (starts, size) in zip(card.profiles, lines, strict=True)
    }


def has_places(places, names, taken=frozenset()):
    if not names:
        return True
    return any(
        has_places(places, names[1:], taken | chosen) for chosen in places[names[0]] if not taken & chosen
    )


def is_valid(card, names):
    """By the guide's words: places that do not overlap, one instance with media engines, enough compute."""
    media = sum(name.endswith("+me") for name in names)
    compute = sum(int(name[0]) for name in names)
    return media <= 1 and compute <= card.compute and has_places(printed(card), names)


@pytest.mark.parametrize("card", [A30, A100_40GB], ids=lambda card: card.name)
def test_geometries_are_exactly_what_the_printed_placements_allow(card):
    names = [profile.name for profile in card.profiles]
    valid = {()}
    for count in range(1, card.compute + 1):
        for chosen in combinations_with_replacement(names, count):
            smaller = geometry(chosen[1:]) in valid
            if smaller and is_valid(card, chosen):
                valid.add(geometry(chosen))
    assert geometries(card) == valid


def test_a_card_of_which_an_agent_reports_absurd_profiles_takes_bounded_work():
    sizes = [(compute, media) for compute in range(1, 9) for media in ("", "+me")]
    every = [MigProfile(f"{size}g.1gb{media}", size, 1, 1024, tuple(range(8)), 8) for size, media in sizes]
    assert sum(1 for _ in arrangements(card_of_profiles("absurd", every))) == MAX_ARRANGEMENTS


def test_nothing_can_be_added_to_a_full_geometry():
    names = [profile.name for profile in H100_80GB.profiles]
    for full in full_geometries(H100_80GB):
        assert not any(is_valid(H100_80GB, (*full, name)) for name in names)
