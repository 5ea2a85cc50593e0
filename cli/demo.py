"""fraction-injector demo."""


def demo() -> None:
    """Show it."""
