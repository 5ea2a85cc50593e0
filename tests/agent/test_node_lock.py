"""The lock by which two agents of one node know of each other, and where nobody else can take it."""

import os
import stat
from pathlib import Path

import pytest

from agent.node_lock import NodeLock
from agent.private_folder import UntrustedError, private_folder


def test_of_two_agents_the_first_holds_it_until_it_ends(tmp_path):
    first, second = NodeLock(tmp_path), NodeLock(tmp_path)
    assert [each.take() for each in (first, first, second)] == [True, True, False]
    first.release()
    assert second.take()
    second.release()


def test_folders_of_its_own_that_were_open_to_others_are_shut(tmp_path):
    private = private_folder(tmp_path)
    private.chmod(0o777)
    tmp_path.chmod(0o777)
    assert NodeLock(tmp_path).take()
    assert stat.S_IMODE(private.stat().st_mode) == 0o700
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755


@pytest.mark.parametrize("name", ["private", "private/agent.lock"])
def test_a_link_in_place_of_the_folder_or_the_file_is_refused(tmp_path, name):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UntrustedError, match=rf"{name} is not a \w+ of the agent's own: remove it"):
        NodeLock(tmp_path).take()
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(
    ("look", "said"),
    [
        ("lstat", "private is not a folder of the agent's own"),
        ("stat", "can be written by others: make it root's, with mode 755"),
    ],
    ids=["the private one", "the state folder"],
)
def test_a_folder_of_another_user_is_refused(tmp_path, monkeypatch, look, said):
    known = getattr(Path, look)

    def of_another_user(path, **more):
        found = known(path, **more)
        return os.stat_result((*found[:4], os.geteuid() + 1, *found[5:]))

    monkeypatch.setattr(Path, look, of_another_user)
    with pytest.raises(UntrustedError, match=said):
        NodeLock(tmp_path).take()


def test_a_lock_that_cannot_be_created_stops_no_agent():
    assert NodeLock(Path("/dev/null/none")).take()
