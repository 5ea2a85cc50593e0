"""What tests of one command share."""

import pytest

from tests.cli.commands.why_api import Api
from tests.cli.running import run, serve


@pytest.fixture
def ask(monkeypatch):
    """`why train` of a user to whom the API server gives these answers."""

    def call(answers, *arguments):
        serve(monkeypatch, Api(answers))
        return run("why", "train", "-n", "team", *arguments)

    return call
