"""`runhcs top`: a live view of the shims of this node."""
