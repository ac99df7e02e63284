"""Name and version of the shim, for -version, -info and the log."""

NAME = "containerd-shim-runhcs-v1"
VERSION = "0.1.0"
