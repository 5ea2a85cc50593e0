"""What is found out about single pods: that they wait, what they demand, and where GPUs are free for them."""
