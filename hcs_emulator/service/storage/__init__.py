"""Layers, virtual disks, access of VMs to files, and mounts."""
