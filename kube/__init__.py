"""Kubernetes' vocabulary: names, quantities, objects, scheduling terms and their matching. Pure."""

PUBLIC = (
    "container_status",
    "cordon",
    "device_keys",
    "dra",
    "events",
    "matching",
    "names",
    "objects",
    "other_constraints",
    "quantity",
    "reasons",
    "resource_requests",
    "scheduling",
)
"""Modules that other packages import."""
