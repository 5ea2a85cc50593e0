"""Removes the scheduling gate of pods that wait for a quota, when it is their turn."""
