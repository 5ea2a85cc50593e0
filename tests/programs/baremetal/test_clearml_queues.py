"""ClearML's queues, mirrored by ClearML's own client over HTTP."""

import importlib.util
import os
import re
from contextlib import contextmanager

import pytest

from baremetal.clearml_queues import MAX_MIRRORED, MAX_READ
from baremetal.task import OVER
from testbed.nvidia.cards import Card
from testbed.process import ProcessError, eventually
from tests.programs.baremetal.clearml import CREATED, serving
from tests.programs.baremetal.processes import Lab


@pytest.fixture
def lab(tmp_path, monkeypatch):
    if importlib.util.find_spec("clearml") is None:
        reason = "there is no package clearml, ClearML's own client"
        pytest.fail(reason)
    agent = tmp_path / "bin" / "clearml-agent"
    agent.parent.mkdir()
    agent.write_text(f'#!/bin/sh\necho "$@" "$CUDA_VISIBLE_DEVICES" >> {tmp_path}/ran\n')
    agent.chmod(0o755)
    monkeypatch.setenv("PATH", f"{agent.parent}:{os.environ['PATH']}")
    made = Lab(tmp_path, 0)
    made.write(Card("GPU-0"), Card("GPU-1", minor=1))
    yield made
    made.close()


@contextmanager
def served(monkeypatch):
    """A server that the client is configured for."""
    with serving() as server:
        for name, value in server.env.items():
            monkeypatch.setenv(name, value)
        yield server


def test_clearmls_own_client_reads_the_queues_and_its_agent_gets_the_cards(lab, monkeypatch):
    with served(monkeypatch) as server:
        server.queues = {
            "dual": [("task-1", CREATED)],
            "half-a.b": [("task-2", CREATED), *_many(MAX_MIRRORED)],
            "more-half-a.b-more": [("other", CREATED)],
            "half-a-b": [("other", CREATED)],
        }
        lab.start("--clearml", "--queue", "dual=2", "half-a.b=0.5")
        ran = lab.folder / "ran"
        named = (" task-1 ", " task-2 ")
        eventually(lambda: ran.exists() and all(each in ran.read_text() for each in named), "tasks run")
        lines = set(ran.read_text().splitlines())
    assert "execute --require-queue --gpus 0,1 --id task-1 0,1" in lines
    assert any(re.fullmatch(r"execute --require-queue --gpus [01] --id task-2 [01]", line) for line in lines)
    tasks = lab.until(lambda tasks: all(task.state in OVER for task in tasks.values()), "they end")
    assert len(tasks) == 1 + MAX_MIRRORED
    assert {body.get("max_task_entries") for action, body in server.asked if "queues" in action} == {MAX_READ}
    assert {task.state for task in tasks.values()} == {"succeeded"}


def _many(count):
    return [(f"more-{number}", CREATED) for number in range(count)]


def test_a_server_that_refuses_us_is_said_in_one_line(lab, monkeypatch):
    with served(monkeypatch):
        monkeypatch.setenv("CLEARML_API_SECRET_KEY", "wrong")
        said = r"ClearML's server cannot be used: LoginError: .*unauthorized \(invalid credentials\)"
        with pytest.raises(ProcessError, match=said):
            lab.start("--clearml", "--queue", "half=0.5")


def test_a_queue_that_clearml_does_not_have_is_logged_and_others_are_served(lab, monkeypatch):
    with served(monkeypatch) as server:
        server.queues = {"half": [("task-1", CREATED)], "gone-too": []}
        lab.start("--clearml", "--queue", "half=0.5", "gone=1")
        lab.until(lambda tasks: any(task.state in OVER for task in tasks.values()), "a task of the other")
        eventually(lambda: 'ClearML has no queue \\"gone\\"' in lab.log.read_text(), "the log")
