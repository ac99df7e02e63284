"""Who we are, for -version, -info and the log."""

NAME = "containerd-shim-runhcs-v1"
VERSION = "0.1.0"
