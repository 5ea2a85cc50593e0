"""Checks of an installation, from the driver to the denied pod: modules that read, and that judge."""

PUBLIC = ("checks", "finding", "machine", "reader")
"""Modules that other packages import."""
