"""The node agent: a device plugin that offers GPUs in slices, watches their health and sets their limits."""
