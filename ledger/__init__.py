"""The domain: GPU accounts, the ledger as a fold over facts, eligibility and placement. Pure."""

PUBLIC = (
    "card_view",
    "claim_room",
    "claimed_cards",
    "claims",
    "denial_counts",
    "free_nodes",
    "from_kubernetes",
    "instance_worth",
    "ledger",
    "messages",
    "own_demands",
    "owners",
    "placement_request",
    "queue_names",
    "quota_line",
    "reservations",
    "totals",
    "use",
    "use_history",
    "view",
    "why",
    "why_claim",
    "why_refused",
)
"""Modules that other packages import."""
