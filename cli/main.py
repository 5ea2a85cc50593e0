"""Entry of the fraction-injector command."""

from __future__ import annotations

from cli.subcommands import NAME, run


def main() -> None:
    """Run the command line; it loads only the requested subcommand."""
    run(NAME)


if __name__ == "__main__":
    main()
