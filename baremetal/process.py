"""The process of `run-queues`: reads policy and cards, then runs tasks until SIGTERM.

Tasks go on when it stops or is killed. The next one adopts them.
"""

from __future__ import annotations

import contextlib
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from agent.cdi import CdiError
from agent.gpu import Gpu as Card
from agent.gpu import GpuSource, GpuSourceError
from agent.policy_compiler import part_for_nodes
from baremetal.attempt import Attempt
from baremetal.cards import CardsError, CardWatch, chosen
from baremetal.clearml_queues import ClearmlError, ClearmlMirror, ClearmlServer
from baremetal.container import ContainerJobs, find_runtime
from baremetal.folder import TASKS, FolderError, own_folder, take_lock
from baremetal.job import JobFile, ShareLimits, process_job, shares
from baremetal.machine import Machine
from baremetal.queues import ServedQueue, read_gpus, read_queues
from baremetal.report import MachineReport
from baremetal.runner import Runner, attempt_folder, remove_folder
from baremetal.store import StoreError, TaskStore
from baremetal.task import Task
from modes.units import Gpu
from policies.loading.loader import load_policies
from policies.model.effective import EffectivePolicy
from policies.model.problems import PolicyError
from service.log import get_logger

KEEP_DAYS = 30
"""Tasks that ended earlier are forgotten, with their logs, when a runner starts."""
CDI_DIRS = ("/etc/cdi", "/var/run/cdi")
"""Where podman and docker read CDI specifications."""
_DAY = 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerOptions:
    """How `run-queues` is started."""

    gpus: str
    queues: Sequence[str]
    images: Mapping[str, str]
    state: Path
    policies: Path
    policy: str
    limiter_library: Path | None
    runtime: str | None = None
    """Container runtime; None for the first of `RUNTIMES` that is there."""
    cdi_dirs: tuple[str, ...] = CDI_DIRS
    clearml: bool = False
    """Whether the queues are ClearML's, too."""
    keep_days: int = KEEP_DAYS


class CannotRunError(Exception):
    """The runner cannot start; the text says why, in one line."""


def run(options: RunnerOptions, source: Callable[[], GpuSource]) -> None:
    """Run the tasks of a machine until SIGTERM or SIGINT.

    Args:
        options: of the command line.
        source: opens the driver.

    Raises:
        CannotRunError: something that the command line names cannot be used.
    """
    with _said(ValueError, StoreError, FolderError, CardsError, GpuSourceError, PolicyError):
        folder = own_folder(options.state)
        lock = take_lock(folder)
        if lock is None:
            raise CannotRunError(f"another runner works in {options.state}")
        policy = _policy(options)
        queues = read_queues(options.queues, policy, options.images)
        if options.clearml and options.images:
            raise CannotRunError("--image goes without --clearml, whose agent has images of its own")
        store = TaskStore(folder)
        driver = source()
        cards, lost = _cards(options, driver, store)
        _check(queues, len(cards) + len(lost), store, policy)
        limits = _limits(policy, options.limiter_library)
        session = _Session(
            options=options, folder=folder, store=store, queues=queues, cards=cards, lost=lost, limits=limits
        )
    with _said(StoreError, CdiError, ClearmlError):
        session.run(driver)


@dataclass(kw_only=True)
class _Session:
    """A runner with all that it works with."""

    options: RunnerOptions
    folder: Path
    store: TaskStore
    queues: Sequence[ServedQueue]
    cards: Sequence[Card]
    lost: Mapping[int, str]
    """Why cards that were given before are not, by index."""
    limits: ShareLimits

    def __post_init__(self) -> None:
        self._tasks = self.folder / TASKS
        self._identity = self.store.identity()
        self._by_index = {card.index: card for card in self.cards}
        self._faults: Mapping[int, str] = {}
        self._containers: ContainerJobs | None = None
        self._stopping = False
        self._log = get_logger("run-queues")

    def run(self, driver: GpuSource) -> None:
        """Run until a signal."""
        if any(queue.image is not None for queue in self.queues):
            self._containers = self._find_containers()
        watch = CardWatch(driver, self.cards, lambda: None)
        name, per_gpu = socket.gethostname(), self.limits.policy.slices_per_gpu
        runner = Runner(
            store=self.store,
            machine=Machine(name, self.cards, per_gpu),
            queues=self.queues,
            attempt_of=self._attempt,
            job_of=self._job,
            faults=lambda: self._faults,
        )
        for signum in (signal.SIGTERM, signal.SIGINT):
            signal.signal(signum, self._stop)
        for number in self.store.forget(time.time() - self.options.keep_days * _DAY):
            remove_folder(self._tasks, number)
        if self.options.clearml:
            ClearmlMirror(ClearmlServer(), [queue.name for queue in self.queues], self.folder).start()
        watch.start()
        self._report(name, per_gpu, seen := watch.faults)
        runner.adopt()
        self._log.info("serving", gpus=sorted(self._by_index), queues=[queue.name for queue in self.queues])
        while not self._stopping:
            if watch.faults != seen:
                self._report(name, per_gpu, seen := watch.faults)
            runner.step()
            runner.wait()
        self._log.info("stopped: tasks go on, and the next runner adopts them")

    def _stop(self, *_: object) -> None:
        self._stopping = True

    def _report(self, name: str, per_gpu: int, faults: Mapping[int, str]) -> None:
        self._faults = {**self.lost, **faults}
        report = MachineReport(
            name=name,
            cards=tuple(self.cards),
            slices_per_gpu=per_gpu,
            queues=tuple((queue.name, queue.share) for queue in self.queues),
            faults=dict(self._faults),
            warnings=tuple(self._warnings()),
        )
        self.store.write_machine(msgspec.json.encode(report))

    def _warnings(self) -> Iterator[str]:
        why = self.limits.why_processes_are_unlimited
        if why is not None and any(not queue.fraction.is_whole for queue in self.queues):
            yield f"{why}: a process can use all memory of its GPU; name the library with --limiter-library"

    def _attempt(self, task: Task) -> Attempt:
        mark = f"{self._identity}/{task.number}/{task.attempt}"
        return Attempt(attempt_folder(self._tasks, task), mark)

    def _job(self, task: Task) -> JobFile:
        attempt = self._attempt(task)
        given = shares(task, self._by_index, self.limits.policy)
        of_queue = {queue.name: queue.image for queue in self.queues}
        image = task.submission.image or of_queue.get(task.submission.queue)
        if image is not None:
            self._containers = self._containers or self._find_containers()
            return self._containers.job(task, given, attempt.mark, image)
        return process_job(task, given, self.limits, attempt.mark, str(attempt.folder))

    def _find_containers(self) -> ContainerJobs:
        runtime = find_runtime(self.options.runtime)
        return ContainerJobs(runtime, self.limits, self.cards, self.folder, self.options.cdi_dirs)


@contextlib.contextmanager
def _said(*expected: type[Exception]) -> Iterator[None]:
    try:
        yield
    except expected as error:
        raise CannotRunError(str(error)) from error


def _policy(options: RunnerOptions) -> EffectivePolicy:
    compiled = load_policies(options.policies).compiled.get((None, options.policy))
    if compiled is None:
        raise CannotRunError(f'{options.policies} has no policy "{options.policy}": name one with --policy')
    if compiled.effective.mode.takes is not Gpu:
        mode = compiled.effective.mode.name
        raise CannotRunError(f'policy "{options.policy}" is of mode {mode}: name one of mode per-gpu')
    return compiled.effective


def _cards(
    options: RunnerOptions, driver: GpuSource, store: TaskStore
) -> tuple[tuple[Card, ...], dict[int, str]]:
    """Return the cards to give, and why those that were given before are not."""
    said = store.read_machine()
    before = msgspec.json.decode(said, type=MachineReport) if said else None
    known = {*(card.index for card in before.cards), *before.faults} if before is not None else set()
    wanted = read_gpus(options.gpus)
    found = chosen(driver.list_gpus(), wanted, known)
    lost = set(wanted or ()) - {card.index for card in found}
    return found, dict.fromkeys(sorted(lost), "the driver does not list it")


def _check(queues: Sequence[ServedQueue], cards: int, store: TaskStore, policy: EffectivePolicy) -> None:
    for queue in queues:
        if queue.cards > cards:
            raise CannotRunError(
                f'queue "{queue.name}" asks for {queue.cards} cards, and --gpus gives {cards}'
            )
    others = [task.number for task in store.running() if task.slices_per_gpu != policy.slices_per_gpu]
    if others:
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
