"""Modes: the ways to request a share of a GPU, one module each, and how each is counted."""

PUBLIC = (
    "claim",
    "claim_name",
    "facts",
    "fraction",
    "gpu_kinds",
    "gpu_names",
    "instance",
    "memory_text",
    "mig_geometry",
    "mig_profiles",
    "mode",
    "registry",
    "resource_kinds",
    "resource_names",
    "units",
)
"""Modules that other packages import."""
