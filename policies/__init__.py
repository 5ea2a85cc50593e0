"""Policies of admins: the model, its loader, the default policy and the limiter presets."""

PUBLIC = (
    "loading.clearml_chart",
    "loading.lint",
    "loading.loader",
    "loading.policy_set",
    "loading.provenance",
    "loading.reference",
    "loading.reload",
    "loading.strict_yaml",
    "loading.values",
    "model.allowances",
    "model.effective",
    "model.label_advice",
    "model.limiters",
    "model.pod_keys",
    "model.problems",
    "model.sidecars",
)
"""Modules that other packages import."""
