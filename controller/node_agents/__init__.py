"""What follows from what the nodes' agents say: nodes without a serving agent take no new pods."""
