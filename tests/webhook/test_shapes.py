"""Pods as other projects make them: which container gets the share, or why none does."""

import pytest

from tests.shapes import EXPECTED, TABLE, holders, shape
from tests.webhook.support import decide

LIMITED = {"nvidia.com/gpu-0": "4"}


@pytest.mark.parametrize("name", TABLE)
def test_the_shape_becomes_what_the_table_says(name):
    found = shape(name)
    # A real API server names it before it asks.
    found["metadata"].setdefault("name", found["metadata"].get("generateName", "") + "x7k2p")
    decided = decide(found)
    if not decided.allowed:
        assert f"denied: {decided.code}" == EXPECTED[name]
        assert len(decided.message) <= 200
        return
    assert decided.annotations["clearml-injector/gpu-container"] == EXPECTED[name]
    assert holders(decided.stored) == [EXPECTED[name]]
    limits = decided.container(EXPECTED[name])["resources"]["limits"]
    assert {each: limits[each] for each in limits if each.startswith("nvidia.com/")} == LIMITED
    others = [each["name"] for each in found["spec"]["containers"] if each["name"] != EXPECTED[name]]
    assert [other for other in others if ("NVIDIA_VISIBLE_DEVICES", "void") not in decided.env(other)] == []
