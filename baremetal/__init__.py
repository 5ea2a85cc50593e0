"""Queues of one machine without Kubernetes: tasks get shares of its cards, through the ledger."""

PUBLIC = ("machine", "process", "queues", "runner", "store", "supervisor", "task")
"""Modules that other packages import."""
