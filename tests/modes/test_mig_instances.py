"""MIG instances as numbers, and what each is worth on a card."""

import pytest

from modes.mig_instances import (
    instance_eighths,
    instance_mib,
    instance_number,
    instance_resource,
    is_instance,
)
from modes.mig_profiles import CARDS

A100_40, A100_80, H100, A30 = (
    "NVIDIA-A100-SXM4-40GB",
    "NVIDIA-A100-SXM4-80GB",
    "NVIDIA-H100-80GB-HBM3",
    "NVIDIA-A30",
)


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.name)
def test_every_profile_has_a_number_of_its_own_from_which_its_resource_follows(card):
    made = [instance_number(profile.resource) for profile in card.profiles]
    assert all(number is not None and is_instance(number) for number in made)
    assert [instance_resource(number) for number in made] == [each.resource for each in card.profiles]
    assert len(set(made)) == len(made)


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
def test_other_names_have_no_number(resource):
    assert instance_number(resource) is None


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
    number = instance_number(f"nvidia.com/mig-{profile}")
    assert number is not None
    assert (instance_eighths(number, product), instance_mib(number, product)) == (eighths, mib)
