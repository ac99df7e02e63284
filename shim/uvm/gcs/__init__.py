"""The connection to the Guest Compute Service (GCS) of a utility VM. PROTOCOL.md describes the wire format."""
