"""Utility VMs: their HCS documents, devices (VSMB, SCSI, vPCI), networks, and the containers that run in them."""
