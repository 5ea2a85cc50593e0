"""Harmless names are those that no rule looks at, learnt as they come, and bounded."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.patch_cache import harmless_names
from webhook.patch_cache.harmless_names import HarmlessNames

names = st.one_of(
    st.sampled_from(["secret-1", "secret-2", "a", "b"]), st.text(max_size=3), st.just("x" * 129)
)


@given(st.lists(st.lists(names, max_size=6), max_size=12))
def test_harmless_names_hold_exactly_those_that_do_not_matter_whatever_came_before(lists):
    plain = HarmlessNames(lambda name: name.startswith("secret"))
    for each in lists:
        held = plain.issuperset(each) or plain.learn(each)
        assert held == (not any(name.startswith("secret") for name in each))
        assert not any(name.startswith("secret") for name in plain)
        assert max(map(len, plain), default=0) <= harmless_names.MAX_CHARACTERS


@pytest.mark.parametrize("at_once", [1, 7, 1023, 1024, 1025, 5000])
def test_harmless_names_are_bounded_in_number_and_size(at_once):
    plain = HarmlessNames(lambda _name: False)
    for start in range(0, 10_000, at_once):
        assert plain.learn([f"{number:0128}" for number in range(start, start + at_once)])
        assert len(plain) <= harmless_names.MAX_NAMES
    assert sum(map(sys.getsizeof, plain)) < harmless_names.MAX_NAMES * 2 * harmless_names.MAX_CHARACTERS
