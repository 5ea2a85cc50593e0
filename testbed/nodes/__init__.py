"""Real nodes for the tests: kubelet, containerd, runc and kube-proxy, each node in a box of namespaces."""
