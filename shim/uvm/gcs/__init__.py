"""The link to the guest service inside a utility VM. See PROTOCOL.md for what goes over the wire."""
