"""Which node and which GPU a pod gets."""
