"""Reads policy files into a checked set of policies."""
