"""The domain: GPU accounts, the ledger as a fold over facts, eligibility and placement. Pure."""

PUBLIC = (
    "accounts",
    "claims",
    "cordon",
    "denial_counts",
    "free_nodes",
    "from_kubernetes",
    "instance_worth",
    "ledger",
    "messages",
    "node_capacity",
    "own_demands",
    "owners",
    "placement.label_index",
    "placement.work",
    "placement_request",
    "queue_names",
    "quota_line",
    "reservations",
    "use",
    "use_history",
    "view",
    "why",
    "why_refused",
)
"""Modules that other packages import."""
