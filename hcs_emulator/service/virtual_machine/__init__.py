"""Utility VMs as the host sees them."""
