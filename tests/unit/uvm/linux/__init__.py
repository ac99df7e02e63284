"""Unit tests of `shim.uvm.linux`."""
