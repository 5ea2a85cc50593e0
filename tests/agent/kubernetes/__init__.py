"""What the agent tells the API server."""
