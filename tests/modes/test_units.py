"""What a share takes: its names, its order, and what an instance is worth on a card."""

import pytest

from modes.mig_profiles import CARDS, card_of_product
from modes.units import POOL, Profile, index_of, profile_of_resource, unit_name, unit_of

A100_40, A100_80, H100, A30 = (
    "NVIDIA-A100-SXM4-40GB",
    "NVIDIA-A100-SXM4-80GB",
    "NVIDIA-H100-80GB-HBM3",
    "NVIDIA-A30",
)
PROFILE = Profile(1, 10)


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.name)
def test_every_profile_has_a_number_of_its_own_from_which_its_resource_follows(card):
    made = [profile_of_resource(profile.resource) for profile in card.profiles]
    assert [each.resource for each in made] == [each.resource for each in card.profiles]
    assert [unit_of(each.number) for each in made] == made
    assert len({each.number for each in made}) == len(made)


@pytest.mark.parametrize(
    "resource",
    [
        "nvidia.com/gpu",
        "nvidia.com/gpu-3",
        "nvidia.com/mig-",
        "nvidia.com/mig-1g.10gb.me.all",
        "nvidia.com/mig-1g.10gb+me",
        "nvidia.com/mig-" + "1" * 10_000,
        "nvidia.com/mig-0g.10gb",
    ],
)
def test_other_names_are_no_profiles(resource):
    assert profile_of_resource(resource) is None


@pytest.mark.parametrize(
    ("index", "unit", "name"),
    [(0, 0, "0"), (999, 999, "999"), (21020, PROFILE, "1g.10gb"), (None, POOL, "pool")],
)
def test_json_names_a_unit_as_every_release_does(index, unit, name):
    assert (unit_of(index), index_of(unit), unit_name(unit)) == (unit, index, name)


@pytest.mark.parametrize(
    ("profile", "product", "eighths", "mib"),
    [
        ("1g.10gb", A100_80, 1, 9728),
        ("1g.10gb", A100_40, 2, 9856),
        ("1g.6gb", A30, 2, 5836),
        ("3g.40gb", A100_80, 4, 40192),
        ("7g.80gb", H100, 8, 80384),
        ("1g.10gb", "", 2, 9856),
        ("3g.99gb", "", 4, 99 * 1024),
        ("5g.1gb", A30, 8, 1024),
    ],
)
def test_an_instance_is_worth_its_part_of_the_card_and_on_an_unknown_one_the_most(
    profile, product, eighths, mib
):
    unit = profile_of_resource(f"nvidia.com/mig-{profile}")
    assert unit is not None
    card = card_of_product(product)
    assert (unit.eighths(card), unit.mib(card)) == (eighths, mib)
