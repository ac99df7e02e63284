"""The usage of containerd-shim-runhcs-v1 as tables: `-help` and the man page are both made from them.

Only `-help` imports this module. The parser in shim/__main__.py has the bare names; a test compares the two.
"""

from __future__ import annotations

SUMMARY = """\
containerd-shim-runhcs-v1 is run by containerd, not by hand: it serves the containers of one pod whose runtime is
io.containerd.runhcs.v1. To see it work, use `ctr run --runtime io.containerd.runhcs.v1 ...` or `runhcs --help`."""
# (arguments, effect)
COMMANDS = (
    ("FLAGS start", "in a bundle directory: start the daemon, or find the pod's, and print its address"),
    ("FLAGS delete", "release what a container left behind, print a DeleteResponse"),
    ("FLAGS serve", "run the daemon in the foreground (needs -socket)"),
    ("-info", "print a RuntimeInfo"),
    ("-version", "print versions"),
)
# (flag, value, meaning, commands that use it)
FLAGS = (
    ("namespace", "NAME", "containerd's namespace", "start, delete, serve"),
    ("address", "PATH", "containerd's gRPC address", "start, delete, serve"),
    ("publish-binary", "PATH", "containerd, to publish events", "start, delete, serve"),
    ("id", "ID", "container or sandbox", "start, delete, serve"),
    ("bundle", "DIR", "the container's bundle", "delete; serve (default: current directory)"),
    ("socket", "ADDRESS", "address to listen on", "serve"),
    ("is-sandbox", "", "the id is a pod sandbox", "serve"),
    ("debug", "", "log at debug level", ""),
)
# Flags that the shim passes to its own processes.
INTERNAL_FLAGS = ("listener", "log-pipe", "scope", "standby", "spawned")
STDIN = """\
Runtime options are read from stdin by start, serve and -info (a protobuf Any, or BootstrapParams; empty is fine)."""
# (variable, meaning)
ENVIRONMENT = (
    ("TTRPC_ADDRESS", "the address of containerd for events"),
    ("RUNHCS_SOCKET_DIR", "the directory of sockets (default /run/containerd/s)"),
)


def help_text() -> str:
    lines = [SUMMARY, ""]
    lines += [f"  {f'containerd-shim-runhcs-v1 {arguments}':<41} {effect}" for arguments, effect in COMMANDS]
    lines += ["", "Flags take one dash or two, a value after a space or after '=':"]
    lines += [f"  {f'-{flag} {value}':<23} {meaning:<43} {used}".rstrip() for flag, value, meaning, used in FLAGS]
    lines += ["", STDIN, "", "Environment:"]
    lines += [f"  {name:<23} {meaning}" for name, meaning in ENVIRONMENT]
    return "\n".join(lines) + "\n"
