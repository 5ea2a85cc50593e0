"""The agent's reports to the API server. No other part of the agent uses the Kubernetes API."""
