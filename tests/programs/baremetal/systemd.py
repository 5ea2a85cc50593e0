"""Debian's systemd as the first process of namespaces of its own.

It has no units but ours, and can write only into the test's folder: Debian's own units set up a machine, and
empty its /tmp.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from testbed.nodes import cgroups
from testbed.process import Process, eventually

PROGRAM = Path("/lib/systemd/systemd")
GROUPS = Path("/sys/fs/cgroup")
ENTER = ("--mount", "--pid", "--cgroup", "--uts", "--ipc", "--net")
_INIT = """\
set -e
mount --make-rprivate /
mount --bind "$1" "$1"
mount -o remount,bind,ro /
mount -t proc proc /proc
mount --bind /proc/sys /proc/sys
mount -o remount,bind,ro /proc/sys
umount -l /sys/fs/cgroup
mount -o remount,bind,ro /sys
mount -t tmpfs -o mode=755 tmpfs /sys/fs/cgroup
mkdir /sys/fs/cgroup/systemd /sys/fs/cgroup/unified
mount -t cgroup -o none,name=systemd cgroup /sys/fs/cgroup/systemd
mount -t cgroup2 cgroup2 /sys/fs/cgroup/unified
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/system /run/none
for each in lone sysinit basic shutdown; do
  printf '[Unit]\\nDefaultDependencies=no\\n' > /run/systemd/system/$each.target
done
export SYSTEMD_UNIT_PATH=/run/systemd/system SYSTEMD_GENERATOR_PATH=/run/none container=other
exec /lib/systemd/systemd --unit=lone.target --log-target=console
"""


class Systemd:
    def __init__(self, folder):
        if os.geteuid() != 0:
            pytest.skip("only root can run a systemd in namespaces")
        if not PROGRAM.exists() or shutil.which("unshare") is None:
            pytest.skip("there is no systemd, or no unshare")
        self._groups = [GROUPS / each / f"fraction-injector-{folder.name}" for each in ("systemd", "unified")]
        if not all(each.parent.is_dir() for each in self._groups):
            pytest.skip("this systemd needs control groups as Debian has them: systemd and unified")
        for each in self._groups:
            each.mkdir()
        enter = "; ".join(f"echo $$ > {each}/cgroup.procs" for each in self._groups)
        unshare = "unshare --mount --pid --fork --cgroup --uts --ipc --net --kill-child"
        command = ["/bin/sh", "-c", f'{enter}; exec {unshare} sh -c "$0" sh "$1"', _INIT, str(folder)]
        self._process = Process(command, folder / "systemd.log")
        self.pid = eventually(self._first, f"systemd starts: {folder}/systemd.log")
        eventually(lambda: self("systemctl", "is-system-running", check=False) == "running\n", "it runs")
        assert "not-found" in self(
            "systemctl", "show", "--property=LoadState", "systemd-tmpfiles-setup.service"
        )
        assert "ro" in self("findmnt", "--noheadings", "--output=OPTIONS", "/").split(",")

    def __call__(self, *command, check=True):
        entered = ["nsenter", f"--target={self.pid}", *ENTER, *command]
        return subprocess.run(entered, check=check, capture_output=True, text=True).stdout

    def close(self):
        self._process.stop()
        assert cgroups.clear(self._groups) == []

    def _first(self):
        found = subprocess.run(
            ["pgrep", "--parent", str(self._process.pid)], check=False, capture_output=True, text=True
        )
        children = found.stdout.split()
        return int(children[0]) if len(children) == 1 and _is_systemd(children[0]) else None


def _is_systemd(pid):
    return Path(f"/proc/{pid}/comm").read_text() == "systemd\n"
