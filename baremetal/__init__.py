"""Queues of one machine without Kubernetes: tasks get shares of its cards."""

PUBLIC = ("attempt", "machine", "process", "queues", "runner", "store", "supervisor", "task")
"""Modules that other packages import."""
