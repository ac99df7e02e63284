"""The images that critest pulls, made of Debian packages under the names that critest uses.

| image | content |
| --- | --- |
| `e2e-test-images/busybox` and critest's own `test-image-*` | busybox, `ipcs` of util-linux, `pgrep` of procps |
| `e2e-test-images/httpd` | the same, with busybox's `httpd` on port 80 |
| `e2e-test-images/nginx`, `hostnet-nginx-<architecture>` | the same and nginx, on port 80 or 12003 |
| `e2e-test-images/nonewprivs` | a setuid program that prints its effective user |

One image is missing: `test-image-digest` is named by the digest of the published image, which cannot be made here.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import platform
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

from tests.support import busybox_image
from tests.support.oci_registry import CONFIG, LAYER, MANIFEST, Store
from tests.support.programs import copy_program, find_program

HERE = Path(__file__).resolve().parent
ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
#: Names that images are pulled by; all of them are this registry.
REGISTRIES = ("registry.k8s.io", "k8s.gcr.io", "gcr.io")
SANDBOX = "registry.k8s.io/sandbox:1"

E2E = "e2e-test-images"
CRI_TOOLS = "k8s-staging-cri-tools"
PASSWD = (
    "root:x:0:0:root:/root:/bin/sh\n"
    "www-data:x:33:33:www-data:/var/www:/bin/false\n"
    "default-user:x:1000:1000:default-user:/home:/bin/sh\n"
    "nobody:x:65534:65534:nobody:/:/bin/false\n"
)
GROUP = (
    "root:x:0:\nwww-data:x:33:\ndefault-user:x:1000:\ngroup-defined-in-image:x:50000:default-user\nnogroup:x:65534:\n"
)
NGINX = """user www-data;
worker_processes 1;
pid /var/run/nginx.pid;
error_log stderr;
events {{ worker_connections 64; }}
http {{
    access_log off;
    server {{ listen {port}; root /usr/share/nginx/html; }}
}}
"""
# Users of images, by the rest of the image's name.
USERS = {
    "uid": "1002", "username": "www-data", "uid-group": "1003:1004", "username-group": "www-data:1004",
}  # fmt: skip
TIMEOUT = 300


def make_store(work: Path) -> Store:
    """Build all images; `work` is an empty directory."""
    images = _Images(Store())
    busybox = images.layer(_busybox(work / "busybox", work / "packages"))
    shell = {"Cmd": ["sh"], "Env": ["PATH=/bin:/usr/bin:/usr/sbin"]}
    images.add(f"{E2E}/busybox", "1.29-2", busybox, shell)
    for name in ("test-image-1", "test-image-2", "test-image-3", "test-image-latest"):
        images.add(f"{CRI_TOOLS}/{name}", "latest", busybox, {**shell, "Labels": {"name": name}})
    for tag in ("test", "all"):
        images.add(f"{CRI_TOOLS}/test-image-tag", tag, busybox, {**shell, "Labels": {"tag": tag}})
    for tag in ("1", "2", "3"):  # one image
        images.add(f"{CRI_TOOLS}/test-image-tags", tag, busybox, {**shell, "Labels": {"name": "same-image"}})
    for suffix, user in USERS.items():
        images.add(f"{CRI_TOOLS}/test-image-user-{suffix}", "latest", busybox, {**shell, "User": user})
    images.add(f"{CRI_TOOLS}/test-image-predefined-group", "latest", busybox, {**shell, "User": "1000"})
    for name, tag in (("pause", "3.9"), ("sandbox", "1")):
        # Not `sleep`: critest counts processes of that name in the pod.
        images.add(name, tag, busybox, {**shell, "Cmd": ["tail", "-f", "/dev/null"], "Labels": {"name": name}})
    httpd = {**shell, "Cmd": ["sh", "-c", "echo httpd on port 80; exec httpd -f -p 80 -h /www"]}
    images.add(f"{E2E}/httpd", "2.4.39-4", busybox, httpd)
    server = {**shell, "Cmd": ["nginx", "-g", "daemon off;"]}
    for name, tag, port in (
        (f"{E2E}/nginx", "1.14-2", 80),
        (f"{CRI_TOOLS}/hostnet-nginx-{ARCHITECTURE}", "latest", 12003),
    ):
        images.add(name, tag, images.layer(_nginx(work / f"nginx-{port}", work / "packages", port)), server)
    program = {**shell, "Cmd": ["/nonewprivs"]}
    images.add(f"{E2E}/nonewprivs", "1.3", images.layer(_nonewprivs(work / "nonewprivs")), program)
    return images.store


class _Images:
    def __init__(self, store: Store) -> None:
        self.store = store

    def layer(self, root: Path) -> tuple[dict[str, Any], str]:
        """The descriptor of a layer with the files of a directory, and the digest of its uncompressed content."""
        data = io.BytesIO()
        with tarfile.open(fileobj=data, mode="w") as tar:
            tar.add(root, arcname=".")
        content = data.getvalue()
        shutil.rmtree(root)
        descriptor = self.store.add(LAYER, gzip.compress(content, 1, mtime=0))
        return descriptor, "sha256:" + hashlib.sha256(content).hexdigest()

    def add(self, name: str, tag: str, layer: tuple[dict[str, Any], str], config: dict[str, Any]) -> None:
        descriptor, diff_id = layer
        image = {
            "architecture": ARCHITECTURE,
            "os": "linux",
            "config": config,
            "rootfs": {"type": "layers", "diff_ids": [diff_id]},
        }
        stored = self.store.add(CONFIG, json.dumps(image).encode())
        manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": stored, "layers": [descriptor]}
        self.store.tag(name, tag, manifest)


def _busybox(root: Path, packages: Path) -> Path:
    busybox_image.make_root(root)
    # The shell of busybox-static runs its own programs without looking at their files, which may be masked.
    copy_program(root, _unpack("busybox", packages) / "bin" / "busybox", "bin/busybox")
    (root / "etc" / "passwd").write_text(PASSWD)
    (root / "etc" / "group").write_text(GROUP)
    (root / "var" / "run").symlink_to("../run")
    # One of critest's specs masks the file of `ls`, which must not be that of every program.
    (root / "bin" / "ls").unlink()
    shutil.copy(root / "bin" / "busybox", root / "bin" / "ls")
    for name, package in (("ipcs", "util-linux"), ("pgrep", "procps")):  # busybox has neither
        program = find_program(name, package)
        copy_program(root, program, str(program.relative_to("/")))
    return root


def _nginx(root: Path, packages: Path, port: int) -> Path:
    _busybox(root, packages)
    copy_program(root, _unpack("nginx", packages) / "usr" / "sbin" / "nginx", "usr/sbin/nginx")
    for name in ("etc/nginx", "var/log/nginx", "var/lib/nginx", "usr/share/nginx/html"):
        (root / name).mkdir(parents=True)
    (root / "etc" / "nginx" / "nginx.conf").write_text(NGINX.format(port=port))
    (root / "usr" / "share" / "nginx" / "html" / "index.html").write_text("a page of nginx\n")
    return root


def _nonewprivs(root: Path) -> Path:
    root.mkdir()
    program = root / "nonewprivs"
    _run("gcc", "-O2", "-static", "-s", "-o", str(program), str(HERE / "nonewprivs.c"))
    program.chmod(0o4755)
    return root


def _unpack(package: str, packages: Path) -> Path:
    """The files of a Debian package that is not installed: an installed nginx would start."""
    target = packages / package
    if not target.exists():
        target.mkdir(parents=True)
        _run("apt-get", "download", "-qq", "-o", "APT::Sandbox::User=root", package, cwd=packages)
        (archive,) = packages.glob(f"{package}_*.deb")
        _run("dpkg", "-x", str(archive), str(target))
    return target


def _run(*command: str, cwd: Path | None = None) -> str:
    result = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert result.returncode == 0, f"{' '.join(command)}: {result.stdout}{result.stderr}"
    return result.stdout
