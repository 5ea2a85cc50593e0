"""Chooses the node and the GPUs of a pod."""
