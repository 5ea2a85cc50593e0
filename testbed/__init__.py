"""A real control plane on this machine, which tests and benches share."""
