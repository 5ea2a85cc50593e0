"""From an AdmissionReview to a JSON Patch or a one-line denial."""

PUBLIC = (
    "admission.annotations",
    "admission.denial",
    "admission.jobs",
    "admission.pod",
    "admission_request",
    "admission_review",
    "decision",
    "options",
    "placing.placer",
    "policy_resolver",
    "process",
    "review",
    "rules",
)
"""Modules that other packages import."""
