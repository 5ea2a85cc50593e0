"""The agent's client of the API server, and what it writes and reads there."""
