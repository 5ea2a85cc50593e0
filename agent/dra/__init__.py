"""The agent as a driver of Dynamic Resource Allocation, in place of a device plugin."""
