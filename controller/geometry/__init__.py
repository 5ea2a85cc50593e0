"""Divides MIG cards on demand: a pure planner, and a loop that applies its plans through the MIG manager."""
