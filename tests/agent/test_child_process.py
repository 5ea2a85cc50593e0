"""Processes of the agent's own, which print what it waits for."""

import asyncio
import os

import pytest

from agent.child_process import ChildError, printed_by
from testbed.process import eventually

FOREVER = "import os, pathlib, signal; pathlib.Path(__file__).with_name('pid').write_text(str(os.getpid()))"


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Writes a module that a child can run."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def write(text):
        (tmp_path / "work.py").write_text(text)
        return "work"

    return write


async def test_the_result_is_what_it_printed(module):
    assert await printed_by(module("import sys; print(sys.argv[1:])"), "one", "two") == b"['one', 'two']\n"


@pytest.mark.parametrize(("argument", "said"), [("'no room'", "no room"), ("3", "exit code 3")])
async def test_one_that_fails_is_an_error_of_its_own_words(module, argument, said):
    with pytest.raises(ChildError, match=said):
        await printed_by(module(f"import sys; sys.exit({argument})"))


async def test_one_whose_reader_is_cancelled_ends(module, tmp_path):
    # Warnings are errors in tests: a pipe or a process that is forgotten would be one.
    reading = asyncio.create_task(printed_by(module(f"{FOREVER}; signal.pause()")))
    pid = tmp_path / "pid"
    await asyncio.to_thread(eventually, lambda: pid.exists() and pid.read_text(), "it runs")
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


async def test_one_that_ends_as_its_reader_is_cancelled_leaves_it_cancelled(module, monkeypatch):
    """An error in place of it would be caught, and a task group would wait for its task forever."""
    ended = asyncio.subprocess.Process.communicate

    async def cancelled(process):
        await ended(process)
        raise asyncio.CancelledError

    monkeypatch.setattr(asyncio.subprocess.Process, "communicate", cancelled)
    with pytest.raises(asyncio.CancelledError):
        await printed_by(module(""))
