"""The folder of a machine's tasks."""

import os
from pathlib import Path

import pytest

from baremetal.folder import FolderError, own_folder, state_folder, take_lock


def test_the_folder_is_the_one_that_is_named_or_the_users_own(monkeypatch, tmp_path):
    monkeypatch.delenv("FRACTION_INJECTOR_STATE", raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert state_folder(None) == Path("/var/lib/fraction-injector")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_STATE_HOME", "/home/me/state")
    assert state_folder(None) == Path("/home/me/state/fraction-injector")
    monkeypatch.setenv("FRACTION_INJECTOR_STATE", "/named")
    assert state_folder(None) == Path("/named")
    monkeypatch.chdir(tmp_path)
    assert state_folder(Path("here")) == tmp_path / "here"


def test_only_its_user_can_open_it(tmp_path):
    folder = own_folder(tmp_path / "state")
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_leads_elsewhere_is_refused(tmp_path):
    (tmp_path / "private").symlink_to("/usr")
    with pytest.raises(FolderError, match="name another folder with --state"):
        own_folder(tmp_path)


def test_one_runner_at_a_time_holds_the_lock(tmp_path):
    folder = own_folder(tmp_path)
    lock = take_lock(folder)
    assert take_lock(folder) is None
    os.close(lock)
    again = take_lock(folder)
    assert again is not None
    os.close(again)
