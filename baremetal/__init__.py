"""Queues of one machine without Kubernetes: tasks get shares of its cards, through the ledger."""

PUBLIC = ("folder", "process", "report", "runner", "store", "supervisor", "task")
"""Modules that other packages import."""
