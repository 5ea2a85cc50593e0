"""Where the webhook asks for a place, and what it does when nobody answers."""
