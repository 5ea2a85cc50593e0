"""Divides MIG cards on demand: a pure planner, and its plans carried out through NVIDIA's MIG manager."""
