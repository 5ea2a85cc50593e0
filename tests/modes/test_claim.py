"""The claim of a share: its content is what the share asks for, and its name says so."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube.dra import DRIVER, NVIDIA_DRIVER
from modes.claim import ClaimedShare, template_name, template_spec
from modes.claim_name import MAX_NAME, MAX_SIZES, has_name, named_share, share_of_name, sizes_of_name
from modes.fraction import Fraction
from modes.gpu_kinds import GpuKinds, matches

HALF = Fraction(4, 8)
MEMORY = Fraction.of_memory(5120, 8)
PARTS = [Fraction.of_memory(62_000_000, 16)] * 16


def request_of(share):
    [request] = template_spec(share)["spec"]["devices"]["requests"]
    assert request["name"] == "gpu"
    return request


@pytest.mark.parametrize(
    ("label", "asked"), [("0.5", "500k"), ("0.125", "125k"), ("0.33333333", "333333"), ("0.000001", "1")]
)
def test_a_fraction_asks_the_agents_driver_for_the_same_share_of_any_card(label, asked):
    found = request_of(ClaimedShare(DRIVER, Fraction.rounded_up(label, 8)))["exactly"]
    assert found == {
        "deviceClassName": DRIVER,
        "allocationMode": "ExactCount",
        "count": 1,
        "capacity": {"requests": {"share": asked}},
    }


def test_a_fraction_is_taken_of_one_size_of_a_driver_that_offers_memory():
    found = request_of(ClaimedShare(NVIDIA_DRIVER, Fraction(3, 8), (81559,)))["exactly"]
    assert found["capacity"]["requests"] == {"memory": "30584Mi"}
    expression = found["selectors"][0]["cel"]["expression"]
    assert "quantity('81559Mi')) >= 0" in expression
    assert "quantity('81560Mi')) < 0" in expression


def test_requested_memory_is_a_share_of_each_size_and_limited_exactly_whatever_the_card():
    spec = template_spec(ClaimedShare(DRIVER, MEMORY, (40960, 81559)))["spec"]["devices"]
    memory = f"device.attributes['{DRIVER}'].?memoryMiB.orValue(0)"
    assert [
        (each["name"], each["capacity"]["requests"]["share"], each["selectors"][0]["cel"]["expression"])
        for each in spec["requests"][0]["firstAvailable"]
    ] == [
        ("m40960", "125k", f"{memory} >= 40960 && {memory} < 81559"),
        ("m81559", "62777", f"{memory} >= 81559"),
        ("m5120", "1M", f"{memory} >= 5120 && {memory} < 40960"),
    ]
    [limit] = spec["config"]
    assert (limit["requests"], limit["opaque"]["parameters"]["memoryMiB"]) == (["gpu"], 5120)


def test_a_claim_has_no_more_alternatives_than_kubernetes_takes():
    share = ClaimedShare(DRIVER, MEMORY, tuple(range(5120, 5120 + MAX_SIZES)))
    with pytest.raises(ValueError, match="8 sizes"):
        template_spec(share)
    with pytest.raises(ValueError, match="0 sizes"):
        template_name(ClaimedShare(DRIVER, MEMORY))


@pytest.mark.parametrize(
    ("fraction", "sizes", "driver", "begin"),
    [
        (HALF, (), DRIVER, "4of8"),
        (Fraction.rounded_up("0.2", 8), (), DRIVER, "1of5"),
        (Fraction(3, 8), (81559,), NVIDIA_DRIVER, "3of8-m81559"),
        (HALF.on_each_of(3), (), DRIVER, "4of8-x3"),
        (Fraction(16, 8), (), DRIVER, "whole-x2"),
        (MEMORY, (40960, 81559), DRIVER, "5120mi-m40960-m81559"),
        (MEMORY, (), NVIDIA_DRIVER, "5120mi"),
        (MEMORY.shared_by([Fraction.of_memory(2560, 8)] * 2), (9000,), DRIVER, "5120mi-p2560-p2560-m9000"),
        (MEMORY.shared_by(PARTS), (999_999_999,), DRIVER, "992000000mi-x2-p62000000-p62000000"),
    ],
)
def test_a_name_says_what_the_claim_asks_for_and_is_no_longer_than_said(fraction, sizes, driver, begin):
    name = template_name(ClaimedShare(driver, fraction, sizes))
    assert name.startswith(f"gpu-fraction-{begin}-")
    if has_name(fraction):
        assert share_of_name(name) == named_share(fraction, sizes)
        assert sizes_of_name(name) == sizes
    assert len(name) <= MAX_NAME


def test_a_share_in_eighths_is_rounded_up_on_each_card():
    cards = (24576, 81920)
    assert named_share(HALF, cards).eighths(cards) == 4
    assert named_share(Fraction.rounded_up("0.2", 8), cards).eighths(cards) == 2
    assert named_share(Fraction(1, 16), cards).eighths(cards) == 1
    assert named_share(Fraction(16, 8), ()).eighths(cards) == 16
    assert named_share(Fraction(2, 8).on_each_of(3), cards).eighths(cards) == 6


@pytest.mark.parametrize(
    ("mib", "eighths"), [(1, 1), (3072, 1), (3073, 2), (24576, 8), (24577, 3), (81921, 8)]
)
def test_requested_memory_is_eighths_of_the_smallest_card_that_holds_it(mib, eighths):
    share = named_share(Fraction.of_memory(mib, 8), ())
    assert share.eighths((24576, 81920)) == eighths
    assert share.eighths(()) == 8
    assert share.most_mib((24576, 81920)) == mib


def test_a_name_that_nobody_made_is_read_without_an_error():
    digest = "0123456789abcdef"
    assert share_of_name(f"gpu-fraction-1of0-{digest}").eighths(()) == 8
    assert share_of_name(f"gpu-fraction-0mi-{digest}").eighths(()) == 8


HOSTILE = ["a'", '"', "\\", "(", ")", "') || true", "a b", "[", "\n", "${x}", "A'+'", "a|b", "^", "$", ""]


def selectors(share):
    return [each["cel"]["expression"] for each in request_of(share)["exactly"]["selectors"]]


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
    share = ClaimedShare(DRIVER, HALF, kinds=GpuKinds((pattern,)))
    [expression] = selectors(share)
    regular = expression.partition("matches('")[2][:-2]
    for name in (model, model.replace("-", " ")):
        assert (re.search(regular, name) is not None) == matches(pattern, model), (regular, name)


@pytest.mark.parametrize("fraction", [HALF, Fraction(8, 8)])
def test_the_least_memory_is_asked_where_no_size_is(fraction):
    [expression] = selectors(ClaimedShare(DRIVER, fraction, kinds=GpuKinds(min_mib=40000)))
    memory = f"device.attributes['{DRIVER}'].?memoryMiB.orValue(0)"
    assert expression == f"{memory} >= 40000"
    [expression] = selectors(ClaimedShare(NVIDIA_DRIVER, Fraction(8, 8), kinds=GpuKinds(min_mib=40000)))
    capacity = f"device.capacity['{NVIDIA_DRIVER}'].?memory.orValue(quantity('0'))"
    assert expression == f"{capacity}.compareTo(quantity('40000Mi')) >= 0"
    of_size = ClaimedShare(NVIDIA_DRIVER, HALF, (81920,), GpuKinds(min_mib=40000))
    assert "40000" not in json.dumps(template_spec(of_size))


def test_the_same_share_of_several_cards_is_of_cards_of_one_size():
    devices = template_spec(ClaimedShare(DRIVER, HALF.on_each_of(2)))["spec"]["devices"]
    assert devices["requests"][0]["exactly"]["count"] == 2
    assert devices["constraints"] == [{"matchAttribute": f"{DRIVER}/memoryMiB"}]
    for exact in (MEMORY.on_each_of(2), Fraction(16, 8)):
        assert "constraints" not in template_spec(ClaimedShare(DRIVER, exact, (81920,)))["spec"]["devices"]


def test_each_of_several_containers_has_a_request_and_all_are_on_one_card():
    share = Fraction(6, 8).shared_by([Fraction(4, 8), Fraction(2, 8)])
    devices = template_spec(ClaimedShare(DRIVER, share))["spec"]["devices"]
    assert [
        (request["name"], request["exactly"]["capacity"]["requests"]["share"])
        for request in devices["requests"]
    ] == [("gpu-0", "500k"), ("gpu-1", "250k")]
    assert devices["constraints"] == [{"matchAttribute": f"{DRIVER}/uuid"}]
    assert template_name(ClaimedShare(DRIVER, share)).startswith("gpu-fraction-6of8-p4-p2-")
    assert ["selectors" in request["exactly"] for request in _of_model(share)["requests"]] == [True, False]


def test_the_parts_of_two_containers_may_be_on_different_cards_and_those_of_more_are_not():
    quarter = Fraction(2, 8)
    two = _of_model(Fraction(4, 8).shared_by([quarter] * 2), any_card=True)
    assert "constraints" not in two
    assert ["selectors" in request["exactly"] for request in two["requests"]] == [True, True]
    assert "constraints" in _of_model(Fraction(6, 8).shared_by([quarter] * 3), any_card=True)


def _of_model(share, *, any_card=False):
    claimed = ClaimedShare(DRIVER, share, kinds=GpuKinds(("A100-80",)), any_card=any_card)
    return template_spec(claimed)["spec"]["devices"]


def test_requested_memory_of_several_containers_is_limited_for_each_and_fits_on_the_smallest_card():
    thirds = [Fraction.of_memory(mib, 8) for mib in (27306, 27307, 27307)]
    share = ClaimedShare(DRIVER, Fraction.of_memory(81920, 8).shared_by(thirds), (81920,))
    devices = template_spec(share)["spec"]["devices"]
    asked = [request["firstAvailable"][0] for request in devices["requests"]]
    assert [each["capacity"]["requests"]["share"] for each in asked] == ["333326", "333337", "333337"]
    assert [(*each["requests"], each["opaque"]["parameters"]["memoryMiB"]) for each in devices["config"]] == [
        ("gpu-0", 27306),
        ("gpu-1", 27307),
        ("gpu-2", 27307),
    ]


def test_less_than_a_mebibyte_is_not_claimed_as_a_whole_card():
    with pytest.raises(ValueError, match="less than 1 MiB"):
        template_spec(ClaimedShare(NVIDIA_DRIVER, Fraction(1, 8), (7,)))
    with pytest.raises(ValueError, match="less than 1 of 1000000 parts"):
        template_spec(ClaimedShare(DRIVER, Fraction.rounded_up("0.00000099", 8)))
    shared = Fraction(8, 16).shared_by([Fraction(7, 16), Fraction(1, 16)])
    with pytest.raises(ValueError, match="less than 1 MiB"):
        template_spec(ClaimedShare(NVIDIA_DRIVER, shared, (15,)))


@pytest.mark.parametrize("text", ["0.5", "0.2", "0.33333333", "0.333333333", "0.3333333333333"])
def test_only_a_fraction_of_few_digits_can_be_read_back_from_a_name(text: str) -> None:
    fraction = Fraction.rounded_up(text, 8)
    found = share_of_name(template_name(ClaimedShare(DRIVER, fraction)))
    assert found == (named_share(fraction, ()) if has_name(fraction) else None)


@pytest.mark.parametrize("text", HOSTILE)
def test_no_hostile_text_makes_a_claim(text):
    with pytest.raises(ValueError, match="no pattern"):
        template_spec(ClaimedShare(DRIVER, HALF, kinds=GpuKinds((text,))))
