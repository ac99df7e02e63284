"""ShimDiag and Inspect: looking into a running shim."""
