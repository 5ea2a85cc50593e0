"""The fraction-injector command."""

VERSION = "0.1.0"
"""Of the product; a test holds it against pyproject.toml, the chart and the image."""
