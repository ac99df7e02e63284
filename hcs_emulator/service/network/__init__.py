"""The Host Compute Network (HCN), and its predecessor HNS."""
