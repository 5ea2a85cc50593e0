"""What several modules of the webhook's tests ask for by name."""

import pytest
from typer.testing import CliRunner

from cli.app import app


@pytest.fixture
def failing(monkeypatch):
    """Exit status and last line of a command that ends before it serves; in this process, for speed."""
    monkeypatch.setattr("cli.commands.webhook.configure_logging", lambda *_: None)

    def ask(*options):
        result = CliRunner().invoke(app, ["webhook", "--port", "0", *map(str, options)])
        assert isinstance(result.exception, SystemExit), result.exception
        return result.exit_code, result.stderr.splitlines()[-1]

    return ask
