"""The fraction-injector command."""
