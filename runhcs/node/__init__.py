"""`runhcs node-install`: the program of the DaemonSet that keeps the shim of its image installed on each node.

`command` runs the loop, `reconcile` decides, `host` runs `runhcs install`, `selftest` and `doctor`, `record` stores a
version that failed, `cluster` reports to Kubernetes and `readiness` to the kubelet.
"""
