"""ttrpc: containerd's RPC protocol. PROTOCOL.md, beside this file, describes the wire format.

The specification: https://github.com/containerd/ttrpc/blob/main/PROTOCOL.md. Nothing is imported here, so that a user
of the frames only (`core`, `envelope`) does not import the server.
"""
