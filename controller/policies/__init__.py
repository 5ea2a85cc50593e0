"""The webhook's policies as the controller follows them: broken, delivered, and in force."""
