"""`runhcs agent`: receives the reports of a node's shims, and serves metrics of them."""
