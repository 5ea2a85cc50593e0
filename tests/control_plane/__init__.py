"""A real Kubernetes control plane, and what only it can prove."""
