"""The images of a cluster without a registry: busybox, and the sandbox image of runc's pods, from Debian's package
busybox-static. Other images come from archives (`load`)."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import platform
import subprocess
import tarfile
from pathlib import Path
from typing import Any

from deploy.cluster import programs

BUSYBOX = "localhost/busybox:1"
SANDBOX = "localhost/pause:1"
DIRECTORIES = ("bin", "dev", "etc", "home", "proc", "root", "run", "sys", "tmp", "var", "www")
FILES = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n",
    "etc/group": "root:x:0:\nnobody:x:65534:\n",
    "www/index.html": "a page of the image\n",
}
TIMEOUT = 60.0
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_TYPE = "application/vnd.oci.image"


def write_busybox(target: Path, name: str = BUSYBOX) -> Path:
    """An archive (OCI layout) for `ctr images import`: busybox with a link for each of its programs."""
    busybox = programs.system("busybox")
    listed = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True, timeout=TIMEOUT)
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        for directory in DIRECTORIES:
            entry = tarfile.TarInfo(directory)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if directory == "tmp" else 0o755
            tar.addfile(entry)
        for path, text in FILES.items():
            _add(tar, path, text.encode())
        tar.add(busybox, arcname="bin/busybox")
        for applet in listed.stdout.split():
            if applet != "busybox":
                entry = tarfile.TarInfo(f"bin/{applet}")
                entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
                tar.addfile(entry)
    write_layout(target, layer.getvalue(), name)
    return target


def write_layout(target: Path, layer: bytes, name: str) -> None:
    """An archive of an image with one layer, a tar file."""
    system = {"architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()), "os": "linux"}
    config = {
        **system,
        "config": {"Cmd": ["sleep", "infinity"], "Env": ["PATH=/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
    }
    with tarfile.open(target, "w") as tar:
        manifest = {
            "schemaVersion": 2,
            "mediaType": f"{_TYPE}.manifest.v1+json",
            "config": _blob(tar, json.dumps(config).encode(), "config.v1+json"),
            "layers": [_blob(tar, gzip.compress(layer, 1), "layer.v1.tar+gzip")],
        }
        entry = _blob(tar, json.dumps(manifest).encode(), "manifest.v1+json")
        entry |= {"platform": system, "annotations": {"io.containerd.image.name": name}}
        index = {"schemaVersion": 2, "mediaType": f"{_TYPE}.index.v1+json", "manifests": [entry]}
        _add(tar, "index.json", json.dumps(index).encode())
        _add(tar, "oci-layout", b'{"imageLayoutVersion": "1.0.0"}')


def _blob(tar: tarfile.TarFile, data: bytes, kind: str) -> dict[str, Any]:
    digest = _digest(data)
    _add(tar, f"blobs/{digest.replace(':', '/')}", data)
    return {"mediaType": f"{_TYPE}.{kind}", "digest": digest, "size": len(data)}


def _digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), 0o644
    tar.addfile(entry, io.BytesIO(data))
