"""Checks of an installation, from the driver to the denied pod: what reads, and what judges."""

PUBLIC = (
    "checks",
    "finding",
    "reader",
)
"""Modules that other packages import."""
