"""What is started for a task: a command, its variables, and what limits it to its share."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from agent.gpu import Gpu
from agent.limits import variables
from agent.settings import AgentPolicy
from agent.shares import Share, memory_mib
from baremetal.task import GPUS, Task
from kube.device_keys import reserved
from kube.names import GPU_FRACTIONS
from policies.model.effective import EffectiveLimiter

MARK = "FRACTION_INJECTOR_TASK"
"""Variable that tells whose task a process is: store, number and attempt."""
CACHE = "cache"
"""Folder of an attempt for the limiter's own accounts."""


class JobFile(msgspec.Struct, frozen=True, kw_only=True):
    """What `baremetal.supervisor` reads."""

    command: tuple[str, ...]
    folder: str
    env: dict[str, str]
    cleanup: tuple[str, ...] = ()
    """Removes a container, whatever became of it; empty for a process."""


@dataclass(frozen=True, slots=True)
class ShareLimits:
    """How shares are limited on this machine."""

    policy: AgentPolicy
    """Slices, reserve, and the limiter as the node agent applies it."""
    limiter: EffectiveLimiter
    """The same limiter, with the images that it may name."""
    library: str | None = None
    """File of the limiter's library, for processes."""

    @property
    def why_processes_are_unlimited(self) -> str | None:
        """Say why a process can use all memory of its card; None if it cannot."""
        name = self.policy.limiter.name
        if self.policy.limiter.preload is None:
            return f"limiter {name} does not limit processes"
        return None if self.library is not None else f"there is no library of limiter {name}"


def shares(task: Task, cards: Iterable[Gpu], policy: AgentPolicy) -> list[Share]:
    """Return the task's share of each of its cards.

    Raises:
        RefusedError: the policy's reserve leaves nothing.
    """
    given = [card for card in cards if card.uuid in task.gpus]
    per_gpu, reserve = task.slices_per_gpu, policy.reserve_mib
    return [Share(each, task.slices, memory_mib(each, task.slices, per_gpu, reserve)) for each in given]


def process_job(task: Task, given: Sequence[Share], limits: ShareLimits, mark: str, attempt: Path) -> JobFile:
    """Return what runs a task as a process, with `mark` as value of `MARK`, and the folder of the attempt."""
    submission = task.submission
    # By number and not by uuid: HAMi-core reads the numbers, and counts cards as the driver does.
    cards = ",".join(str(share.gpu.index) for share in given)
    command, own = submission.command, submission.env
    if submission.source_id is not None:
        command, own = tuple([cards if each == GPUS else each for each in command]), dict(os.environ)
        own[GPU_FRACTIONS] = ",".join([f"{task.slices / task.slices_per_gpu:.3f}"] * len(given))
    own = {name: own[name] for name in own.keys() - reserved(own)}
    ours = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": cards, MARK: mark}
    ours |= {"NVIDIA_VISIBLE_DEVICES": cards, "PWD": submission.folder}
    if limits.why_processes_are_unlimited is None:
        ours |= _limit(given, limits, own, str(attempt / CACHE))
    return JobFile(command=command, folder=submission.folder, env=own | ours)


def _limit(given: Sequence[Share], limits: ShareLimits, own: Mapping[str, str], cache: str) -> dict[str, str]:
    """Return what `agent.limits` says, with paths of this machine in place of a container's."""
    limited = [share for share in given if share.memory_mib is not None]
    if not limited or limits.library is None:
        return {}
    of_container, found = limits.policy.limiter.cache_path, dict[str, str]()
    for share in limited:
        found |= variables(share, limits.policy)
    if of_container is not None:
        found = {name: value.replace(f"{of_container}/", f"{cache}/") for name, value in found.items()}
    preload = ":".join(filter(None, [limits.library, own.get("LD_PRELOAD")]))
    return found | {"LD_PRELOAD": preload, "CUDA_REDIRECT": limits.library}
