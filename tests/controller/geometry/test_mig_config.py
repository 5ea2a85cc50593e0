"""Entries of the MIG manager's file that carry our prefix, and that somebody else has changed."""

import pytest
import yaml

from controller.geometry.mig_config import PREFIX, MigConfigFile


def divisions_of(**devices):
    entry = [{"devices": [0], "mig-enabled": True, "mig-devices": devices}]
    return MigConfigFile(yaml.safe_dump({"mig-configs": {f"{PREFIX}x-a": entry}})).divisions


def test_an_entry_is_read_as_the_instances_of_each_card():
    assert divisions_of(small=2, large=1)[f"{PREFIX}x-a"] == (("large", "small", "small"),)


@pytest.mark.parametrize("devices", [{"a": 9}, {"a": 5, "b": 4}, {"a": -1}, {"a": 100_000, "b": -100_000}])
def test_an_entry_with_numbers_of_instances_that_no_card_has_is_none_of_ours(devices):
    assert divisions_of(**devices) == {}
