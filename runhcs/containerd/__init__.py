"""Clients of containerd's gRPC API."""
