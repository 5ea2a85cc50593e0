"""The fields of a process's options dataclass are what its subcommand takes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest
import typer

from agent.options import AgentOptions
from cli.process_command import name_of, options_of, process_command
from controller.options import ControllerOptions
from service.options import Flag
from tests.cli.running import run as run_command
from webhook.options import WebhookOptions

ROOT = Path(__file__).resolve().parents[2]
PROCESSES = {"webhook": WebhookOptions, "controller": ControllerOptions, "agent": AgentOptions}
FOR_TESTS = {
    "webhook": {"--controller-wait"},
    "controller": {"--ca-settle", "--ca-keep", "--ca-retry", "--watch-silence"},
    "agent": set(),
}


def even(text):
    if int(text) % 2:
        raise ValueError(f"--even {text} is odd")
    return int(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    folder: Annotated[Path, Flag("Where it lies.", metavar="DIR")]
    port: Annotated[int, Flag("TLS port.", min=0, max=65535)] = 8443
    names: Annotated[tuple[str, ...], Flag("A name.", name="--name", default="localhost")] = ("localhost",)
    evens: Annotated[tuple[int, ...], Flag("An even number.", name="--even", parse=even)] = ()
    pair: Annotated[tuple[str, str] | None, Flag("Two.", parse=lambda text: tuple(text.split("/")))] = None
    kind: Annotated[str, Flag("In capitals.", parse=str.upper)] = "small"
    quick: Annotated[bool, Flag("Do not wait.")] = False
    wait_seconds: Annotated[float, Flag("For tests.", hidden=True)] = 1
    other: str = "on no command line"

    def __post_init__(self):
        if self.quick and self.wait_seconds == 60:
            raise ValueError("--quick waits for no minute")


def invoked(*arguments):
    """How the command ended, and the options that it was given."""
    given = []

    def run(options: Options) -> None:
        given.append(options)

    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command()(process_command(run))
    ended = run_command(*arguments, app=app)
    return ended, *given


def test_what_is_given_reaches_its_field_in_the_fields_type():
    arguments = "--folder=a --port=1 --name=b --name=c --even=2 --even=4 --pair=d/e --quick --wait-seconds=0"
    ended, options = invoked(*arguments.split(), "--kind=big")
    assert ended.returncode == 0
    given = {"folder": Path("a"), "port": 1, "names": ("b", "c"), "evens": (2, 4), "pair": ("d", "e")}
    assert options == Options(**given, kind="BIG", quick=True, wait_seconds=0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--even=2", "--even=3"], "fraction-injector: --even 3 is odd\n"),
        (["--quick", "--wait-seconds=60"], "fraction-injector: --quick waits for no minute\n"),
    ],
)
def test_what_a_parser_or_the_dataclass_refuses_ends_the_command_in_one_line(arguments, message):
    [ended] = invoked("--folder=a", *arguments)
    assert (ended.returncode, ended.stdout, ended.stderr) == (2, "", message)


@pytest.mark.parametrize("process", PROCESSES)
def test_options_for_tests_only_are_hidden_and_no_page_names_them(process):
    hidden = {name_of(field, flag) for field, _, flag in options_of(PROCESSES[process]) if flag.hidden}
    assert hidden == FOR_TESTS[process]
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("charts/**/*.y*ml")]
    text = "".join(page.read_text() for page in pages if page.name != "CHANGELOG.md")
    assert {name for name in hidden if name in text} == set()
