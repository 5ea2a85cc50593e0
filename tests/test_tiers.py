"""What `make test` leaves to other commands, and what they do with a file that failed."""

import shutil
from pathlib import Path

import pytest

from tests import run_tier
from tests.effort import PARTS
from tests.run_tier import built_for, by_file, main, paths_of, why_not
from tests.tiers import FOLDERS, ROOT, TOGETHER, scope, tier_of

HERE = Path(__file__).parent


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


def test_what_a_long_run_does_not_need_is_not_built():
    assert built_for(paths_of("long", "ledger")) == []
    assert built_for(paths_of("long", "control_plane")) == ["testbed.binaries", "testbed.kueue.parts"]
    assert built_for(paths_of("long", "real_nodes"))[1:] == ["testbed.nodes.parts", "testbed.nvidia.parts"]


def test_programs_that_are_missing_are_named_with_one_command(monkeypatch):
    monkeypatch.setattr(
        shutil, "which", lambda name: None if name in ("gcc", "promtool") else f"/usr/bin/{name}"
    )
    assert why_not() == (
        "gcc, promtool not found: apt-get install --no-install-recommends gcc libc6-dev prometheus"
    )


def test_of_a_file_its_first_failure_is_kept():
    failed = ["tests/a/test_b.py::test_c[x]", "tests/a/test_b.py::test_d", "tests/a/test_e.py"]
    assert by_file(failed) == {"tests/a/test_b.py": "test_c[x]", "tests/a/test_e.py": ""}


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
        ("tests/real_nodes/test_agent.py::test_one", "tests/real_nodes/test_agent.py"),
        ("tests/control_plane/kueue/test_page.py::test_one", "tests/control_plane/kueue"),
    ],
)
def test_a_worker_takes_a_file_or_all_files_of_a_folder(nodeid, together):
    assert scope(nodeid) == together
    assert all((ROOT / folder).is_dir() for folder in TOGETHER)
