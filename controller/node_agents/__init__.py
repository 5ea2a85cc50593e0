"""What follows from what the nodes' agents say: nodes that take no new pods, and an audit of the ledger."""
