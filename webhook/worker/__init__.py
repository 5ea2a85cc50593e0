"""Reviews that may take long, each decided in a separate process that can be killed."""
