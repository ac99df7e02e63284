"""Task events: building them, queueing them, forwarding them to containerd."""
