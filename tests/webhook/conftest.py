"""What several modules of the webhook's tests ask for by name."""

import pytest
from typer.testing import CliRunner

from cli.app import app


@pytest.fixture
def failing():
    """Exit status and last line of a command that ends before it serves; in this process, for speed."""

    def ask(*options):
        result = CliRunner().invoke(app, ["webhook", "--port", "0", *map(str, options)])
        assert isinstance(result.exception, SystemExit), result.exception
        return result.exit_code, result.stderr.splitlines()[-1]

    return ask
