"""Modes are one module each: their names decide nothing anywhere else."""

from typing import get_args

import pytest

from modes.mode import DEFAULT_MODE, ModeName
from modes.registry import MODES
from policies.model.limiters import Modes


def test_every_mode_of_the_schema_is_registered_under_its_own_name():
    assert set(MODES) == set(get_args(ModeName))
    assert all(mode.name == name for name, mode in MODES.items())
    assert DEFAULT_MODE in MODES


@pytest.mark.parametrize("name", MODES)
def test_limiters_can_say_what_differs_in_every_mode(name):
    part = {"env": {"NAME": "value"}}
    assert Modes.model_validate({name: part}).of(name).env == part["env"]
    assert Modes.model_validate({name: part}).of(next(n for n in MODES if n != name)).env == {}
