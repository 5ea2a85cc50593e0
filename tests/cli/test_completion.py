"""Shells complete subcommands and their options."""

import sys

import pytest

from cli.main import main


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("fraction-injector w", {"why", "webhook"}),
        ("fraction-injector policy ", {"show", "schema"}),
        ("fraction-injector why --na", {"--namespace"}),
    ],
)
def test_a_word_that_is_begun_is_completed(words, expected, monkeypatch, capsys):
    monkeypatch.setenv("_FRACTION_INJECTOR_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(words.count(" ")))
    # As a console script starts it, and not `python -m pytest`.
    monkeypatch.setattr(sys, "argv", ["fraction-injector"])
    monkeypatch.setattr("__main__.__package__", None)
    with pytest.raises(SystemExit):
        main()
    assert set(capsys.readouterr().out.split()) == expected
