"""The process of `run-queues`: runs the tasks of a machine until SIGTERM.

Tasks go on when it stops or is killed. The next one adopts them.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from agent.cdi import CdiError
from agent.gpu import GpuSource, GpuSourceError
from agent.policy_compiler import part_for_nodes
from baremetal.attempt import SYSTEMD, Attempt, has_scopes
from baremetal.clearml_queues import ClearmlError, ClearmlServer, Mirror
from baremetal.container import ContainerJobs, find_runtime
from baremetal.job import JobFile, ShareLimits, process_job, shares
from baremetal.machine import Machine, MachineReport
from baremetal.queues import ServedQueue, chosen
from baremetal.runner import Runner, attempt_folder
from baremetal.store import TASKS, StoreError, TaskStore, own_folder, take_lock
from baremetal.task import Task
from policies.model.effective import EffectivePolicy
from service.log import get_logger

KEEP_SECONDS = 30 * 86400.0
"""Tasks that ended earlier are forgotten, with their logs."""
FORGET_SECONDS, RETRY_SECONDS, CHECK_SECONDS = 3600.0, 5.0, 5.0
LOCK_TRIES, LOCK_PAUSE_SECONDS = 20, 0.1
"""`tasks` and `doctor` hold the lock for a moment, to see whether a runner does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerOptions:
    """How `run-queues` is started."""

    gpus: Collection[int] | None
    """Numbers of cards; None for all."""
    queues: Sequence[ServedQueue]
    state: Path
    policy: EffectivePolicy
    limiter_library: Path | None = None
    runtime: str | None = None
    """Container runtime; None for the first that is there."""
    cdi_dirs: Sequence[str] = ()
    clearml: bool = False
    """Whether the queues are ClearML's, too."""
    page_port: int | None = None
    """None for no page."""


class CannotRunError(Exception):
    """The runner cannot start; the text says why, in one line."""


def run_machine(options: RunnerOptions, source: Callable[[], GpuSource]) -> None:
    """Run the tasks of a machine until SIGTERM or SIGINT.

    Args:
        options: of the command line.
        source: opens the driver.

    Raises:
        CannotRunError: something that the command line names cannot be used.
    """
    try:
        folder = own_folder(options.state)
        _lock(folder)
        _Process(options, folder, source()).run()
    except (ValueError, OSError, StoreError, GpuSourceError, CdiError, ClearmlError) as error:
        raise CannotRunError(str(error)) from error


def _lock(folder: Path) -> None:
    """Take the lock of the runner until the process ends."""
    for _ in range(LOCK_TRIES):
        if take_lock(folder) is not None:
            return
        time.sleep(LOCK_PAUSE_SECONDS)
    raise CannotRunError(f"another runner works in {folder.parent}")


class _Process:
    """A runner with all that it works with."""

    def __init__(self, options: RunnerOptions, folder: Path, driver: GpuSource) -> None:
        self._options = options
        self._folder = folder
        self._driver = driver
        with contextlib.closing(TaskStore(folder)) as store:
            self._find_cards(store)
            self._check(store)
            self._identity = store.identity()
        self._limits = _limits(options.policy, options.limiter_library)
        self._containers: ContainerJobs | None = None
        if any(queue.image is not None for queue in options.queues):
            runtime = find_runtime(options.runtime)
            self._containers = ContainerJobs(runtime, self._limits, self._cards, folder, options.cdi_dirs)
        self._reported: MachineReport | None = None
        self._forgot_at = float("-inf")
        self._stopping = False
        self._log = get_logger("run-queues")

    def run(self) -> None:
        """Run until a signal; begin again where the store could not be used, as where the disk was full."""
        for signum in (signal.SIGTERM, signal.SIGINT):
            signal.signal(signum, self._stop)
        self._look()
        threading.Thread(target=self._watch, name="cards", daemon=True).start()
        if self._options.clearml:
            read, names = ClearmlServer().entries, [queue.name for queue in self._options.queues]
            threading.Thread(
                target=Mirror(read, names, self._folder).run, name="clearml", daemon=True
            ).start()
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
        queues, name = self._options.queues, socket.gethostname()
        machine = Machine(name, self._cards, self._options.policy.slices_per_gpu)
        with contextlib.closing(
            Runner(store, machine, queues, self._attempt, self._job, lambda: self._faults)
        ) as runner:
            self._report(store, name)
            runner.adopt()
            gpus = [card.index for card in self._cards]
            self._log.info("serving", gpus=gpus, queues=[queue.name for queue in queues])
            while not self._stopping:
                self._report(store, name)
                self._forget(store)
                runner.step()
                runner.wait()

    def _stop(self, *_: object) -> None:
        self._stopping = True

    def _watch(self) -> None:
        """Ask for the cards in a thread: a lost card can block who asks."""
        while True:
            time.sleep(CHECK_SECONDS)
            self._look()

    def _look(self) -> None:
        found = {card.index: self._driver.condition_of(card.uuid).why_unhealthy for card in self._cards}
        self._faults = self._lost | {index: why for index, why in found.items() if why is not None}

    def _report(self, store: TaskStore, name: str) -> None:
        report = MachineReport(
            name=name,
            cards=self._cards,
            slices_per_gpu=self._options.policy.slices_per_gpu,
            queues={each.name: (each.share, each.fraction.slices) for each in self._options.queues},
            faults=self._faults,
            warnings=tuple(self._warnings()),
        )
        if report != self._reported:
            store.write_machine(report)
            self._reported = report

    def _warnings(self) -> Iterator[str]:
        why, queues = self._limits.why_processes_are_unlimited, self._options.queues
        if why is not None and any(not each.fraction.is_whole and each.image is None for each in queues):
            yield f"{why}: a process can use all memory of its GPU; name the library with --limiter-library"
        if SYSTEMD.exists() and not has_scopes():
            yield "systemd gives this user no scopes: tasks end when the service of run-queues stops"

    def _forget(self, store: TaskStore) -> None:
        """Remove tasks that ended long ago, and folders that a runner left that was killed meanwhile."""
        if time.monotonic() - self._forgot_at < FORGET_SECONDS:
            return
        self._forgot_at = time.monotonic()
        store.forget(time.time() - KEEP_SECONDS)
        for each in (self._folder / TASKS).glob("[0-9]*"):
            if store.task(int(each.name)) is None:
                shutil.rmtree(each, ignore_errors=True)

    def _attempt(self, task: Task) -> Attempt:
        mark = f"{self._identity}/{task.number}/{task.attempt}"
        return Attempt(attempt_folder(self._folder / TASKS, task), mark)

    def _job(self, task: Task) -> JobFile:
        attempt, queue = self._attempt(task), task.submission.queue
        given = shares(task, {card.index: card for card in self._cards}, self._limits.policy)
        image = next((each.image for each in self._options.queues if each.name == queue), None)
        if image is not None and self._containers is not None:
            return self._containers.job(task, given, attempt.mark, image)
        return process_job(task, given, self._limits, attempt.mark, attempt.folder)

    def _find_cards(self, store: TaskStore) -> None:
        """Find the cards to give, and say why those that were given before are not."""
        before, wanted = store.read_machine(), self._options.gpus
        known = {*(card.index for card in before.cards), *before.faults} if before is not None else set()
        self._cards = chosen(self._driver.list_gpus(), wanted, known)
        # With "all" nobody says which there should be, except tasks that still run.
        held = {index for task in store.running() for index in task.indices}
        lost = set(held if wanted is None else wanted) - {card.index for card in self._cards}
        self._lost = dict.fromkeys(sorted(lost), "the driver does not list it")

    def _check(self, store: TaskStore) -> None:
        policy, cards = self._options.policy, len(self._cards) + len(self._lost)
        for queue in self._options.queues:
            if (count := queue.fraction.gpus) > cards:
                raise CannotRunError(f'queue "{queue.name}" asks for {count} cards, and --gpus gives {cards}')
        per_gpu = policy.slices_per_gpu
        if others := [task.number for task in store.running() if task.slices_per_gpu != per_gpu]:
            raise CannotRunError(
                f"task {others[0]} runs with slices of another size than those of policy"
                f' "{policy.name}": wait for it, or start a runner with the former policy and cancel it'
            )


def _limits(policy: EffectivePolicy, library: Path | None) -> ShareLimits:
    part = part_for_nodes(replace(policy, limits_from="agent"))
    if library is not None and not library.is_file():
        raise CannotRunError(f"--limiter-library {library} is no file")
    usual = Path(part.limiter.preload) if part.limiter.preload is not None else None
    found = library or (usual if usual is not None and usual.is_file() else None)
    return ShareLimits(part, policy.limiter, str(found) if found is not None else None)
