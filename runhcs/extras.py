"""The extras of the wheel, and the error for one that is not installed."""

from __future__ import annotations

DISTRIBUTION = "containerd-shim-runhcs"
# Third-party modules by the extra that installs them.
EXTRAS = {
    "runhcs": ("attr", "attrs", "cattrs", "rich", "win32security", "win32service"),
    "client": ("grpc", "google"),
    "agent": ("opentelemetry", "prometheus_client", "psutil"),
}


def pip_command(extra: str) -> str:
    return f"pip install '{DISTRIBUTION}[{extra}]'"


def missing_extra(error: ModuleNotFoundError, default: str) -> str | None:
    """One line that names the pip command, if a module of an extra is missing; `default` is the extra of the caller."""
    name = error.name or ""
    package = name.partition(".")[0]
    if not any(package in modules for modules in EXTRAS.values()):
        return None
    return f"the Python package {package!r} is not installed: {pip_command(default)}"
