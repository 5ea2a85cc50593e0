"""Kubernetes' vocabulary, pure: names, quantities, objects, scheduling terms and their matching."""

PUBLIC = (
    "events",
    "matching",
    "names",
    "objects",
    "quantity",
    "reasons",
    "resource_requests",
    "scheduling",
)
"""Modules that other packages import."""
