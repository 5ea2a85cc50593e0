"""Real nodes for the tests: kubelet, containerd, runc and kube-proxy, each in a sandbox of namespaces."""
