"""What `machine run` finds when it starts: a command line, cards, another runner, tasks of before."""

import re
from contextlib import closing
from dataclasses import replace
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from agent.node_lock import NodeLock
from baremetal import process
from baremetal.machine import Start
from baremetal.process import CannotRunError, RunnerOptions, run_machine
from baremetal.store import LOCK, TASKS, TaskStore, own_folder
from cli.app import app
from testbed.nvidia.cards import Card, NvmlNode
from tests.agent.support.nvml_library import NvmlLibrary, in_use
from tests.baremetal.support.machine import policy, served, submission
from tests.product import ROOT

CARDS = tuple(Card(f"GPU-{index}", minor=index) for index in range(3))


@pytest.fixture
def driver():
    library = NvmlLibrary()
    library.node = NvmlNode(CARDS)
    with in_use(library):
        yield library


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("--queue x=1.25", 'queue "x" asks for 1.25: use 0.125, 0.250'),
        ("--gpus 0-3 --queue x=1", "--gpus names 3, which the driver does not list: it has 0, 1, 2"),
        ("--gpus 0 --queue x=2", 'queue "x" asks for 2 cards, and --gpus gives 1'),
        ("--queue x=1 --policy none", 'has no policy "none": name one with --policy'),
        ("--queue x=1 --limiter-library /no", "--limiter-library /no is no file"),
        ("--queue a=1 --queue b=1 c=1", "write it once, with all queues after it"),
        ("--clearml --queue x=1 --image x=y", "--image cannot be used with --clearml"),
    ],
)
def test_a_command_line_that_cannot_be_served_ends_with_one_line(driver, tmp_path, arguments, said):
    ended = CliRunner().invoke(app, ["machine", "run", f"--state={tmp_path}", *arguments.split()])
    assert ended.exit_code == 2
    assert re.fullmatch(f"fraction-injector: .*{re.escape(said)}.*\n", ended.output)


def block(language):
    page = (ROOT / "docs/getting-started/bare-metal.md").read_text()
    return re.search(f"```{language}\n(.*?)```", page, re.DOTALL)[1]


def test_the_documented_service_runs_what_the_documented_file_says_and_what_is_typed_wins(
    driver, tmp_path, monkeypatch
):
    found = []
    monkeypatch.setattr(process, "run_machine", found.append)
    [command] = re.findall(r"^ExecStart=\S+/fraction-injector (.*)$", block("ini"), re.MULTILINE)
    [named] = re.findall(r"^# (/\S+)$", block("yaml"), re.MULTILINE)
    (tmp_path / "file.yaml").write_text(block("yaml"))
    command = command.replace(named, str(tmp_path / "file.yaml")).split()
    for typed in ([], ["--queue", "a=1", "--gpus", "0"]):
        assert CliRunner().invoke(app, [*command, *typed]).exit_code == 0
    assert [(each.gpus, {queue.name: queue.fraction.slices for queue in each.queues}) for each in found] == [
        ((0, 1, 2), {"half_gpu": 4, "single_gpu": 8}),
        ((0,), {"a": 8}),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("queue: {a: 1}\ngpu: all", ':2: gpu: is no option of `machine run` (did you mean "gpus"?)'),
        ("queue: [a=1]", ":1: queue: must be a mapping from names of queues"),
        ("gpus: [0, 1]", ":1: gpus: must be one value"),
        ("gpus: 0\ngpus: 1", ':2: key "gpus" is duplicate (first on line 1): keep one'),
        ("- gpus", " must be one mapping, such as `queue: {half_gpu: 0.5}`"),
    ],
)
def test_a_file_of_options_that_is_wrong_is_refused_with_its_line(tmp_path, text, said):
    (tmp_path / "file.yaml").write_text(text)
    ended = CliRunner().invoke(app, ["machine", "run", "--config", f"{tmp_path}/file.yaml"])
    assert (ended.exit_code, ended.output.endswith(f"{tmp_path}/file.yaml{said}\n")) == (2, True)


def options(folder, *queues, gpus=None):
    return RunnerOptions(gpus=gpus, queues=served(*queues), state=folder, policy=policy())


def test_a_second_runner_on_the_same_tasks_is_refused_but_not_for_a_command_that_looks(tmp_path, monkeypatch):
    first = NodeLock(tmp_path, LOCK)
    assert first.take()
    monkeypatch.setattr(process, "LOOK_SECONDS", 0)
    with pytest.raises(CannotRunError, match=f"another runner works in {tmp_path}"):
        run_machine(options(tmp_path, "x=1"))
    monkeypatch.setattr(process, "time", SimpleNamespace(sleep=lambda _: first.release()))
    monkeypatch.setattr(process, "_Process", lambda *_: (_ for _ in ()).throw(ValueError("it works")))
    with pytest.raises(CannotRunError, match="it works"):
        run_machine(options(tmp_path, "x=1"))


@pytest.fixture
def store(tmp_path):
    with closing(TaskStore(own_folder(tmp_path))) as opened:
        yield opened


def start(tmp_path, store, *queues, gpus=None):
    """What a runner finds when it starts; those who ask find it in the store."""
    found = process._Process(options(tmp_path, *queues, gpus=gpus), own_folder(tmp_path))
    found._look()
    store.write_machine(found._machine)
    return found


def begin(store, found, *indices):
    [queue, *_] = found._options.queues
    number = store.submit(submission(queue.name), 0.0)
    cards = tuple(card for card in found._machine.cards if card.index in indices)
    store.begin(Start(number, queue, cards), 1.0)


def test_a_card_that_nvml_loses_goes_out_of_service_and_stays_so(driver, tmp_path, store):
    found = start(tmp_path, store, "x=1", gpus={0, 1})
    assert found._faults == {}
    driver.node = NvmlNode((replace(CARDS[0], lost=True), *CARDS[1:]))
    found._look()
    assert found._faults == {"GPU-0": "GPU 0 is out of service: it does not answer"}
    again = start(tmp_path, store, "x=1", gpus={0, 1})
    assert [card.index for card in again._machine.cards] == [1]
    assert again._faults == {"GPU-0": "GPU-0 is out of service: the driver does not list it"}


def test_where_no_cards_are_named_one_that_a_task_has_is_missed(driver, tmp_path, store):
    found = start(tmp_path, store, "x=1")
    driver.node = NvmlNode((CARDS[0], replace(CARDS[1], lost=True), CARDS[2]))
    assert start(tmp_path, store, "x=1")._faults == {}
    begin(store, found, 1)
    lost = {"GPU-1": "GPU-1 is out of service: the driver does not list it"}
    assert start(tmp_path, store, "x=1")._faults == lost


def test_old_tasks_are_forgotten_with_their_logs_also_those_of_a_runner_that_was_killed_meanwhile(
    tmp_path, store
):
    [old, left] = [store.submit(submission("x"), 0.0) for _ in range(2)]
    store.cancel(old, 0.0)  # in 1970
    for number in (old, left, 99):
        (tmp_path / TASKS / str(number) / "1").mkdir(parents=True)
    process._forget(store, tmp_path)
    assert [each.name for each in (tmp_path / TASKS).iterdir()] == [str(left)]
    assert (store.task(old), store.task(left).number) == (None, left)
