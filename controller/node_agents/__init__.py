"""Uses the reports of node agents: nodes that take no new pods, and an audit of the ledger."""
