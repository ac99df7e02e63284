"""OCI images for `ctr images import`: a layout in a tar file, as a registry would deliver it."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.image import make_image

NAME = "example.test/small:1"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_TYPE = "application/vnd.oci.image"


GREET = ("/bin/sh", "-c", "echo hello from the image")


def pack_image(directory: Path, name: str = NAME, command: Sequence[str] = GREET) -> Path:
    """An image with the programs of `tests.support.image`; by default it prints a greeting and exits with 0."""
    root = make_image(directory / "root")
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        tar.add(root, arcname=".")
    target = directory / "image.tar"
    system = {"architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()), "os": "linux"}
    write_image(target, layer.getvalue(), system, {"Cmd": list(command), "Env": ["PATH=/bin", "FROM=image"]}, name)
    return target


def write_image(target: Path, layer: bytes, system: dict[str, str], config: dict[str, Any], name: str) -> None:
    """Write an OCI layout with one layer (a tar) to `target`. `system` is the platform of its config and manifest."""
    rootfs = {"type": "layers", "diff_ids": [_digest(layer)]}
    with tarfile.open(target, "w") as tar:
        blobs = _Blobs(tar)
        manifest = {
            "schemaVersion": 2,
            "mediaType": f"{_TYPE}.manifest.v1+json",
            "config": blobs.add(json.dumps({**system, "config": config, "rootfs": rootfs}).encode(), "config.v1+json"),
            "layers": [blobs.add(gzip.compress(layer, 1), "layer.v1.tar+gzip")],
        }
        entry = blobs.add(json.dumps(manifest).encode(), "manifest.v1+json")
        entry["platform"] = system
        entry["annotations"] = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": "1"}
        index = {"schemaVersion": 2, "mediaType": f"{_TYPE}.index.v1+json", "manifests": [entry]}
        _add(tar, "index.json", json.dumps(index).encode())
        _add(tar, "oci-layout", b'{"imageLayoutVersion": "1.0.0"}')


class _Blobs:
    def __init__(self, tar: tarfile.TarFile) -> None:
        self._tar = tar

    def add(self, data: bytes, kind: str) -> dict[str, Any]:
        digest = _digest(data)
        _add(self._tar, f"blobs/{digest.replace(':', '/')}", data)
        return {"mediaType": f"{_TYPE}.{kind}", "digest": digest, "size": len(data)}


def _digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    tar.addfile(entry, io.BytesIO(data))
