"""A command that is run to its end, with all that it left."""

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

COMMAND_S = 300
WITHOUT_GARBAGE_COLLECTION = {"GOGC": "off"}
"""For Go programs that end within a second: a third less CPU for 10 MiB more."""


@dataclass(frozen=True, slots=True)
class Output:
    """What a command left: its exit code and the whole text of its two streams."""

    code: int
    stdout: str
    stderr: str


def output_of(
    argv: Sequence[str],
    environment: Mapping[str, str] | None = None,
    *,
    stdin: str = "",
    seconds: float = COMMAND_S,
) -> Output:
    """Run a command; the caller looks at its exit code. Without an environment it has ours."""
    ended = subprocess.run(
        argv, env=environment, input=stdin, capture_output=True, text=True, timeout=seconds, check=False
    )
    return Output(ended.returncode, ended.stdout, ended.stderr)
