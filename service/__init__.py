"""What every process of ours shares: structured logging, the metrics registry, settings."""
