"""Kueue's own manager next to the control plane: built from its module, with its own manifests."""
