"""The stdio of one process: where it goes, and moving the bytes."""
