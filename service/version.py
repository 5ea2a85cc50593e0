"""The version of the product."""

VERSION = "0.1.0"
"""A test compares it with pyproject.toml, the chart and the image."""
