"""Which tests one worker takes together, and in which order files come."""

import ast
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.distribution import (
    LONGEST,
    NODES,
    SECOND_LOCK,
    WAITING_WORKERS,
    WITH_NODES_OF_ITS_OWN,
    pytest_collection_modifyitems,
    pytest_xdist_auto_num_workers,
    scope,
    shuffled,
)

CHECKOUT = Path(__file__).parents[1]
OF_INSTALLATION = ("cluster", "installation")


@pytest.mark.parametrize(
    ("nodeid", "together"),
    [
        ("tests/ledger/test_ledger.py::test_one[a::b]", "tests/ledger/test_ledger.py"),
        ("tests/control_plane/test_audit.py::test_one", "tests/control_plane/test_audit.py"),
        ("tests/real_nodes/test_faults.py::test_one", "tests/real_nodes"),
        ("tests/real_nodes/test_uninstall.py::test_one", "tests/real_nodes"),
        ("tests/real_nodes/test_agent.py::test_one", "agents without a chart"),
        ("tests/real_nodes/test_unequal_cards.py::test_one", "agents without a chart"),
        ("tests/real_nodes/test_gpu_operator.py::test_one", "agents of the chart"),
        (f"{SECOND_LOCK}test_creations.py::test_one", f"{SECOND_LOCK}first half"),
        (f"{SECOND_LOCK}test_forgeries.py::test_one", f"{SECOND_LOCK}second half"),
        (
            "tests/control_plane/controller_writes/test_nodes.py::test_one",
            "tests/control_plane/controller_writes",
        ),
        ("tests/image/test_image.py::test_one", "tests/image"),
    ],
)
def test_a_worker_takes_a_file_or_all_files_that_share_nodes(nodeid, together):
    assert scope(nodeid) == together


@pytest.mark.parametrize("file", WITH_NODES_OF_ITS_OWN)
def test_a_file_goes_its_own_way_only_if_it_needs_nothing_of_the_shared_nodes(file):
    functions = [node for node in ast.parse((CHECKOUT / file).read_text()).body if _is_function(node)]
    made = {function.name for function in functions}
    needed = {argument.arg for function in functions for argument in function.args.args}
    assert needed & set(OF_INSTALLATION) <= made


def _is_function(node):
    return isinstance(node, ast.FunctionDef)


def test_real_nodes_come_first_as_they_wait_longest_and_a_control_plane_last(monkeypatch):
    monkeypatch.setattr("tests.distribution.SEED", "")
    files = [
        "tests/webhook/test_a.py",
        "tests/control_plane/test_b.py",
        "tests/image/test_c.py",
        NODES + "test_agent.py",
        NODES + "test_d.py",
        "tests/test_e.py",
        LONGEST,
    ]
    items = [SimpleNamespace(nodeid=file) for file in files]
    pytest_collection_modifyitems(items)
    assert [item.nodeid for item in items] == [files[at] for at in (4, 3, 0, 5, 2, 6, 1)]
    assert (CHECKOUT / LONGEST).exists()


@pytest.mark.parametrize(("dist", "workers"), [("loadfile", 2 + WAITING_WORKERS), ("load", 2)])
def test_beyond_one_worker_for_each_core_there_are_some_for_files_that_wait(dist, workers):
    config = SimpleNamespace(getoption={"dist": dist}.__getitem__)
    hook = pytest_xdist_auto_num_workers(config)
    next(hook)
    with pytest.raises(StopIteration) as ended:
        hook.send(2)
    assert ended.value.value == workers


def test_a_seed_shuffles_files_and_leaves_what_shares_nodes_together():
    nodeids = [f"tests/ledger/test_{name}.py::test_{number}" for name in "abcdefgh" for number in (2, 1)]
    nodeids += [f"{NODES}test_{name}.py::test_one" for name in ("faults", "uninstall")]
    items = [SimpleNamespace(nodeid=nodeid) for nodeid in nodeids]
    found = [item.nodeid for item in shuffled(items, "7")]
    assert sorted(found) == sorted(nodeids)
    assert found != nodeids
    assert found == [item.nodeid for item in shuffled(items, "7")]
    assert found != [item.nodeid for item in shuffled(items, "8")]
    scopes = [scope(nodeid) for nodeid in found]
    assert sum(one != other for one, other in pairwise(scopes)) == len(set(scopes)) - 1
    for file in "abcdefgh":
        first = found.index(f"tests/ledger/test_{file}.py::test_2")
        assert found[first + 1].endswith(f"test_{file}.py::test_1")
