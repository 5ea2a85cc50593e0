"""Modes: the ways to ask for a share of a GPU, one module each, and how each is counted."""
