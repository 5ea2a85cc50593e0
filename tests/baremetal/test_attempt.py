"""One attempt: what became of it, and what it leaves."""

import errno
import os
import signal
import subprocess
from pathlib import Path

import msgspec
import pytest

from baremetal import attempt as attempts
from baremetal.attempt import Attempt, Exit
from baremetal.job import MARK, JobFile
from baremetal.supervisor import BEGUN, stat_of
from testbed.process import eventually

NO_SESSION = "999999999"
"""More than the kernel's largest number of a process."""


@pytest.fixture
def attempt(tmp_path):
    made = Attempt(tmp_path / "1", f"{os.getpid()}-{tmp_path.name}/1/1")
    yield made
    if (tmp_path / "1" / BEGUN).exists():
        eventually(made.sweep, "nothing is left")


def job(*command, **more):
    return JobFile(command=command, folder="/", env=dict(os.environ), **more)


def running(attempt):
    eventually((attempt.folder / BEGUN).exists, "the begin")
    return attempt.state()


def killed(attempt, made):
    started = attempt.start(made)
    assert running(attempt) == "running"
    os.kill(started.pid, signal.SIGKILL)
    started.wait()


def why_lost(attempt):
    state = attempt.state()
    assert isinstance(state, Exit)
    assert state.code is None
    return state.why


def test_a_supervisor_that_was_killed_has_vanished_and_all_of_its_session_is_swept_away(attempt):
    killed(attempt, job("sh", "-c", "(sleep 1000 & echo $! > pid; wait) & wait"))
    assert why_lost(attempt) == "its supervisor was killed"
    eventually(attempt.sweep, "nothing is left")
    begun = attempt._begun()
    assert list(attempt._processes(str(begun["pid"]), begun["start_time"])) == []


def test_what_went_into_a_session_of_its_own_is_found_by_its_mark(attempt, tmp_path):
    own = dict(os.environ) | {MARK: attempt.mark}
    script = (
        f"setsid sh -c 'echo $$ > {tmp_path}/new; mv {tmp_path}/new {tmp_path}/pid; exec sleep 1000' & wait"
    )
    started = attempt.start(JobFile(command=("sh", "-c", script), folder="/", env=own))
    eventually((tmp_path / "pid").exists, "the process")
    os.kill(started.pid, signal.SIGKILL)
    started.wait()
    eventually(attempt.sweep, "nothing is left")
    assert stat_of(int((tmp_path / "pid").read_text())) is None


def test_after_a_reboot_what_ran_has_vanished_whoever_has_its_number_now(attempt, monkeypatch):
    started = attempt.start(job("sleep", "1000"))
    running(attempt)
    monkeypatch.setattr(attempts, "boot_id", lambda: "another")
    assert why_lost(attempt) == "the machine went down while it ran"
    assert attempt.sweep()
    assert stat_of(started.pid) is not None
    monkeypatch.undo()
    os.kill(started.pid, signal.SIGKILL)
    started.wait()


def taken_over_by(attempt, pid):
    """A supervisor that has ended, and whose number another process has by now."""
    begun = attempt.folder / BEGUN
    begun.write_bytes(msgspec.json.encode(msgspec.json.decode(begun.read_bytes()) | {"pid": pid}))


def test_a_number_that_another_process_has_by_now_is_not_taken_for_the_supervisor(attempt):
    attempt.start(job("true")).wait()
    taken_over_by(attempt, os.getpid())
    (attempt.folder / "exit.json").unlink()
    assert why_lost(attempt) == "its supervisor was killed"


def test_a_session_that_has_the_number_of_a_supervisor_by_now_is_left_alone(attempt):
    attempt.start(job("true")).wait()
    # Later than the supervisor by more than a tick of the kernel's clock.
    stranger = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    taken_over_by(attempt, stranger.pid)
    assert attempt.sweep()
    assert stranger.poll() is None
    stranger.kill()
    stranger.wait()


def test_a_systemd_that_does_not_answer_does_not_hold_the_runner_up(attempt, monkeypatch):
    killed(attempt, job("sleep", "1000"))

    def hang(command, *, timeout=None, **_):
        assert timeout
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(attempts, "has_scopes", lambda: True)
    monkeypatch.setattr(subprocess, "run", hang)
    eventually(attempt.sweep, "nothing is left")


def test_the_job_is_on_the_disk_before_anything_starts(attempt, monkeypatch):
    synced = []
    known = os.fsync

    def fsync(file):
        synced.append(str(Path(f"/proc/self/fd/{file}").readlink()))
        known(file)

    monkeypatch.setattr(os, "fsync", fsync)
    found = []
    start = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda *a, **k: found.extend(synced) or start(*a, **k))
    attempt.start(job("true")).wait()
    assert found[1:] == [str(each) for each in (attempt.folder, *attempt.folder.parents[:3])]
    assert found[0].startswith(f"{attempt.folder}/.job.json.")


def test_a_container_whose_supervisor_was_killed_is_removed_or_holds_its_card(attempt):
    killed(attempt, job("sleep", "1000", cleanup=("sh", "-c", "exit 1")))
    assert not any(attempt.sweep() for _ in range(3))
    (attempt.folder / "job.json").write_text('{"cleanup": ["true"]}')
    eventually(attempt.sweep, "it is removed")


def test_where_systemd_runs_an_attempt_has_a_scope_of_its_own(attempt, tmp_path, monkeypatch):
    """systemd-run starts the program in its own place, as this stand-in does."""
    tool = tmp_path / "systemd-run"
    tool.write_text(
        '#!/bin/sh\necho "$@" > "${0%/*}/said"\nwhile [ "$1" != -- ]; do shift; done\nshift\nexec "$@"\n'
    )
    tool.chmod(0o755)
    (tmp_path / "systemctl").symlink_to("/bin/true")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(attempts, "has_scopes", lambda: True)
    attempt.start(job("true")).wait()
    assert attempt.state().code == 0
    said = (tmp_path / "said").read_text()
    unit = f"fraction-injector-{attempt.mark.replace('/', '-')}.scope"
    assert f"--scope --quiet --collect --unit={unit} -- " in said


def test_where_systemd_gives_a_user_no_scopes_attempts_go_without(tmp_path, monkeypatch):
    """Such as a user without a session: systemd-run fails, and no task could ever begin."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(attempts, "SYSTEMD", tmp_path)
    asked = attempts.has_scopes.__wrapped__
    assert not asked()
    for program, given in (("false", False), ("true", True)):
        (tmp_path / "systemd-run").unlink(missing_ok=True)
        (tmp_path / "systemd-run").symlink_to(f"/bin/{program}")
        assert asked() == given
    monkeypatch.setattr(attempts, "SYSTEMD", tmp_path / "none")
    assert not asked()


def test_another_users_process_that_cannot_be_killed_holds_the_card(attempt, monkeypatch):
    started = attempt.start(job("sleep", "1000"))
    running(attempt)
    monkeypatch.setattr(Attempt, "_processes", lambda *_: iter([1]))
    monkeypatch.setattr(os, "kill", refuse)
    assert not attempt.sweep()
    monkeypatch.undo()
    attempt.end()
    started.wait()


def refuse(*_):
    raise PermissionError(1, "Operation not permitted")


def test_variables_that_are_no_utf_8_reach_the_command_as_they_are(attempt):
    env = dict(os.environ) | {"ODD": os.fsdecode(b"\xff")}
    attempt.start(JobFile(command=("sh", "-c", "printf %s $ODD"), folder="/", env=env)).wait()
    assert (attempt.folder / "log").read_bytes() == b"\xff"


def test_a_process_that_is_hidden_is_passed_over_and_one_that_cannot_be_read_is_reported(
    attempt, monkeypatch
):
    hide_variables(monkeypatch, PermissionError(1, "hidden"))
    assert list(attempt._processes(NO_SESSION, 0)) == []
    # As where descriptors ran out: it may be one of ours, that still uses the card.
    hide_variables(monkeypatch, OSError(errno.EMFILE, "Too many open files"))
    with pytest.raises(OSError, match="Too many open files"):
        list(attempt._processes(NO_SESSION, 0))


def hide_variables(monkeypatch, error):
    """Have the variables of no process be read."""
    known = Path.read_bytes

    def read(path):
        if path.name == "environ":
            raise error
        return known(path)

    monkeypatch.setattr(Path, "read_bytes", read)
