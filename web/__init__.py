"""The page: nodes, their GPUs and who holds them, as it changes. Served by the controller, and standalone."""
