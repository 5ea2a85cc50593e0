"""The version of the product."""

VERSION = "0.1.0"
"""A test holds it against pyproject.toml, the chart and the image."""
