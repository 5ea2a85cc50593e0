"""What `make test` leaves to other commands."""

import pytest

from tests.effort import PARTS
from tests.run_tier import paths_of
from tests.tiers import FOLDERS, ROOT, TOGETHER, tier_of


@pytest.mark.parametrize(
    ("path", "tier"),
    [
        ("tests/ledger/test_ledger.py", None),
        ("tests/cluster/test_informer.py", None),
        ("tests/control_plane/kueue/test_page.py", "cluster"),
        ("tests/browser", "nodes"),
        ("tests/programs/baremetal/test_container.py", "nodes"),
        ("tests/long/bench", "long"),
        ("tests", None),
    ],
)
def test_a_file_is_of_the_tier_of_its_folder(path, tier):
    assert tier_of(ROOT / path) == tier


def test_every_folder_of_a_tier_is_there():
    folders = [*TOGETHER, *(folder for tier in FOLDERS.values() for folder in tier)]
    assert [folder for folder in folders if not list((ROOT / folder).rglob("test_*.py"))] == []


@pytest.mark.parametrize("part", PARTS)
def test_each_part_of_the_long_tier_has_tests(part):
    assert paths_of("long", part)
