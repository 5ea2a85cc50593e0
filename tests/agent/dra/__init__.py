"""Tests of the driver of Dynamic Resource Allocation."""
