"""Starts `bench.gpu.child` and reads its output."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.gpu.stages import CannotError

ROOT = Path(__file__).parents[2]
END_SECONDS = 60.0


class Child:
    """One program with a GPU.

    Args:
        arguments: Of `bench.gpu.child`.
        environment: Variables in addition to those of this process.
    """

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.gpu.child", *arguments],
            cwd=ROOT,
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
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
            raise RuntimeError(f"a child ended with {self._process.wait(END_SECONDS)} and printed nothing")
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


@contextmanager
def children(
    programs: Sequence[Sequence[str]],
    environment: Mapping[str, str] | Sequence[Mapping[str, str]] | None = None,
) -> Iterator[list[Child]]:
    """Start programs, with variables for all or for each; they are gone when the context ends."""
    started: list[Child] = []
    each = [environment or {}] * len(programs) if not isinstance(environment, Sequence) else environment
    try:
        started += [Child(program, own) for program, own in zip(programs, each, strict=True)]
        yield started
    finally:
        for child in started:
            child.end()
