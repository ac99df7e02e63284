"""The standby: a process with everything imported, from which the next `start` gets its daemon (a zygote)."""
