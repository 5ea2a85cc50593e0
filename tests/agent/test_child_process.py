"""Processes of the agent's own, which print what it waits for."""

import asyncio
import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agent.child_process import Child, ChildError
from testbed.process import eventually


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Writes a module that a child can run."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def write(text):
        (tmp_path / "work.py").write_text(text)
        return "work"

    return write


def test_its_result_is_what_it_printed(module):
    name = module("import sys; print(sys.argv[1:])")
    assert asyncio.run(Child(name, "one", "two").result()) == b"['one', 'two']\n"


def test_one_that_fails_is_an_error_of_its_own_words(module):
    for text, said in (
        ("import sys; sys.exit('no room')", "no room"),
        ("import sys; sys.exit(3)", "exit code 3"),
    ):
        with pytest.raises(ChildError, match=said):
            asyncio.run(Child(module(text)).result())


FOREVER = "import os, signal; print(os.getpid(), flush=True); signal.pause()"


def gone(pid):
    """Whether a process has ended; a zombie, which only waits for its parent to ask, has."""
    return not Path(f"/proc/{pid}/status").exists() or "State:\tZ" in Path(f"/proc/{pid}/status").read_text()


def pid_of(child):
    return child._process.pid


async def read_and_cancel(name):
    """The pid of a child whose reader was cancelled."""
    child = Child(name)
    reading = asyncio.create_task(child.result())
    await asyncio.sleep(0)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    return pid_of(child)


def test_a_child_without_a_reader_ends_and_leaves_no_open_pipe(module):
    # Warnings are errors in tests: a pipe or a process that is forgotten would be one.
    child = Child(module(FOREVER))
    pid = pid_of(child)
    del child
    assert gone(pid)


def test_one_whose_reader_is_cancelled_ends(module):
    pid = asyncio.run(read_and_cancel(module(FOREVER)))
    eventually(lambda: gone(pid), "it is gone")


def test_one_whose_reader_is_cancelled_before_a_thread_is_free_leaves_nothing(module):
    # Warnings are errors in tests: a process that nobody waited for would be one.
    free = threading.Event()

    async def cancel():
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(max_workers=1))
        busy = loop.run_in_executor(None, free.wait)
        pid = await read_and_cancel(module(FOREVER))
        free.set()
        await busy
        return pid

    assert gone(asyncio.run(cancel()))
    gc.collect()
