"""The command as a process, over a driver's library with cards of a test's own."""

import os
import signal
import sys
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from baremetal.store import TaskStore
from baremetal.supervisor import BEGUN, take
from testbed.nvidia import library
from testbed.nvidia.cards import Card, NvmlNode
from testbed.process import Process, eventually, tail
from tests.baremetal.support.machine import submission
from tests.product import ROOT

START_S = 600
"""Until a runner that neither serves nor ends has failed, also where the machine is very busy."""


class Lab:
    """A machine with cards, its tasks, and a runner that can be killed and started again."""

    def __init__(self, folder, count):
        if reason := library.why_not():
            pytest.fail(reason)
        self.folder, self.file = folder, folder / "cards"
        self.state = folder / "state" / "private"
        self.state.mkdir(parents=True, mode=0o700)
        self.cards = tuple(Card(f"GPU-{index}", minor=index) for index in range(count))
        self.write(*self.cards)
        self.log = folder / "runner.log"
        self.runner = None

    def write(self, *cards):
        NvmlNode(cards).write(self.file)

    def command(self, *arguments):
        variables = library.environment(self.file) | {"FRACTION_INJECTOR_STATE": str(self.folder / "state")}
        variables |= {"LAB": str(self.folder)}
        pairs = [f"{name}={value}" for name, value in variables.items()]
        command = [sys.executable, "-m", "cli.main", "machine", "run", *arguments]
        return ["/usr/bin/env", f"--chdir={ROOT}", *pairs, *command]

    def start(self, *arguments):
        served = self.served()
        runner = Process(self.command(*arguments), self.log)
        try:
            runner.until_ready(lambda: self.served() > served, START_S)
        except BaseException:
            runner.stop()
            raise
        self.runner = runner

    def served(self):
        return self.log.read_text().count('"event":"serving"') if self.log.exists() else 0

    def kill(self):
        """Kill the runner as kill -9 does; tasks are in sessions of their own."""
        self.runner.stop()

    def submit(self, queue, *command, **more):
        """Submit a task as the command does, but faster."""
        with closing(TaskStore(self.state)) as store:
            env = os.environ | {"LAB": str(self.folder)}
            return store.submit(submission(queue, *command, env=dict(env), **more), 0.0)

    def cancel(self, number):
        with closing(TaskStore(self.state)) as store:
            store.cancel(number, 0.0)

    def tasks(self):
        with closing(TaskStore(self.state)) as store:
            return {task.number: task for task in [*store.running(), *store.waiting(9999), *store.over(9999)]}

    def machine(self):
        with closing(TaskStore(self.state)) as store:
            return store.read_machine()

    def until(self, check, what):
        """Wait for a state of the tasks, and return them."""
        return eventually(
            lambda: tasks if check(tasks := self.tasks()) else None, f"{what}\n{tail(self.log)}"
        )

    def close(self):
        if self.runner is not None:
            self.runner.stop()
        for folder in (self.state / "tasks").glob("*/*"):
            if (folder / BEGUN).exists() or not take(folder, {}):  # what is slow to begin never does
                pid = msgspec.json.decode((folder / BEGUN).read_bytes()).get("pid")
                if pid and str(self.folder).encode() in _command(pid):
                    os.kill(pid, signal.SIGKILL)


def _command(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
