"""Mode mig: the smallest instance that holds a share, among those that nodes offer."""

from dataclasses import replace

import pytest

from modes import mig_profiles
from modes.facts import NodeFact
from modes.fraction import Fraction
from modes.mig import Mig, smallest_profile
from modes.mig_profiles import MigProfile, card_of_product, card_of_profiles
from modes.units import POOL, profile_of_product, profile_of_resource

A100_40, A100_80, H100 = "NVIDIA-A100-SXM4-40GB", "NVIDIA-A100-SXM4-80GB", "NVIDIA-H100-80GB-HBM3"


def units(*profiles):
    return tuple(profile_of_resource(f"nvidia.com/mig-{profile}") for profile in profiles)


def offer(product, resource_units):
    return product, card_of_product(product), resource_units


def found(share, *offers, resource=""):
    fraction = Fraction(share, 8) if share < 100 else Fraction.of_memory(share, 8)
    offers = [offer(*each) for each in offers]
    return [
        (each.profile.name, each.eighths, each.mib, each.products, each.is_more_than_twice)
        for each in Mig.instances(fraction, offers, resource)
    ]


def node(product, *instances, **more):
    pairs = tuple(sorted((units(name)[0].number, count) for name, count in instances))
    return NodeFact(name="n", labels={"nvidia.com/gpu.product": product}, instances=pairs, **more)


def test_the_same_name_is_another_part_of_another_card_and_bound_to_its_models():
    offers = [(A100_40, units("1g.5gb", "1g.10gb")), (A100_80, units("1g.10gb")), (H100, units("1g.10gb"))]
    assert found(1, *offers) == [
        ("1g.5gb", 1, 4864, (A100_40,), False),
        ("1g.10gb", 1, 9728, (A100_80, H100), False),
    ]


def test_memory_is_held_by_whatever_has_it_on_each_card():
    offers = [(A100_40, units("1g.5gb", "1g.10gb")), (A100_80, units("1g.10gb", "7g.80gb"))]
    assert found(8192, *offers) == [
        ("1g.10gb", 1, 9728, (A100_80,), False),
        ("1g.10gb", 2, 9856, (A100_40,), False),
    ]


def test_an_instance_of_more_than_twice_comes_last_and_says_so():
    offers = [(A100_80, units("7g.80gb")), (H100, units("2g.20gb"))]
    assert [(each[0], each[4]) for each in found(1, *offers)] == [("2g.20gb", False), ("7g.80gb", True)]


def test_the_strategy_single_offers_its_one_profile_as_whole_gpus():
    product = f"{A100_80}-MIG-3g.40gb"
    offering = node(product, pooled=2, pooled_gpus=2)
    assert Mig.resource_units(offering) == (POOL,)
    assert Mig.gpu_count(offering) == (2, 0)
    (only,) = Mig.instances(Fraction(4, 8), [offer(product, (POOL,))])
    assert (only.profile.name, only.is_pool, only.indices, only.products) == ("3g.40gb", True, (), (product,))


def test_time_sliced_instances_are_no_strategy_single():
    assert profile_of_product(f"{A100_80}-MIG-1g.10gb-SHARED") is None
    assert profile_of_product(f"{A100_80}-SHARED") is None


def test_a_node_that_is_divided_on_demand_offers_all_that_its_card_can_have():
    offering = node(A100_80, ("1g.10gb", 7))
    assert Mig.resource_units(offering) == units("1g.10gb")
    labels = {**offering.labels, "clearml-injector/gpu-partitioning": "mig"}
    divided = NodeFact(name="n", labels=labels, instances=offering.instances)
    assert set(units("3g.40gb", "7g.80gb")) < set(Mig.resource_units(divided))


def test_the_profiles_that_an_agent_reports_count_before_the_table_and_where_the_table_has_none():
    small = MigProfile("1g.34gb", 1, 1, 34048, (0, 1, 2, 3, 4, 5, 6), 7)
    card = card_of_profiles("NVIDIA B300", [MigProfile("3g.135gb", 3, 4, 137088, (0, 4), 2), small])
    assert (card.compute, card.memory, card.profiles[0]) == (3, 8, small)
    offered = [
        (found.product, found.mig_card, Mig.resource_units(found))
        for found in (node("NVIDIA-B300", ("1g.34gb", 7), reported_mig=each) for each in (card, None))
    ]
    [known], unknown = [Mig.instances(Fraction.of_memory(34000, 8), [each]) for each in offered]
    assert (known.profile.name, unknown) == ("1g.34gb", [])
    assert node(A100_80, reported_mig=card).mig_card is card


def test_profiles_that_no_card_can_have_are_ignored():
    one = MigProfile("1g.5gb", 1, 1, 4864, (0,), 7)
    for profiles in (
        [],
        [one, replace(one, name="1g.6gb")],
        [replace(one, starts=(8,))],
        [replace(one, memory=0)],
    ):
        assert card_of_profiles("card", profiles) is None


def test_media_engines_are_for_those_who_name_them():
    offers = [(A100_80, units("1g.10gb.me"))]
    assert found(1, *offers) == []
    assert [each[0] for each in found(1, *offers, resource="nvidia.com/mig-1g.10gb.me")] == ["1g.10gb.me"]


def test_a_resource_that_the_pod_names_is_the_only_one():
    offers = [(A100_80, units("1g.10gb", "3g.40gb"))]
    assert [each[0] for each in found(1, *offers, resource="nvidia.com/mig-3g.40gb")] == ["3g.40gb"]
    assert found(5, *offers, resource="nvidia.com/mig-3g.40gb") == []


@pytest.mark.parametrize(
    ("share", "offers", "why"),
    [
        (1, [], "no node offers MIG instances of a known card"),
        (1, [("Unknown", units("1g.10gb"))], "no node offers MIG instances of a known card"),
        (8, [(A100_80, units("1g.10gb"))], "no MIG instance holds 8/8 of a GPU, the largest is 1g.10gb"),
        (90000, [(A100_80, units("7g.80gb"))], "no MIG instance holds 90000 MiB, the largest is 7g.80gb"),
    ],
)
def test_what_none_holds_is_said_with_what_to_do(share, offers, why):
    fraction = Fraction(share, 8) if share < 100 else Fraction.of_memory(share, 8)
    offers = [offer(*each) for each in offers]
    assert Mig.instances(fraction, offers) == []
    assert Mig.none_holds(fraction, offers).startswith(why)


def test_the_instances_of_all_profiles_are_counted():
    assert Mig.gpu_count(node(A100_80, ("1g.10gb", 3), ("2g.20gb", 2))) == (5, 0)


def fraction(text, slices=8):
    return Fraction.from_text(text, slices)


def mib(amount):
    return Fraction.of_memory(amount, 8)


ONLY = {"A100 40GB": ("2g.10gb", "7g.40gb")}


@pytest.mark.parametrize(
    ("card", "share", "profile", "is_more_than_twice"),
    [
        ("A100_80GB", fraction("0.125"), "1g.10gb", False),
        ("A100_80GB", fraction("0.375"), "3g.40gb", False),
        ("A100_80GB", fraction("0.625"), "7g.80gb", False),
        ("A30", fraction("0.500"), "2g.12gb", False),
        ("H200", fraction("0.0625", 16), "1g.18gb", False),
        ("H200", fraction("2"), None, False),
        ("H100_80GB", mib(1), "1g.10gb", True),
        ("H100_80GB", mib(9856), "1g.10gb", False),
        ("H100_80GB", mib(9857), "1g.20gb", True),
        ("H100_80GB", mib(80385), None, False),
        ("A100_40GB", fraction("0.375"), "7g.40gb", True),
    ],
)
def test_a_share_gets_the_smallest_profile_that_holds_it(card, share, profile, is_more_than_twice):
    card = getattr(mig_profiles, card)
    offered = [each for each in card.profiles if each.name in ONLY.get(card.name, (each.name,))]
    found = smallest_profile(card, offered, share)
    assert (found and (found[0].name, found[1])) == (profile and (profile, is_more_than_twice))
