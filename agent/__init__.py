"""The node agent: a device plugin that offers GPUs in slices, watches their health and limits containers."""

PUBLIC = (
    "card_names",
    "cdi",
    "cdi_reader",
    "files",
    "gpu",
    "limits",
    "node_lock",
    "nvml",
    "options",
    "policy_compiler",
    "private_folder",
    "settings",
    "shares",
)
"""Modules that other packages import."""
