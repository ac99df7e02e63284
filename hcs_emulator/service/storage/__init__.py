"""Layers, virtual disks and mounts."""
