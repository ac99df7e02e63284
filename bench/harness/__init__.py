"""Drives shims as containerd does: candidates, bundles, commands and calls, events, the leak check, progress."""
