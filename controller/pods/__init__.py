"""Single pods: whether they wait, what they demand, and where GPUs are free for them."""
