"""The fraction-injector command as a user runs it."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import yaml
from typer.testing import CliRunner

from cli.app import app

CHECKOUT = Path(__file__).parent.parent.parent
FIXTURES = CHECKOUT / "tests" / "fixtures"
MANIFESTS = FIXTURES / "manifests"
INVENTORY = FIXTURES / "inventory.json"
COMMAND = [sys.executable, "-m", "cli.main"]
ENVIRONMENT = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1"}


def run(*arguments, text=None, timeout=120):
    """Run the command to its end; no traceback, whatever it is given."""
    ended = subprocess.run(
        [*COMMAND, *map(str, arguments)],
        input=text,
        capture_output=True,
        text=True,
        cwd=CHECKOUT,
        env=ENVIRONMENT,
        timeout=timeout,
        check=False,
    )
    assert "Traceback" not in ended.stderr
    return ended


def explain(*arguments, text=None):
    """Exit status and the one item, or the items, of `explain --output json`."""
    ended = run("explain", "--inventory", INVENTORY, "--output", "json", *arguments, text=text)
    return ended.returncode, one_of(ended.stdout) if ended.stdout else None


def one_of(printed):
    """The items of a printed list; the item itself if there is only one."""
    found = json.loads(printed)
    assert isinstance(found, list)
    return found[0] if len(found) == 1 else found


def invoke(*arguments, text=None):
    """`explain` in this process: fast, with the same exit status and output."""
    result = CliRunner().invoke(app, ["explain", *map(str, arguments)], input=text)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def called(*arguments):
    """Exit status, output and errors of a command in this process."""
    result = CliRunner().invoke(app, [*map(str, arguments)])
    return result.exit_code, result.stdout, result.stderr


def write(folder, **files):
    """Write YAML files of these names into a folder, and return the folder."""
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text)
    return folder


def error_line(result):
    """The one line that says what is wrong, and status 2."""
    assert (result.exit_code, result.stdout) == (2, "")
    return result.stderr.splitlines()[-1].removeprefix("fraction-injector: ")


def facts_of(text, *arguments):
    """What `explain --output json` prints of a text."""
    result = invoke("-", "--inventory", INVENTORY, "--output", "json", *arguments, text=text)
    return one_of(result.stdout)


def as_yaml(found):
    stream = io.StringIO()
    yaml.safe_dump(found, stream, sort_keys=False)
    return stream.getvalue()
