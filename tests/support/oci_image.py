"""OCI images: in memory, for a registry, and as a layout in a tar file, for `ctr images import`."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

_TYPE = "application/vnd.oci.image"
INDEX_TYPE = f"{_TYPE}.index.v1+json"


class Image:
    """An image with one layer (a tar). `system` is the platform of its config and of its manifest."""

    def __init__(self, layer: bytes, system: dict[str, str], config: dict[str, Any]) -> None:
        self.blobs: dict[str, bytes] = {}  # by digest
        rootfs = {"type": "layers", "diff_ids": [digest(layer)]}
        manifest = {
            "schemaVersion": 2,
            "mediaType": f"{_TYPE}.manifest.v1+json",
            "config": self._add(json.dumps({**system, "config": config, "rootfs": rootfs}).encode(), "config.v1+json"),
            "layers": [self._add(gzip.compress(layer, 1, mtime=0), "layer.v1.tar+gzip")],
        }
        self.descriptor = {**self._add(json.dumps(manifest).encode(), "manifest.v1+json"), "platform": system}

    def index(self, **members: Any) -> bytes:
        """An index with this image. `members` are added to the descriptor of the manifest."""
        index = {"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": [{**self.descriptor, **members}]}
        return json.dumps(index).encode()

    def _add(self, data: bytes, kind: str) -> dict[str, Any]:
        name = digest(data)
        self.blobs[name] = data
        return {"mediaType": f"{_TYPE}.{kind}", "digest": name, "size": len(data)}


def write_image(target: Path, layer: bytes, system: dict[str, str], config: dict[str, Any], name: str) -> None:
    """Write an OCI layout with one layer (a tar) to `target`."""
    image = Image(layer, system, config)
    with tarfile.open(target, "w") as tar:
        for blob, data in image.blobs.items():
            _add(tar, f"blobs/{blob.replace(':', '/')}", data)
        annotations = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": "1"}
        _add(tar, "index.json", image.index(annotations=annotations))
        _add(tar, "oci-layout", b'{"imageLayoutVersion": "1.0.0"}')


def digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    tar.addfile(entry, io.BytesIO(data))
