"""Entry of the fraction-injector command."""


def main() -> None:
    """Run the command line."""
