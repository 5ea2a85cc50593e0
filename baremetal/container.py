"""What runs a task in a container of podman or docker, by the CDI devices of its cards."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

import msgspec

from agent.card_names import choose_names
from agent.cdi import CdiError, SliceSpecifications
from agent.cdi_reader import card_devices
from agent.files import write_whole
from agent.gpu import Gpu
from agent.limits import loader_list
from agent.settings import NO_LIMITER, AgentPolicy, LimiterPart
from agent.shares import RefusedError, Share
from baremetal.job import MARK, JobFile, ShareLimits
from baremetal.task import Task

CDI_DIRS = ("/etc/cdi", "/var/run/cdi")
"""Where these read CDI specifications."""
_ADVICE = "run `nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml` as root"


class ContainerJobs:
    """Makes jobs that run containers of `runtime`, podman or docker by its path.

    `folder` holds what is mounted. `cdi_dirs` have the CDI specifications; the last one gets ours.

    Raises:
        CdiError: a card has no CDI device, or ours cannot be written; the text says what to do.
    """

    def __init__(
        self, runtime: str, limits: ShareLimits, cards: Sequence[Gpu], folder: Path, cdi_dirs: Sequence[str]
    ) -> None:
        self._runtime = runtime
        self._limits = limits
        self._card_names = choose_names(card_devices(map(Path, cdi_dirs)), cards, cdi_dirs, _ADVICE)
        self._slices = SliceSpecifications(Path(cdi_dirs[-1]), _with_library(limits, folder), str(folder))
        for card in cards:
            self._slices.write(card)

    def job(self, task: Task, given: Sequence[Share], mark: str, image: str) -> JobFile:
        """Return what runs a task in a container: its folder is mounted, its variables are the image's.

        Raises:
            RefusedError: the image does not limit itself, as the limiter wants.
            CdiError: our CDI device is gone and cannot be written again.
        """
        names = [self._card_names[share.gpu.uuid] for share in given]
        names += filter(None, [self._slices.name_of(share) for share in given])
        name = f"fraction-injector-{mark.replace('/', '-')}"
        limiter, folder = self._limits.limiter, task.submission.folder
        limited = [share.memory_mib for share in given if share.memory_mib is not None]
        if limited and limiter.image_pattern is not None:
            mib = limiter.limit_of(image)
            if mib is None or mib > min(limited):
                raise RefusedError(
                    f"limiter {limiter.name} needs an image that limits itself to at most {min(limited)} MiB,"
                    f" and {image[:80]} does not"
                )
        mount = f"--mount=type=bind,source={folder},target={folder}", f"--workdir={folder}"
        command = (
            *(self._runtime, "run", "--name", name),
            *(f"--device={each}" for each in names),
            *(("--pid=host", "--ipc=host") if limiter.host_pid and limited else ()),
            *(mount if folder != "/" else ()),
            image,
            *task.submission.command,
        )
        cleanup = self._runtime, "rm", "--force", name
        return JobFile(command=command, folder="/", env=dict(os.environ) | {MARK: mark}, cleanup=cleanup)


def find_runtime(named: str | None) -> str:
    """Return the path of a container runtime.

    Raises:
        CdiError: there is none; the text says what to install.
    """
    wanted = ("podman", "docker") if named is None else (named,)
    found = next(filter(None, map(shutil.which, wanted)), None)
    if found is None:
        raise CdiError(f"there is no {named or 'podman or docker'} on PATH, which runs containers")
    return found


def _with_library(limits: ShareLimits, folder: Path) -> AgentPolicy:
    """Put the limiter's library where containers get it; without one, nothing limits them."""
    preload = limits.policy.limiter.preload
    if preload is None:
        return limits.policy
    if limits.library is None:
        return msgspec.structs.replace(limits.policy, limiter=LimiterPart(NO_LIMITER))
    try:
        write_whole(folder / "library" / PurePosixPath(preload).name, Path(limits.library).read_bytes())
        write_whole(folder / loader_list(preload), f"{preload}\n".encode())
    except OSError as error:
        raise CdiError(f"{error.filename} cannot be read or written: {error.strerror}") from error
    return limits.policy
