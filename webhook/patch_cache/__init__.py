"""Patches of pods that differ from an earlier one in names alone; an optional layer."""
