"""The page: nodes, their GPUs and who uses them, live. The controller serves it; it also runs standalone."""

PUBLIC = ("links", "page", "source")
"""Modules that other packages import."""
