"""Reviews that may take long, each decided by a process of its own that can be ended."""
