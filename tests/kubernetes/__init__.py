"""Under a real kubelet and on a small cluster (`deploy/cluster`), with this shim as the runtime of pods."""
