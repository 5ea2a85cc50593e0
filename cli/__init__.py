"""The fraction-injector command."""

from service.version import VERSION

__all__ = ["VERSION"]
