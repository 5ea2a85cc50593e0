"""A sandbox: what the kernel lets pass for a machine, made of namespaces and control groups."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from testbed.command import Output, output_of
from testbed.nodes import cgroups
from testbed.process import Process, eventually

HERE = Path(__file__).parent
SPACES = ("--mount", "--net", "--cgroup", "--uts", "--pid", "--ipc")
UNSHARE = ("unshare", *SPACES, "--fork", "--kill-child", "--mount-proc")
BOOT_S = 180


def why_not() -> str | None:
    """Say why no sandbox can be made here: not root, no namespaces, no cgroup v1. None if all is well."""
    if os.geteuid() != 0:
        return "real nodes are sandboxes of namespaces, which only root can make"
    for tool in ("unshare", "nsenter", "ip", "mount", "bash"):
        if shutil.which(tool) is None:
            return f"real nodes need the command `{tool}`, and it is not on PATH"
    if reason := cgroups.why_not():
        return f"real nodes need control groups of their own: {reason}"
    tried = subprocess.run(
        [*UNSHARE, "mount", "-t", "tmpfs", "tmpfs", "/run"], capture_output=True, text=True, check=False
    )
    return None if tried.returncode == 0 else f"no namespaces can be made: {tried.stderr.strip()}"


class Reaper:
    """The process that removes what sandboxes leave, also when this one is killed."""

    def __init__(self) -> None:
        self._child = subprocess.Popen(
            [sys.executable, "-m", "testbed.nodes.reaper"],
            cwd=HERE.parents[1],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def keep(self, kind: str, path: Path) -> None:
        """Have a `cgroup` or a `folder` removed at the end."""
        assert self._child.stdin
        self._child.stdin.write(f"{kind} {path}\n")
        self._child.stdin.flush()

    def clean_up(self) -> None:
        """Remove everything now, and wait until it is gone.

        Raises:
            AssertionError: Something stayed; the text names it.
        """
        _, errors = self._child.communicate()
        assert self._child.returncode == 0, errors


class Sandbox:
    """One machine. It is up from `boot` to `halt`, and can be booted again: its folder is its disk.

    Args:
        name: Host name.
        folder: Of its own, for everything that outlives a reboot.
        reaper: Removes its control groups.
    """

    def __init__(self, name: str, folder: Path, reaper: Reaper) -> None:
        self.name = name
        self.folder = folder
        self._reaper = reaper
        self._groups: list[Path] = []
        self._process: Process | None = None
        self._started: list[Process] = []
        folder.mkdir()

    def boot(self) -> None:
        """Make the namespaces and wait until everything is mounted."""
        first = not self._groups
        self._groups = cgroups.create(f"gpu-fraction-{os.getpid()}-{self.folder.parent.name}-{self.name}")
        if first:
            for group in self._groups:
                self._reaper.keep("cgroup", group)
        booted = self.folder / "booted"
        booted.unlink(missing_ok=True)
        command = [*UNSHARE, str(HERE / "sandbox.sh"), str(self.folder), self.name]
        self._process = Process(self._in_groups(command), self.folder / "sandbox.log")
        self._process.until_ready(booted.exists, BOOT_S)

    def _in_groups(self, command: Sequence[str]) -> list[str]:
        enter = "; ".join(f"echo $$ > {shlex.quote(str(group / 'cgroup.procs'))}" for group in self._groups)
        return ["/bin/sh", "-c", f'set -e; {enter}; exec "$@"', "sandbox", *command]

    @property
    def pid(self) -> int:
        """Its pid 1, as the machine counts."""
        assert self._process
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text()
        return int(children.split()[0])

    def _entering(self, command: Sequence[str], environment: Mapping[str, str]) -> list[str]:
        variables = [f"{name}={value}" for name, value in environment.items()]
        return self._in_groups(
            ["nsenter", f"--target={self.pid}", *SPACES, "--", "env", *variables, *command]
        )

    def start(
        self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> Process:
        """Start a command in the sandbox; its log is `NAME.log` in the folder."""
        process = Process(self._entering(command, environment or {}), self.folder / f"{name}.log", grace_s=5)
        self._started.append(process)
        return process

    def run(self, *command: str, environment: Mapping[str, str] | None = None, stdin: str = "") -> Output:
        """Run a command in the sandbox; the caller looks at its exit code."""
        return output_of(self._entering(command, environment or {}), stdin=stdin)

    def on_network(self, *command: str) -> Output:
        """Run a command that has the sandbox's network and all else of this machine, such as process ids."""
        entering = ["nsenter", f"--target={self.pid}", "--net", "--", *command]
        return output_of(entering)

    def check(self, *command: str, environment: Mapping[str, str] | None = None) -> str:
        """Run a command that must end well, and return what it prints."""
        ended = self.run(*command, environment=environment)
        assert ended.code == 0, f"{' '.join(command)} in {self.name}: {ended.stderr or ended.stdout}"
        return ended.stdout

    def halt(self) -> None:
        """Pull the plug: every process in it is killed, every mount and link gone."""
        if self._process is not None:
            self._process.stop()
            self._process = None
            for process in self._started:
                process.stop()
            self._started = []
            eventually(lambda: not cgroups.clear(self._groups, 1), f"{self.name} is down")
