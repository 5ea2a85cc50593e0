"""The chart starts each process with options that its dataclass has."""

import re

import pytest

from charts.generate import CHART
from cli.process_command import name_of, options_of
from tests.cli.test_process_command import PROCESSES

TEMPLATES = {"webhook": "deployment.yaml", "controller": "deployment.yaml", "agent": "daemonset.yaml"}
ARGUMENTS = re.compile(
    r"^          args:\n(.*?)^          (?:env:|{{- with .*}}\n)", re.MULTILINE | re.DOTALL
)
FLAG = re.compile(r"(?<=[ \"])--[a-z][a-z-]*")


def passed(process):
    """What the template's arguments name, and those that all processes get."""
    [arguments] = ARGUMENTS.findall((CHART / "templates" / process / TEMPLATES[process]).read_text())
    shared = (CHART / "templates" / "_pods.tpl").read_text()
    return {*FLAG.findall(arguments), *FLAG.findall(shared)}


@pytest.mark.parametrize("process", TEMPLATES)
def test_every_argument_of_the_chart_is_an_option_that_users_see(process):
    options = options_of(PROCESSES[process])
    shown = {name_of(field, flag) for field, _, flag in options if not flag.hidden}
    assert len(passed(process)) > 8
    assert passed(process) - shown == set()
