"""Starts `bench.gpu.child` and reads its output."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.gpu.stages import CannotError

ROOT = Path(__file__).parents[2]
END_SECONDS = 60.0
MAX_SAID = 200


@dataclass(frozen=True, slots=True)
class Share:
    """What a program is started in.

    Attributes:
        environment: Variables in addition to those of this process.
        command: What starts the program, before its own command.
    """

    environment: Mapping[str, str]
    command: tuple[str, ...] = ()


class Child:
    """One program with a GPU.

    Args:
        arguments: Of `bench.gpu.child`.
        share: What it is started in.
    """

    def __init__(self, arguments: Sequence[str], share: Share) -> None:
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `end`
        self.begun = time.monotonic()
        self._process = subprocess.Popen(
            [*share.command, sys.executable, "-m", "bench.gpu.child", *arguments],
            cwd=ROOT,
            env={**os.environ, **share.environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
        )

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    def line(self) -> Mapping[str, Any]:
        """Return the next line that it prints.

        Raises:
            CannotError: CUDA does not start in it.
            RuntimeError: it ended without a line, such as after a kill.
        """
        assert self._process.stdout is not None
        text = self._process.stdout.readline()
        if not text:
            code = self._process.wait(END_SECONDS)
            self._said.seek(0)
            said = self._said.read().decode(errors="replace").strip()[-MAX_SAID:]
            raise RuntimeError(f"a child ended with {code} and printed nothing; its errors: {said or 'none'}")
        line: Mapping[str, Any] = json.loads(text)
        if "cannot" in line:
            self._process.wait(END_SECONDS)
            raise CannotError(str(line["cannot"]))
        return line

    def go(self) -> None:
        """Let it continue."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def end(self) -> None:
        """End it, if it has not ended."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()
        self._said.close()


@contextmanager
def children(program: Sequence[str], *shares: Share) -> Iterator[list[Child]]:
    """Start a program in each share; they are gone when the context ends."""
    with ExitStack() as stack:
        started: list[Child] = []
        for share in shares:
            started.append(Child(program, share))
            stack.callback(started[-1].end)
        yield started
