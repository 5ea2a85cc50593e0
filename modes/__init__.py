"""Modes: the ways to request a share of a GPU, one module each, and how each is counted."""

PUBLIC = (
    "amounts",
    "fraction",
    "gpu_kinds",
    "gpu_names",
    "instance",
    "memory_text",
    "mig_choice",
    "mig_geometry",
    "mig_profiles",
    "mode",
    "packing",
    "pool_room",
    "registry",
    "resource_kinds",
    "resource_names",
    "units",
)
"""Modules that other packages import."""
