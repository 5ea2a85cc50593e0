"""What `make test` leaves to other commands, and what they do with a file that failed."""

import pytest

from tests import run_tier
from tests.effort import PARTS
from tests.run_tier import main, paths_of
from tests.tiers import FOLDERS, ROOT, TOGETHER, scope, tier_of


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
    folders = [folder for tier in FOLDERS.values() for folder in tier]
    assert [folder for folder in folders if not list((ROOT / folder).rglob("test_*.py"))] == []


@pytest.mark.parametrize("part", PARTS)
def test_each_part_of_the_long_tier_has_tests(part):
    assert paths_of("long", part)


TRIES = {
    "all is well": ([(0, [])], 0, ""),
    "alone it passes": (
        [(1, ["test_a.py::test_b"]), (0, [])],
        0,
        "unstable: test_a.py, first failure: test_b\n",
    ),
    "alone it fails too": (
        [(1, ["test_a.py::test_b"]), (1, [])],
        1,
        "failed twice: test_a.py, first failure: test_b\n",
    ),
    "nothing was collected": ([(5, [])], 5, ""),
    "too many failed": ([(1, [f"test_{name}.py::test_b" for name in "abcdefg"])], 1, ""),
}


@pytest.mark.parametrize(("runs", "status", "said"), TRIES.values(), ids=TRIES)
def test_a_file_that_failed_runs_once_more_alone(monkeypatch, capsys, runs, status, said):
    left = list(runs)
    monkeypatch.setattr(run_tier, "run", lambda *_: left.pop(0))
    monkeypatch.setattr(run_tier, "BUILT", {"cluster": ()})
    assert (main("cluster"), left, capsys.readouterr().out) == (status, [], said)


@pytest.mark.parametrize(
    ("nodeid", "together"),
    [
        ("tests/ledger/test_ledger.py::test_one[a::b]", "tests/ledger/test_ledger.py"),
        ("tests/real_nodes/installed/test_faults.py::test_one", "tests/real_nodes/installed"),
        ("tests/real_nodes/test_gpu_operator.py::test_one", "tests/real_nodes/test_gpu_operator.py"),
        ("tests/control_plane/kueue/test_page.py::test_one", "tests/control_plane/kueue"),
    ],
)
def test_a_worker_takes_a_file_or_all_files_of_a_folder(nodeid, together):
    assert scope(nodeid) == together
    assert all((ROOT / folder).is_dir() for folder in TOGETHER)
