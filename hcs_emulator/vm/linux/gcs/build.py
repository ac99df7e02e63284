"""Builds Microsoft's guest agent from its published Go module, once, into a cache outside the checkout.

Its source is unchanged but for what Hyper-V and its kernel provide: `virtsock/` takes the place of the module with its
sockets, `plan9/` that of its package for shares of the host, `devicemapper/` that of its access to the device mapper.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

MODULE = "github.com/Microsoft/hcsshim"
# The newest release that can be built, with the replacements it needs: see scripts/go-programs.sh.
VERSION = "v0.15.0-rc.3"
REPLACEMENTS = (
    "github.com/Microsoft/cosesign1go=github.com/Microsoft/cosesign1go@v1.4.0",
    "google.golang.org/genproto=google.golang.org/genproto@v0.0.0-20250428153025-10db94c68c34",
)
SOURCES = Path(__file__).resolve().parent
_PACKAGES = "internal/guest/storage"
_SUBSTITUTES = ("plan9/plan9.go", "devicemapper/devicemapper.go")
_LAST_LINES = 15


class BuildError(Exception):
    """The agent cannot be built; the message names the next step."""


def cache() -> Path:
    configured = os.environ.get("RUNHCS_CACHE")
    if configured:
        return Path(configured)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "containerd-shim-runhcs"


def program() -> Path:
    """Where the agent is, or will be: the name contains what it is built from."""
    content = hashlib.sha256("\n".join((VERSION, *REPLACEMENTS)).encode())
    for path in sorted(SOURCES.glob("*/**/*")):
        if path.suffix in (".go", ".mod"):
            content.update(path.read_bytes())
    return cache() / f"gcs-{VERSION}-{content.hexdigest()[:12]}" / "gcs"


def find_or_build() -> Path:
    """The agent, built if it is not in the cache."""
    target = program()
    if os.access(target, os.X_OK):
        return target
    target.parent.parent.mkdir(parents=True, exist_ok=True)
    with open(target.parent.parent / ".lock.gcs", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.access(target, os.X_OK):
            if shutil.which("go") is None:
                raise BuildError(
                    "Microsoft's guest agent is built from its Go module, and there is no `go` in PATH: install Go "
                    "1.23 or later (https://go.dev/dl), or use the emulator's own guest (--linux-guest emulated)"
                )
            print(f"building Microsoft's guest agent {VERSION} (once; kept in {target.parent.parent})", file=sys.stderr)
            with tempfile.TemporaryDirectory(prefix="gcs-build-") as work:
                _build(Path(work), target)
    return target


def _build(work: Path, target: Path) -> None:
    _go(work, "mod", "init", "programs")
    _go(work, "mod", "edit", "-require", f"{MODULE}@{VERSION}")
    module = work / "hcsshim"  # a copy: Go takes no changes of a module in its cache
    downloaded = json.loads(_go(work, "mod", "download", "-json", f"{MODULE}@{VERSION}"))
    shutil.copytree(downloaded["Dir"], module, copy_function=shutil.copyfile)
    for directory, _, _ in os.walk(module):
        os.chmod(directory, 0o755)  # the cache's are read-only
    for name in _SUBSTITUTES:
        shutil.copyfile(SOURCES / name, module / _PACKAGES / name)
    for replacement in (*REPLACEMENTS, f"github.com/linuxkit/virtsock={SOURCES / 'virtsock'}", f"{MODULE}={module}"):
        _go(work, "mod", "edit", "-replace", replacement)
    # Not after `go mod tidy`, which downloads what the tests of every dependency need: minutes instead of seconds.
    _go(work, "build", "-mod=mod", "-trimpath", "-ldflags", "-s -w", "-o", str(work / "gcs"), f"{MODULE}/cmd/gcs")
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".gcs.{os.getpid()}")
    shutil.copy(work / "gcs", partial)
    partial.replace(target)


def _go(work: Path, *arguments: str) -> str:
    environment = os.environ | {"CGO_ENABLED": "0", "GOOS": "linux", "GOFLAGS": "", "GOWORK": "off"}
    result = subprocess.run(["go", *arguments], cwd=work, env=environment, capture_output=True, text=True)
    if result.returncode != 0:
        last = "\n".join((result.stdout + result.stderr).splitlines()[-_LAST_LINES:])
        raise BuildError(f"Microsoft's guest agent cannot be built: `go {' '.join(arguments[:2])}` failed:\n{last}")
    return result.stdout


def main() -> int:
    try:
        print(find_or_build())
    except BuildError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
