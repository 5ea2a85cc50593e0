"""The domain: GPU accounts, the ledger as a fold over facts, eligibility and placement. Pure."""
