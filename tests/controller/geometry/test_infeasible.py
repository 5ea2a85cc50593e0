"""A request that no division of any card can hold is reported, and no other."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from controller.geometry.infeasible import never_fits
from modes.mig_geometry import geometries
from modes.mig_profiles import A100_40GB, CARDS

ONE, TWO = {A100_40GB: 1}, {A100_40GB: 2}


def test_what_no_card_can_hold_is_said():
    assert "no known card has the MIG profile 1g.7gb" in (never_fits((("1g.7gb", 1),), ONE) or "")
    assert never_fits((("3g.20gb", 1),), ONE) is None
    problem = never_fits((("3g.20gb", 5),), TWO)
    assert problem == "5 instances of 3g.20gb are more than the 4 that a node can have: ask for fewer"


@given(st.sampled_from(CARDS), st.data())
def test_a_request_is_only_said_to_fit_nowhere_when_no_geometry_has_it(card, data):
    drawn = data.draw(st.sampled_from(sorted(geometries(card) - {()})))
    wants = tuple(sorted(Counter(drawn).items()))
    assert never_fits(wants, {card: 1}) is None
