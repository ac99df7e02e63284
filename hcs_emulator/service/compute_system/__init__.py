"""Compute systems and their processes, as HCS shows them; process-isolated containers."""
