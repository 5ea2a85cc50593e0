"""The process of `machine run`: runs the tasks of a machine until SIGTERM.

Tasks go on when it stops or is killed. The next one adopts them.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import socket
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

import msgspec

from agent.cdi import CdiError
from agent.gpu import GpuSourceError
from agent.node_lock import NodeLock
from agent.nvml import Nvml
from agent.policy_compiler import part_for_nodes
from agent.private_folder import UntrustedError
from baremetal.attempt import SYSTEMD, Attempt, has_scopes
from baremetal.clearml_queues import ClearmlError, ClearmlQueues, log_in
from baremetal.container import CDI_DIRS, ContainerJobs, find_runtime
from baremetal.job import JobFile, ShareLimits, process_job, shares
from baremetal.machine import Machine
from baremetal.queues import ServedQueue, chosen, numbers_of
from baremetal.runner import Runner
from baremetal.store import LOCK, TASKS, StoreError, TaskStore, own_folder
from baremetal.task import Task
from policies.model.effective import EffectivePolicy
from service.log import get_logger

KEEP_SECONDS = 30 * 86400.0
"""Tasks that ended earlier are forgotten, with their logs."""
RETRY_SECONDS, CHECK_SECONDS, POLL_SECONDS, FORGET_TURNS = 5.0, 5.0, 0.5, 7200
LOOK_SECONDS = 0.5
"""Longer than `tasks` or `doctor` hold the lock, to see whether a runner does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerOptions:
    """How `machine run` is started; `gpus` are numbers of cards.

    None stands for all cards, for the first container runtime that is there, and for no page.
    """

    gpus: Collection[int] | None
    queues: Sequence[ServedQueue]
    state: Path
    policy: EffectivePolicy
    limiter_library: Path | None = None
    runtime: str | None = None
    clearml: bool = False
    page_port: int | None = None


class CannotRunError(Exception):
    """The runner cannot start; the text says why, in one line."""


def run_machine(options: RunnerOptions) -> None:
    """Run the tasks of a machine until SIGTERM or SIGINT.

    Raises:
        CannotRunError: something that the command line names cannot be used.
    """
    try:
        folder, lock = own_folder(options.state), NodeLock(options.state, LOCK)
        if not lock.take():
            time.sleep(LOOK_SECONDS)
            if not lock.take():
                raise CannotRunError(f"another runner works in {options.state}")
        _Process(options, folder).run()
    except (OSError, ValueError, UntrustedError, StoreError, GpuSourceError, CdiError, ClearmlError) as error:
        raise CannotRunError(str(error)) from error


class _Process:
    """A runner with all that it works with."""

    def __init__(self, options: RunnerOptions, folder: Path) -> None:
        self._options = options
        self._folder = folder
        self._driver = Nvml()
        self._limits = _limits(options.policy, options.limiter_library)
        self._lost: dict[str, str] = {}
        with contextlib.closing(TaskStore(folder)) as store:
            self._machine = self._found(store)
        self._containers: ContainerJobs | None = None
        if any(queue.image is not None for queue in options.queues):
            runtime, cards = find_runtime(options.runtime), self._machine.cards
            self._containers = ContainerJobs(runtime, self._limits, cards, folder, CDI_DIRS)
        self._stopping = False
        self._log = get_logger("machine")

    def run(self) -> None:
        """Run until a signal; begin again where the store could not be used, as where the disk was full."""
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGINT, self._stop)
        self._look()
        threading.Thread(target=self._watch, name="cards", daemon=True).start()
        if self._options.clearml:
            queues = ClearmlQueues(log_in(), [queue.name for queue in self._options.queues])
            threading.Thread(target=queues.follow, args=(self._folder,), name="clearml", daemon=True).start()
        if self._options.page_port is not None:
            from baremetal.page import start_page  # noqa: PLC0415 a web server that few runners need

            start_page(self._folder, self._options.page_port)
        while not self._stopping:
            try:
                with contextlib.closing(TaskStore(self._folder)) as store:
                    self._serve(store)
            except StoreError as error:
                self._log.error("nothing starts until tasks can be written", error=str(error))
                time.sleep(RETRY_SECONDS)
        self._log.info("stopped: tasks go on, and the next runner adopts them")

    def _serve(self, store: TaskStore) -> None:
        machine = msgspec.structs.replace(self._machine, faults=self._faults)
        runner = Runner(store, machine, self._folder, self._job)
        runner.adopt()
        gpus = [card.index for card in machine.cards]
        self._log.info("serving", gpus=gpus, queues=[queue.name for queue in machine.queues])
        for turn in count():
            if self._stopping:
                return
            if turn % FORGET_TURNS == 0:
                _forget(store, self._folder)
            runner.step(self._faults)
            time.sleep(POLL_SECONDS)

    def _stop(self, *_: object) -> None:
        self._stopping = True

    def _watch(self) -> None:
        """Ask for the cards in a thread: a lost card can block who asks."""
        while True:
            time.sleep(CHECK_SECONDS)
            self._look()

    def _look(self) -> None:
        cards = [(card, self._driver.condition_of(card.uuid).why_unhealthy) for card in self._machine.cards]
        found = {card.uuid: f"GPU {card.index} is out of service: {why}" for card, why in cards if why}
        self._faults = self._lost | found

    def _job(self, task: Task, attempt: Attempt) -> JobFile:
        queue = next(each for each in self._options.queues if each.name == task.submission.queue)
        given = shares(task, self._machine.cards, self._limits.policy)
        if queue.image is not None and self._containers is not None:
            return self._containers.job(task, given, attempt.mark, queue.image)
        return process_job(task, given, self._limits, attempt.mark, attempt.folder)

    def _found(self, store: TaskStore) -> Machine:
        """Return the machine, and note which cards it should have and has not."""
        wanted, before, gpus = self._options.gpus, store.read_machine(), self._driver.list_gpus()
        # With "all" nobody says which cards there should be, except tasks that still run.
        known = before.numbers if before is not None and wanted is not None else {}
        numbers = numbers_of(gpus, known)
        cards = chosen(gpus, wanted, numbers)
        named = {numbers[number] for number in wanted or ()}.union(*[task.gpus for task in store.running()])
        for uuid in sorted(named - {gpu.uuid for gpu in gpus}):
            self._lost[uuid] = f"{uuid} is out of service: the driver does not list it"
        there = len(cards) + len(self._lost)
        for queue in self._options.queues:
            if (wanted_cards := queue.fraction.gpus) > there:
                raise CannotRunError(
                    f'queue "{queue.name}" asks for {wanted_cards} cards, and --gpus gives {there}'
                )
        return Machine(
            name=socket.gethostname(),
            cards=cards,
            slices_per_gpu=self._options.policy.slices_per_gpu,
            queues=tuple(self._options.queues),
            numbers=numbers,
            warnings=tuple(_warnings(self._limits, self._options.queues)),
        )


def _forget(store: TaskStore, folder: Path) -> None:
    """Remove tasks that ended long ago, and folders that a runner left that was killed meanwhile."""
    store.forget(time.time() - KEEP_SECONDS)
    for each in (folder / TASKS).glob("[0-9]*"):
        if store.task(int(each.name)) is None:
            shutil.rmtree(each, ignore_errors=True)


def _warnings(limits: ShareLimits, queues: Sequence[ServedQueue]) -> Iterator[str]:
    why = limits.why_processes_are_unlimited
    if why is not None and any(not each.fraction.is_whole and each.image is None for each in queues):
        yield f"{why}: a process can use all memory of its GPU; name the library with --limiter-library"
    if SYSTEMD.exists() and not has_scopes():
        yield "systemd gives this user no scopes: tasks end when the service of `machine run` stops"


def _limits(policy: EffectivePolicy, library: Path | None) -> ShareLimits:
    part = part_for_nodes(replace(policy, limits_from="agent"))
    if library is not None and not library.is_file():
        raise CannotRunError(f"--limiter-library {library} is no file")
    usual = Path(part.limiter.preload) if part.limiter.preload is not None else None
    found = library or (usual if usual is not None and usual.is_file() else None)
    return ShareLimits(part, policy.limiter, str(found) if found is not None else None)
