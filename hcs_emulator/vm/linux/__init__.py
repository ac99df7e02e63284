"""The inside of a Linux utility VM: its machine, and the guest agents that can run in it."""
