"""The inside of a utility VM: one worker process per VM, with a guest and the containers in it.

`__main__` is the worker, `channel` its connection to the service. `windows/` is the Windows guest. Code that does not
depend on the guest's operating system is here: `hvsocket` (connections to the host), `bridge` and `bridge_frames` (the
GCS bridge) and `stdio_relay`. Another kind of guest is another package beside `windows/`.

The worker exits with its VM: killed by the service, or by itself when its guest shuts down. Its mounts are in a mount
namespace of its own, and its silos exit with it, so a VM leaks nothing.
"""
