"""A read-only image registry on a loopback address: the pull half of the OCI distribution specification.

It serves what `Store` holds, over plain HTTP. containerd uses it in place of other registries, by its hosts
configuration: https://github.com/containerd/containerd/blob/main/docs/hosts.md. The registry that an image is from is
then the parameter `ns` of a request.
"""

from __future__ import annotations

import json
import re
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.support.oci_image import INDEX_TYPE, Image, digest

_TYPE = "application/vnd.oci.image"
MANIFEST = f"{_TYPE}.manifest.v1+json"
CONFIG = f"{_TYPE}.config.v1+json"
LAYER = f"{_TYPE}.layer.v1.tar+gzip"
_PATH = re.compile(r"/v2/(?P<name>[a-z0-9._/-]+)/(?P<kind>manifests|blobs)/(?P<reference>[A-Za-z0-9._:-]+)")


class Store:
    """Blobs by digest, and tags."""

    def __init__(self) -> None:
        self.blobs: dict[str, tuple[str, bytes]] = {}
        self.tags: dict[tuple[str, str], str] = {}

    def add(self, media_type: str, data: bytes) -> dict[str, Any]:
        """Add a blob; returns its descriptor."""
        self.blobs[digest(data)] = (media_type, data)
        return {"mediaType": media_type, "digest": digest(data), "size": len(data)}

    def tag(self, name: str, tag: str, manifest: dict[str, Any]) -> None:
        """Tag an image of any registry."""
        descriptor = self.add(MANIFEST, json.dumps(manifest).encode())
        self.tags[name, tag] = descriptor["digest"]

    def add_image(self, reference: str, image: Image) -> None:
        """Add an image of one registry: `registry.example/name:tag`."""
        for data in image.blobs.values():
            self.add("application/octet-stream", data)
        self.add(MANIFEST, image.blobs[image.descriptor["digest"]])
        name, _, tag = reference.rpartition(":")
        self.tags[name, tag] = self.add(INDEX_TYPE, image.index())["digest"]

    def find(self, kind: str, registry: str, name: str, reference: str) -> tuple[str, str, bytes] | None:
        """Digest, media type and content."""
        found = reference
        if kind == "manifests":
            of_any = self.tags.get((name, reference), reference)
            found = self.tags.get((f"{registry}/{name}", reference), of_any)
        return (found, *self.blobs[found]) if found in self.blobs else None


class Registry:
    """Serves a store, inside a `with` statement, on a listening socket or a new one."""

    def __init__(self, store: Store, listener: socket.socket | None = None) -> None:
        class Handler(_Handler):
            images = store

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler, bind_and_activate=listener is None)
        if listener is not None:
            self._server.socket.close()
            self._server.socket = listener
        self._server.daemon_threads = True
        self.address = "http://{}:{}".format(*self._server.socket.getsockname()[:2])
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Registry:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._thread.join(10)
        self._server.server_close()

    def write_hosts(self, directory: Path, registries: tuple[str, ...] = ("_default",)) -> None:
        """Write the hosts configuration of containerd that has this registry for others, or for every other one."""
        text = f'server = "{self.address}"\n[host."{self.address}"]\ncapabilities = ["pull", "resolve"]\n'
        for registry in registries:
            (directory / registry).mkdir(parents=True)
            (directory / registry / "hosts.toml").write_text(text)


class _Handler(BaseHTTPRequestHandler):
    images: Store
    protocol_version = "HTTP/1.1"
    timeout = 60

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        path = url.path
        if path in ("/v2", "/v2/"):
            return self._answer(200, "application/json", b"{}")
        match = _PATH.fullmatch(path)
        [registry] = parse_qs(url.query).get("ns", [""])
        found = self.images.find(match["kind"], registry, match["name"], match["reference"]) if match else None
        if found is None:
            code = "MANIFEST_UNKNOWN" if match and match["kind"] == "manifests" else "BLOB_UNKNOWN"
            errors = {"errors": [{"code": code, "message": f"{path} is not in this registry"}]}
            return self._answer(404, "application/json", json.dumps(errors).encode())
        digest, media_type, data = found
        return self._answer(200, media_type, data, digest)

    do_HEAD = do_GET  # noqa: N815

    def _answer(self, status: int, media_type: str, data: bytes, digest: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Docker-Distribution-API-Version", "registry/2.0")
        if digest:
            self.send_header("Docker-Content-Digest", digest)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, format: str, *arguments: object) -> None:
        pass
