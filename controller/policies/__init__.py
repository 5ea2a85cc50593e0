"""The webhook's policies in the controller: whether they are broken, delivered, and in force."""
