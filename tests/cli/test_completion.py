"""Shells complete subcommands and their options."""

import os
import subprocess
import sys

import pytest

from tests.cli.running import CHECKOUT

pytestmark = pytest.mark.slow
COMMAND = "import sys; sys.argv = ['fraction-injector']; from cli.main import main; main()"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("fraction-injector w", {"why", "webhook"}),
        ("fraction-injector policy ", {"show", "schema"}),
        ("fraction-injector why --na", {"--namespace"}),
    ],
)
def test_a_word_that_is_begun_is_completed(words, expected):
    asked = {
        "_FRACTION_INJECTOR_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(words.count(" ")),
    }
    shown = subprocess.run(
        [sys.executable, "-c", COMMAND],
        env=os.environ | asked,
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert set(shown.stdout.split()) == expected, shown.stderr
