"""Sockets and frames between the native library and the service."""
