"""The standby: a warm process that becomes the daemon of the next `start`."""
