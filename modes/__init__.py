"""Modes: the ways to request a share of a GPU, one module each, and how each is counted."""
