"""The node agent: a device plugin that offers GPUs in slices, watches their health and limits containers."""

PUBLIC = ("options",)
"""Modules that other packages import."""
