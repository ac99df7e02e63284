"""ttrpc: containerd's small RPC protocol. PROTOCOL.md, beside this file, says what goes over the wire.

Nothing is imported here, so that who needs only the frames (`core`, `envelope`) does not pay for the server.
"""
