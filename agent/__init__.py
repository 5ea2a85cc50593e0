"""The node agent: a device plugin that offers GPUs in slices, watches their health and sets their limits."""

PUBLIC = ("options",)
"""Modules that other packages import."""

PUBLIC = ("options",)
"""Modules that other packages import."""

PUBLIC = ("options",)
"""Modules that other packages import."""
