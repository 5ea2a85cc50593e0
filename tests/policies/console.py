"""Runs the console blocks of a Markdown file and compares what they show with what the commands print."""

import re
import shlex
from pathlib import Path

from tests.cli.running import run as run_command

ROOT = Path(__file__).resolve().parent.parent.parent
COMMAND = "fraction-injector"
_BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)
_DIGEST = re.compile(r"\b[0-9a-f]{12}\b")
_EXIT_CODE = "# exit code "


def shown_commands(markdown):
    """Commands of all console blocks, each with the lines shown below it and the exit code."""
    commands = []
    for block in _BLOCK.findall(markdown.read_text()):
        for line in block.splitlines():
            if line.startswith("$ "):
                commands.append((line.removeprefix("$ "), [], [0]))
            elif line.startswith(_EXIT_CODE):
                commands[-1][2][0] = int(line.removeprefix(_EXIT_CODE))
            else:
                commands[-1][1].append(line)
    return [(command, lines, code[0]) for command, lines, code in commands]


def run(command):
    """Exit code and output of a command of ours, run in this process from the top of the checkout."""
    program, *arguments = shlex.split(command)
    assert program == COMMAND
    ended = run_command(*arguments)
    return ended.returncode, ended.output.splitlines()


def pattern(lines):
    """What the shown lines allow: themselves, anything where they say `...`, and any digest."""
    parts = [
        ".*" if line.strip() == "..." else re.escape(_DIGEST.sub("<digest>", line)) + "\n" for line in lines
    ]
    return re.compile("".join(parts), re.DOTALL)


def printed(lines):
    """Output in the form that `pattern` matches."""
    return "".join(_DIGEST.sub("<digest>", line) + "\n" for line in lines)
