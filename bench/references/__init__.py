"""What ours is measured against, written by us: the idiomatic webhook, and the least a server can do."""
