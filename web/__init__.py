"""The page: nodes, their GPUs and who uses them, live. The controller serves it; it also runs standalone."""
