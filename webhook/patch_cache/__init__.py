"""Cached patches for pods that differ from an earlier one only in names; an optional layer."""
