"""The sockets and frames between native libraries and the service."""
