"""Entry of the fraction-injector command."""

from __future__ import annotations

import gc
import sys

from cli.subcommands import SUBCOMMANDS, make_app


def main() -> None:
    """Run the command line; it loads only the requested subcommand."""
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    # Loaded modules stay, and garbage collection would take a tenth of the start.
    gc.disable()
    app = make_app([wanted] if wanted in SUBCOMMANDS else SUBCOMMANDS)
    gc.freeze()
    gc.enable()
    app()


if __name__ == "__main__":
    main()
