"""The inside of a utility VM: one process per VM, with a guest service that dials the host and containers of its own.

The process ends with its VM: killed by HCS, or by itself when its guest shuts down. What it mounts is in a mount
namespace of its own, and its silos end with it, so that nothing of a VM can stay behind.
"""
