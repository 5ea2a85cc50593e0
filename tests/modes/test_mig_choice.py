import pytest
from hypothesis import given
from hypothesis import strategies as st

from modes.fraction import Fraction
from modes.mig_choice import fit_of_fraction, fit_of_mib
from modes.mig_profiles import A30, A100_40GB, A100_80GB, CARDS, H100_80GB, H200


def fraction(text, slices=8):
    return Fraction.from_text(text, slices)


@pytest.mark.parametrize(
    ("card", "text", "profile"),
    [
        (A100_80GB, "0.125", "1g.10gb"),
        (A100_80GB, "0.250", "1g.20gb"),
        (A100_80GB, "0.375", "3g.40gb"),
        (A100_80GB, "0.500", "3g.40gb"),
        (A100_80GB, "0.625", "7g.80gb"),
        (A100_80GB, "1.000", "7g.80gb"),
        (A30, "0.125", "1g.6gb"),
        (A30, "0.500", "2g.12gb"),
        (A30, "0.750", "4g.24gb"),
    ],
)
def test_a_fraction_is_the_smallest_profile_with_its_part_of_the_memory(card, text, profile):
    fit = fit_of_fraction(card, card.profiles, fraction(text))
    assert fit is not None
    assert fit.profile.name == profile


def test_a_sixteenth_is_a_whole_smallest_instance():
    fit = fit_of_fraction(H200, H200.profiles, fraction("0.0625", 16))
    assert fit is not None
    assert (fit.profile.name, fit.given, fit.is_more_than_twice) == ("1g.18gb", 2 * fit.asked, False)


def test_an_instance_is_never_more_than_one_card():
    assert fit_of_fraction(H200, H200.profiles, fraction("2")) is None


@pytest.mark.parametrize(
    ("mib", "profile"),
    [
        (1, "1g.10gb"),
        (9856, "1g.10gb"),
        (9857, "1g.20gb"),
        (40000, "3g.40gb"),
        (40193, "7g.80gb"),
        (80384, "7g.80gb"),
    ],
)
def test_memory_is_the_smallest_profile_with_so_many_mib(mib, profile):
    fit = fit_of_mib(H100_80GB.profiles, mib)
    assert fit is not None
    assert fit.profile.name == profile


def test_what_no_profile_holds_has_no_fit():
    assert fit_of_mib(H100_80GB.profiles, 80385) is None
    assert fit_of_mib((), 1) is None


def test_memory_must_be_some():
    with pytest.raises(ValueError, match="0 MiB is not a valid amount"):
        fit_of_mib(A30.profiles, 0)


def test_of_what_a_node_advertises_the_smallest_is_taken():
    advertised = [each for each in A100_40GB.profiles if each.name in ("2g.10gb", "7g.40gb")]
    fit = fit_of_fraction(A100_40GB, advertised, fraction("0.250"))
    assert fit is not None
    assert fit.profile.name == "2g.10gb"


def test_an_eighth_on_an_undivided_card_is_more_than_twice_what_was_asked():
    whole = [each for each in A100_80GB.profiles if each.name == "7g.80gb"]
    fit = fit_of_fraction(A100_80GB, whole, fraction("0.125"))
    assert fit is not None
    assert (fit.is_more_than_twice, fit.given) == (True, 8 * fit.asked)


@given(st.sampled_from(CARDS), st.integers(1, 200_000))
def test_no_smaller_profile_would_do(card, mib):
    fit = fit_of_mib(card.profiles, mib)
    plain = [each for each in card.profiles if not each.has_media_extensions]
    enough = [each for each in plain if each.mib >= mib]
    assert (fit is None) == (not enough)
    if fit is not None:
        assert fit.profile in enough
        assert all(
            (fit.profile.memory, fit.profile.compute) <= (each.memory, each.compute) for each in enough
        )
        assert fit.is_more_than_twice == (fit.profile.mib > 2 * mib)
