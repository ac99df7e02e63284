"""Certificates and kubeconfigs of a cluster, made by openssl: one authority signs them all."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Sequence
from pathlib import Path

from attrs import frozen

from deploy.cluster import programs
from deploy.cluster.settings import API_ADDRESS, API_PORT, NODE, NODE_ADDRESS, Settings

DAYS = "365"
TIMEOUT = 60.0
KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
API_NAMES = (
    "DNS:kubernetes",
    "DNS:kubernetes.default",
    "DNS:kubernetes.default.svc",
    "DNS:localhost",
    f"IP:{API_ADDRESS}",
    f"IP:{NODE_ADDRESS}",
    "IP:127.0.0.1",
)


@frozen
class Certificate:
    """Who it is for: the user (CN) and group (O) that Kubernetes takes from it; for servers, their names."""

    user: str
    group: str = ""
    names: Sequence[str] = ()

    @property
    def subject(self) -> str:
        return (f"/O={self.group}" if self.group else "") + f"/CN={self.user}"


CERTIFICATES = {
    "apiserver": Certificate("kube-apiserver", names=API_NAMES),
    "apiserver-kubelet-client": Certificate("kube-apiserver", "system:masters"),
    "admin": Certificate("admin", "system:masters"),
    "controller-manager": Certificate("system:kube-controller-manager"),
    "scheduler": Certificate("system:kube-scheduler"),
    "kubelet": Certificate(f"system:node:{NODE}", "system:nodes", (f"DNS:{NODE}", f"IP:{NODE_ADDRESS}")),
}
USERS = ("admin", "controller-manager", "scheduler", "kubelet")

KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters:
- name: runhcs
  cluster:
    server: https://{address}:{port}
    certificate-authority-data: {authority}
users:
- name: {user}
  user:
    client-certificate-data: {certificate}
    client-key-data: {key}
contexts:
- name: runhcs
  context: {{cluster: runhcs, user: {user}}}
current-context: runhcs
"""


def create(settings: Settings) -> None:
    directory = settings.certificates
    directory.mkdir(mode=0o700)
    _openssl(
        "req", "-x509", *KEY, "-days", DAYS, "-subj", "/CN=runhcs-cluster",
        "-keyout", directory / "ca.key", "-out", directory / "ca.crt",
        "-addext", "keyUsage=critical,keyCertSign,cRLSign",
    )  # fmt: skip
    for name, certificate in CERTIFICATES.items():
        names = ("-addext", "subjectAltName=" + ",".join(certificate.names)) if certificate.names else ()
        _openssl(
            "req", "-x509", *KEY, "-days", DAYS, "-subj", certificate.subject,
            "-CA", directory / "ca.crt", "-CAkey", directory / "ca.key",
            "-keyout", directory / f"{name}.key", "-out", directory / f"{name}.crt",
            "-addext", "basicConstraints=critical,CA:FALSE",
            "-addext", "extendedKeyUsage=clientAuth,serverAuth",
            *names,
        )  # fmt: skip
    # The key that signs the tokens of service accounts.
    _openssl("genrsa", "-out", directory / "service-account.key", "2048")
    _openssl("rsa", "-in", directory / "service-account.key", "-pubout", "-out", directory / "service-account.pub")
    for name in USERS:
        _write_kubeconfig(settings, name)


def kubeconfig(settings: Settings, name: str) -> Path:
    return settings.directory / f"{name}.kubeconfig"


def _write_kubeconfig(settings: Settings, name: str) -> None:
    directory = settings.certificates
    text = KUBECONFIG.format(
        address=API_ADDRESS,
        port=API_PORT,
        user=name,
        authority=_base64(directory / "ca.crt"),
        certificate=_base64(directory / f"{name}.crt"),
        key=_base64(directory / f"{name}.key"),
    )
    path = kubeconfig(settings, name)
    path.touch(mode=0o600)
    path.write_text(text)


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def _openssl(*arguments: str | Path) -> None:
    command = [programs.system("openssl"), *map(str, arguments)]
    subprocess.run(command, check=True, timeout=TIMEOUT, capture_output=True)
