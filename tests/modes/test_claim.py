"""The claim of a share: its content is what the share asks for, and its name says so."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube.dra import DRIVER, NVIDIA_DRIVER
from modes.claim import (
    MAX_NAME,
    MAX_SIZES,
    ClaimedShare,
    quantity_of_mib,
    sizes_of_name,
    template_name,
    template_spec,
)
from modes.fraction import Fraction
from modes.gpu_kinds import GpuKinds, is_pattern, matches

HALF = Fraction(4, 8)
SIZES = st.lists(st.integers(8, 999_999_999), min_size=1, max_size=MAX_SIZES, unique=True).map(tuple)
PARTS = st.one_of(
    st.integers(1, 7).map(lambda slices: Fraction(slices, 8)),
    st.integers(1, 999_999_999).map(lambda mib: Fraction.of_memory(mib, 8)),
    st.integers(1, 16).map(lambda gpus: Fraction(8 * gpus, 8)),
    st.integers(2, 16).map(HALF.on_each_of),
)


def request_of(share):
    [request] = template_spec(share)["spec"]["devices"]["requests"]
    assert request["name"] == "gpu"
    return request


def test_a_fraction_asks_for_its_part_of_each_size_of_card():
    found = request_of(ClaimedShare(DRIVER, Fraction(3, 8), (40960, 81559)))["firstAvailable"]
    assert [(each["name"], each["capacity"]["requests"]["memory"]) for each in found] == [
        ("m40960", "15Gi"),
        ("m81559", "30584Mi"),
    ]
    expression = found[1]["selectors"][0]["cel"]["expression"]
    assert "quantity('81559Mi')) >= 0" in expression
    assert "quantity('81560Mi')) < 0" in expression


def test_requested_memory_is_exactly_that_on_every_card():
    found = request_of(ClaimedShare(NVIDIA_DRIVER, Fraction.of_memory(1431, 8)))["exactly"]
    assert found == {
        "deviceClassName": NVIDIA_DRIVER,
        "allocationMode": "ExactCount",
        "count": 1,
        "capacity": {"requests": {"memory": "1431Mi"}},
    }


def test_whole_cards_are_counted_and_have_no_amount():
    found = request_of(ClaimedShare(DRIVER, Fraction(16, 8)))["exactly"]
    assert (found["count"], "capacity" in found) == (2, False)


def test_a_claim_has_no_more_alternatives_than_kubernetes_takes():
    share = ClaimedShare(DRIVER, HALF, tuple(range(1, MAX_SIZES + 2)))
    with pytest.raises(ValueError, match="9 sizes"):
        template_spec(share)
    with pytest.raises(ValueError, match="0 sizes"):
        template_name(ClaimedShare(DRIVER, HALF))


@given(PARTS, SIZES)
def test_a_name_has_the_sizes_and_is_no_longer_than_said(fraction, sizes):
    name = template_name(ClaimedShare(DRIVER, fraction, sizes))
    has_sizes = not (fraction.is_whole or fraction.mib)
    assert sizes_of_name(name) == (sizes if has_sizes else ())
    assert len(name) <= MAX_NAME


@given(PARTS, PARTS, SIZES, st.sampled_from([DRIVER, NVIDIA_DRIVER]))
def test_shares_have_one_name_only_if_their_claims_are_equal(one, other, sizes, driver):
    first, second = ClaimedShare(DRIVER, one, sizes), ClaimedShare(driver, other, sizes)
    if template_name(first) == template_name(second):
        assert template_spec(first) == template_spec(second)


@given(st.text(max_size=200))
def test_other_names_have_no_sizes(text):
    assert sizes_of_name(text) is None
    assert sizes_of_name(f"gpu-fraction-{text}") is None


@given(st.integers(1, 10**9))
def test_quantities_are_the_same_amount(mib):
    text = quantity_of_mib(mib)
    scale = {"Mi": 1, "Gi": 1024, "Ti": 1024**2, "Pi": 1024**3}[text[-2:]]
    assert int(text[:-2]) * scale == mib


HOSTILE = ["a'", '"', "\\", "(", ")", "') || true", "a b", "[", "\n", "${x}", "A'+'", "a|b", "^", "$", ""]


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_that_could_end_the_expression_becomes_one(text):
    share = ClaimedShare(DRIVER, HALF, (81920,), GpuKinds((text,)))
    with pytest.raises(ValueError, match="no pattern"):
        template_spec(share)


@given(st.text(max_size=63))
def test_texts_are_in_an_expression_only_if_they_are_patterns(text):
    share = ClaimedShare(DRIVER, HALF, (81920,), GpuKinds((text,)))
    if not is_pattern(text):
        with pytest.raises(ValueError, match="no pattern"):
            template_spec(share)
        return
    expression = selectors(share)[1]
    between = expression.partition("matches('")[2]
    assert between.endswith("')")
    assert not set("'\\\n\"") & set(between[:-2])


def selectors(share):
    request = request_of(share)
    asked = request["firstAvailable"][0] if "firstAvailable" in request else request["exactly"]
    return [each["cel"]["expression"] for each in asked["selectors"]]


MODELS = st.sampled_from([
    "NVIDIA-A100-SXM4-80GB",
    "NVIDIA-A100-SXM4-40GB",
    "NVIDIA-H100-NVL",
    "NVIDIA-A10",
    "Tesla-T4",
    "NVIDIA-L40S",
])  # fmt: skip
PATTERNS = st.sampled_from(["A100-80", "a100", "A10", "H*", "A100*", "NVIDIA-*-80", "L40S", "T4", "80", "*"])


@given(MODELS, PATTERNS)
def test_an_expression_matches_what_the_pattern_matches(model, pattern):
    """By Python's expressions, which agree with RE2 on what is used; drivers write blanks, labels hyphens."""
    share = ClaimedShare(DRIVER, Fraction.of_memory(1, 8), kinds=GpuKinds((pattern,)))
    [expression] = selectors(share)
    regular = expression.partition("matches('")[2][:-2]
    for name in (model, model.replace("-", " ")):
        assert (re.search(regular, name) is not None) == matches(pattern, model), (regular, name)


def test_the_least_memory_is_asked_of_whole_cards_and_of_memory():
    [expression] = selectors(ClaimedShare(DRIVER, Fraction(8, 8), kinds=GpuKinds(min_mib=40000)))
    assert expression == f"device.capacity['{DRIVER}'].memory.compareTo(quantity('40000Mi')) >= 0"
    assert json.dumps(template_spec(ClaimedShare(DRIVER, HALF, (81920,)))).count("40000") == 0


def test_less_than_a_mebibyte_is_not_claimed_as_a_whole_card():
    with pytest.raises(ValueError, match="less than 1 MiB"):
        template_spec(ClaimedShare(DRIVER, Fraction(1, 8), (7,)))
