"""How the webhook gets placements, and what it does if the controller does not answer."""
