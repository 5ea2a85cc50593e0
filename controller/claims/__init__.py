"""Makes the ResourceClaimTemplates of pods in modes of claims, and collects those that nobody uses."""
