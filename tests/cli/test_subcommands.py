"""One shape of command: how help is asked for, what is loaded for what, and which options all have."""

import subprocess
import sys

import pytest
import typer

from cli.app import app
from cli.subcommands import GROUPS, PROCESSES, SECTIONS, SUBCOMMANDS
from tests.cli.running import CHECKOUT, run

ROOT = typer.main.get_command(app)
CONTEXT = typer.Context(ROOT)
COMMANDS = {name: ROOT.get_command(CONTEXT, name) for name in ROOT.list_commands(CONTEXT)}
LEAVES = {
    (name, *rest): command
    for name, found in COMMANDS.items()
    for rest, command in (
        [((each,), found.get_command(CONTEXT, each)) for each in found.list_commands(CONTEXT)]
        if hasattr(found, "list_commands")
        else [((), found)]
    )
}
SHORT = {"--output": "-o", "--namespace": "-n", "--filename": "-f", "--all-namespaces": "-A"}


@pytest.mark.parametrize("words", LEAVES, ids=" ".join)
def test_help_is_short_or_long_everywhere(words):
    short, long = (run(*words, asked) for asked in ("-h", "--help"))
    assert (short.returncode, short.stdout) == (0, long.stdout)
    assert short.stdout.startswith("Usage: ")
    assert short.stdout.isascii()


@pytest.mark.parametrize("words", sorted(LEAVES.keys() - {("controller",)}), ids=" ".join)
def test_options_that_several_commands_have_are_called_the_same(words):
    options = {option for each in LEAVES[words].params for option in each.opts}
    assert {SHORT[long] for long in SHORT.keys() & options} <= options


def test_help_lists_at_most_twelve_subcommands_each_with_a_line_that_fits():
    listed = [name for names in SECTIONS.values() for name in names]
    assert len(listed) == len(set(listed)) <= 12
    assert COMMANDS.keys() - set(listed) == {"uncordon", *PROCESSES}
    shown = run("--help").stdout
    lines = {name: line for name, (_, line) in SUBCOMMANDS.items()} | GROUPS
    assert all(f"  {name} " in shown and lines[name] in shown for name in listed)
    assert max(map(len, lines.values())) <= 56
    assert not [name for name in PROCESSES if f"  {name} " in shown]


def test_an_unknown_subcommand_is_two_with_the_one_that_was_meant():
    ended = run("expalin")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "No such command 'expalin'. Did you mean 'explain'?" in ended.stderr


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        (("why", "a", "-o", "yaml"), "'yaml' is not one of 'text', 'json'."),
        (("cordon", "a", "x"), "must be a whole number"),
        (("gpu-operator-values", "--gpus", "900"), "must be at most 64"),
    ],
)
def test_an_invalid_value_is_two_with_the_rule(words, rule):
    ended = run(*words)
    assert ended.returncode == 2
    assert ended.stderr.splitlines()[-1].partition("': ")[2] == rule


def loaded(*arguments):
    code = (
        "import sys; sys.argv = ['fraction-injector', *sys.argv[1:]]\n"
        "from cli.main import main\n"
        "try: main()\n"
        "finally: print(*{name.partition('.')[0] for name in sys.modules}, file=sys.stderr)"
    )
    command = [sys.executable, "-c", code, *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=CHECKOUT, check=False)
    assert (ended.returncode, "Traceback" in ended.stderr) == (0, False), ended.stderr
    return set(ended.stderr.splitlines()[-1].split())


HEAVY = {"aiohttp", "cryptography", "fastapi", "grpc", "httpx", "kubernetes", "starlette", "uvicorn"}


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_help_of_a_command_loads_no_client_no_server_and_no_screen(name):
    assert loaded(*name.split(), "--help") & (HEAVY | {"pydantic", "rich"}) == set()


@pytest.mark.parametrize("words", [["--help"], ["machine", "--help"]], ids=" ".join)
def test_help_loads_nothing_but_the_command_line(words):
    everything = loaded(*words)
    assert everything & (HEAVY | {"asyncio", "msgspec", "pydantic", "rich", "yaml"}) == set()
    assert everything & {"agent", "controller", "ledger", "modes", "policies", "webhook"} == set()


def test_explain_loads_no_client_no_server_and_no_screen():
    modules = loaded("explain", "examples/demo/clearml-half.yaml")
    assert modules & (HEAVY | {"rich", "prometheus_client"}) == set()
