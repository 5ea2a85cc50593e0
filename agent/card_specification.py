"""Our CDI specification of the cards themselves, made by NVIDIA's own generator.

NVIDIA's GPU operator creates only one device for all cards of a node, and other specifications may be stale.
Ours has a device for each card, by UUID.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

import msgspec

from agent.cdi import CdiError
from agent.files import UNREADABLE, write_whole
from agent.gpu import Gpu
from agent.options import AgentOptions

KIND = "clearml-injector.io/card"
FILE = "clearml-injector.io-card.json"
GENERATE_SECONDS = 60.0
"""NVIDIA's generator takes a second; one that hangs in the driver is killed."""
MAX_SAID = 400
"""Characters of its error message that are quoted."""
_TIME = re.compile(r'time="[^"]*" ')
"""With it, one error would be another at every attempt: a line in the log, and a write of the GpuNode."""
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_LIBRARIES = "LD_LIBRARY_PATH"
"""Where the driver's libraries may be. The agent's other variables would change what the generator does."""


_Specification = dict[str, Any]


class CardSpecification:
    """Writes the file, and checks whether it is up to date."""

    def __init__(self, ctk: str, options: AgentOptions) -> None:
        self._ctk = ctk
        self._hook = options.nvidia_cdi_hook
        self._root, self._host_root = options.driver_root, options.host_driver_root
        self._path = Path(options.cdi_dirs[-1]) / FILE
        self._scratch = options.state_dir

    def make(self, gpus: Collection[Gpu]) -> None:
        """Write the file again.

        Raises:
            CdiError: the generator failed or does not name every card, or the file cannot be written.
        """
        made = self._generated()
        wanted = {gpu.uuid for gpu in gpus}
        # Without the generator's device for all cards: a pod could use that one.
        devices = [each for each in made.get("devices", ()) if each.get("name") in wanted]
        if missing := wanted - {each["name"] for each in devices}:
            raise CdiError(f"{self._ctk} names no {', '.join(sorted(missing))}")
        content = msgspec.json.encode({**made, "devices": devices})
        try:
            write_whole(self._path, msgspec.json.format(content, indent=1))
        except OSError as error:
            raise CdiError(f"{self._path} cannot be written: {error.strerror}") from error

    def is_current(self) -> bool:
        """Return whether the file and all files of the driver that it names exist."""
        try:
            made = msgspec.json.decode(self._path.read_bytes(), type=_Specification)
            mounts = made["containerEdits"].get("mounts", ())
            return all(self._is_here(each["hostPath"]) for each in mounts)
        except (*UNREADABLE, KeyError, TypeError):
            return False

    def _generated(self) -> _Specification:
        dev_root = self._root if (Path(self._root) / "dev" / "nvidiactl").exists() else "/"
        names = "--device-name-strategy=uuid", "--vendor=clearml-injector.io", "--class=card"
        roots = f"--driver-root={self._root}", f"--dev-root={dev_root}"
        hook = f"--nvidia-cdi-hook-path={self._hook}"
        to = f"--from={self._root}", f"--to={self._host_root}", "--relative-to=host"
        try:
            with tempfile.TemporaryDirectory(dir=self._scratch, prefix="cards-") as folder:
                made, moved = f"{folder}/made.json", f"{folder}/moved.json"
                self._run("generate", "--mode=nvml", *names, *roots, hook, f"--output={made}")
                self._run("transform", "root", *to, f"--input={made}", f"--output={moved}")
                return msgspec.json.decode(Path(moved).read_bytes(), type=_Specification)
        except UNREADABLE as error:
            raise CdiError(f"{self._ctk} writes no specification: {error}") from error

    def _run(self, *arguments: str) -> None:
        command = [self._ctk, "--quiet", "cdi", *arguments]
        try:
            ended = subprocess.run(  # noqa: S603 the admin named it
                command,
                env={"PATH": _PATH, _LIBRARIES: os.environ.get(_LIBRARIES, "")},
                capture_output=True,
                timeout=GENERATE_SECONDS,
                check=False,
            )
        except OSError as error:
            raise CdiError(f"{self._ctk} does not start: {error.strerror}") from error
        except subprocess.TimeoutExpired as error:
            raise CdiError(f"{self._ctk} does not end within {GENERATE_SECONDS:.0f} s") from error
        if ended.returncode != 0:
            said = _TIME.sub("", ended.stderr.decode(errors="replace")).strip()[-MAX_SAID:]
            why = said or f"exit code {ended.returncode}"
            raise CdiError(f"{self._ctk} cdi {arguments[0]} failed: {why}")

    def _is_here(self, host_path: str) -> bool:
        """Return whether a file of the driver exists; True for other files, which this process cannot see."""
        path = Path(host_path)
        if not path.is_relative_to(self._host_root):
            return True
        return (Path(self._root) / path.relative_to(self._host_root)).exists()
