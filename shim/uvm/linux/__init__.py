"""Utility VMs with a Linux guest (LCOW): the counterpart of `shim.uvm.windows`."""
