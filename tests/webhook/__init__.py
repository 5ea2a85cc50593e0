"""Tests of webhook/."""
