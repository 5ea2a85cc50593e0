"""What the controller publishes: GpuLedgers, Events on nodes and pods, metrics, and the page."""
