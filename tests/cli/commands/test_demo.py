"""fraction-injector demo: what it shows; tests/programs/cli/test_demo.py runs it with its webhook."""

import contextlib
import io
import re

import pytest

from cli.demonstration import DEMO_PODS, DemoResult, _show
from cli.explainer import Explainer
from cli.manifests import read_objects
from cli.options import read_ledger, read_policies
from service.options import DEFAULT_POLICIES
from tests.cli.running import run


def answers():
    """The decisions of the demo's pods, one after the other in one ledger, as its webhook makes them."""
    policies = read_policies(DEFAULT_POLICIES)
    explainer = Explainer(policies, read_ledger(policies, None), together=True)
    return [
        DemoResult(each.pod, each.patch, None if each.allowed else each.outcome.denial.message)
        for found in read_objects(DEMO_PODS)
        for each in explainer.explain(found)
    ]


@pytest.fixture(scope="module")
def shown():
    with contextlib.redirect_stdout(io.StringIO()) as stream:
        _show(answers(), serve=False)
    return stream.getvalue()


def test_each_pod_has_its_row_and_the_gpus_show_what_it_holds(shown):
    rows = re.findall(r"^(\S+) +(\S+) +(injected|denied|untouched)(.*?) *$", shown, re.MULTILINE)
    labels = ("0.500", "0.250", "0.500", "0.875", "0.375", "0.625", "0.125")
    decided = [*((label, "injected") for label in labels), ("0.5", "denied"), ("-", "untouched")]
    assert [(label, decision) for _, label, decision, _ in rows] == decided
    for _, label, _, rest in rows[: len(labels)]:
        assert re.search(rf"nvidia\.com/gpu-\d: {round(float(label) * 8)} +\d+$", rest)
    drawn = re.findall(r"^\S+ +\d +([█░]{8})", shown, re.MULTILINE)
    assert len(drawn) == 15
    assert "".join(drawn).count("█") == 4 + 2 + 4 + 7 + 3 + 5 + 1


def test_the_denial_and_the_untouched_pod_are_shown(shown):
    assert 'denied     typo: clearml-injector/fraction "0.5" is not allowed: use 0.125, ' in shown
    assert '(did you mean "0.500"?)' in shown
    assert "untouched  postgres: it has no label, so nothing was changed" in shown


def test_what_to_try_next_works(shown):
    commands = re.findall(r"fraction-injector (.*)$", shown.partition("\nNext")[2], re.MULTILINE)
    assert commands == ["explain --together --diff examples/demo/pods.yaml", "demo --serve", "webhook --help"]
    assert run(*commands[0].split()).returncode == 1
    assert run(*commands[2].split()).returncode == 0
