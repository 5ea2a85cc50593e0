"""The fraction-injector command with every subcommand."""

from __future__ import annotations

from cli.subcommands import make_app

app = make_app()
