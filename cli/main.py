"""Entry of the fraction-injector command."""

from __future__ import annotations

import gc
import sys
from importlib import import_module

import typer

SERVERS = ("webhook", "controller", "agent")
"""Subcommands that stay up: such a process imports nothing of the others, which would stay in its memory."""


def main() -> None:
    """Run the command line."""
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    app: typer.Typer = _server(wanted) if wanted in SERVERS else import_module("cli.app").app
    app()


def _server(name: str) -> typer.Typer:
    app = typer.Typer(
        name="fraction-injector",
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",
    )
    app.callback()(lambda: None)  # without it a single command would not be called by its name
    # What is loaded here stays: to look for garbage in between takes a tenth of the start.
    gc.disable()
    app.command(name)(getattr(import_module(f"cli.commands.{name}"), name))
    gc.freeze()
    gc.enable()
    return app


if __name__ == "__main__":
    main()
