"""Single pods: whether they wait, their demands, and the nodes with free GPUs for them."""
