"""A campaign against the controller: hostile asks, watch events, MIG cards, and requests to its page."""
