"""What an agent tells the API server of its node. Nothing else of it speaks with Kubernetes' API."""
