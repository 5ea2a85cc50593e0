import pytest

from modes.fraction import Fraction
from modes.mig import smallest_profile
from modes.mig_profiles import A30, A100_40GB, A100_80GB, H100_80GB, H200


def fraction(text, slices=8):
    return Fraction.from_text(text, slices)


def mib(amount):
    return Fraction.of_memory(amount, 8)


ONLY = {"A100 40GB": ("2g.10gb", "7g.40gb")}


@pytest.mark.parametrize(
    ("card", "share", "profile", "is_more_than_twice"),
    [
        (A100_80GB, fraction("0.125"), "1g.10gb", False),
        (A100_80GB, fraction("0.250"), "1g.20gb", False),
        (A100_80GB, fraction("0.375"), "3g.40gb", False),
        (A100_80GB, fraction("0.625"), "7g.80gb", False),
        (A100_80GB, fraction("1.000"), "7g.80gb", False),
        (A30, fraction("0.125"), "1g.6gb", False),
        (A30, fraction("0.500"), "2g.12gb", False),
        (A30, fraction("0.750"), "4g.24gb", False),
        (H200, fraction("0.0625", 16), "1g.18gb", False),
        (H200, fraction("2"), None, False),
        (H100_80GB, mib(1), "1g.10gb", True),
        (H100_80GB, mib(9856), "1g.10gb", False),
        (H100_80GB, mib(9857), "1g.20gb", True),
        (H100_80GB, mib(40193), "7g.80gb", False),
        (H100_80GB, mib(80385), None, False),
        (A100_40GB, fraction("0.250"), "2g.10gb", False),
        (A100_40GB, fraction("0.375"), "7g.40gb", True),
    ],
)
def test_a_share_gets_the_smallest_profile_that_holds_it(card, share, profile, is_more_than_twice):
    offered = [each for each in card.profiles if each.name in ONLY.get(card.name, (each.name,))]
    found = smallest_profile(card, offered, share)
    assert (found and (found[0].name, found[1])) == (profile and (profile, is_more_than_twice))
