"""Keeps what pods used of their shares, reports idle shares, and evicts their pods if a policy says so."""
