"""Tests that make clusters of their own, one after the other."""
