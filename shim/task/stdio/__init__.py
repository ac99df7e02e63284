"""The stdio of one process: its endpoints, and the relay between them."""
