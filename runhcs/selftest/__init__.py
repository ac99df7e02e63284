"""`runhcs selftest`: run containers on this node and verify what the shim needs of it."""
