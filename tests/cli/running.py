"""The fraction-injector command as a user runs it, in this process; test_subcommands.py starts each one."""

import io
import json
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import yaml
from typer.testing import CliRunner

from cli.app import app as whole

CHECKOUT = Path(__file__).parent.parent.parent
FIXTURES = CHECKOUT / "tests" / "fixtures"
MANIFESTS = FIXTURES / "manifests"
INVENTORY = FIXTURES / "inventory.json"
COMMAND = [sys.executable, "-m", "cli.main"]
ENVIRONMENT = {"COLUMNS": "200", "NO_COLOR": "1"}


class Printed(NamedTuple):
    """Exit status, and what went to each stream."""

    returncode: int
    stdout: str
    stderr: str


class Ended(Printed):
    output: str
    """Both streams as a terminal shows them."""


def run(*arguments, text=None, app=None, env=None):
    """Run the command to its end; no exception, whatever it is given."""
    result = CliRunner().invoke(
        app or whole, [*map(str, arguments)], input=text, env=ENVIRONMENT | (env or {})
    )
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    ended = Ended(result.exit_code, result.stdout, result.stderr)
    ended.output = result.output
    return ended


def serve(monkeypatch, api):
    """Connect commands to an API server of a few lines, which has the method `request`."""

    @asynccontextmanager
    async def connected(*_):
        yield api

    monkeypatch.setattr("cluster.kube_client.connected", connected)


def explain(*arguments, text=None):
    return run("explain", "--inventory", INVENTORY, *arguments, text=text)


def all_facts(*arguments, text=None):
    """What `explain --output json` prints, on the nodes of the fixtures."""
    return json.loads(explain("--output", "json", *arguments, text=text).stdout)


def facts_of(text, *arguments):
    [facts] = all_facts("-", *arguments, text=text)
    return facts


def write(folder, **files):
    """Write YAML files of these names into a folder, and return the folder."""
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text)
    return folder


def error_line(ended):
    """The one line that says what is wrong, and status 2."""
    assert (ended.returncode, ended.stdout) == (2, "")
    return ended.stderr.splitlines()[-1].removeprefix("fraction-injector: ")


def as_yaml(found):
    stream = io.StringIO()
    yaml.safe_dump(found, stream, sort_keys=False)
    return stream.getvalue()
