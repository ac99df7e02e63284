"""The control plane: etcd, API server, controller manager and scheduler, as command lines of their programs."""

from __future__ import annotations

import subprocess

from deploy.cluster import certificates, network, programs
from deploy.cluster.processes import Daemon
from deploy.cluster.settings import (
    API_PORT,
    NODE_ADDRESS,
    POD_SUBNET,
    SERVICE_SUBNET,
    ClusterError,
    Settings,
)

START_TIMEOUT = 180.0
COMMAND_TIMEOUT = 300.0
ETCD = "http://127.0.0.1:2379"
#: In the order of their start.
NAMES = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")


def start(settings: Settings) -> None:
    for name, command in _commands(settings).items():
        daemon = Daemon(settings, name)
        daemon.start(command)
        if name == "kube-apiserver":
            daemon.wait_for(lambda: _is_ready(settings), "the API server is ready", START_TIMEOUT)


def daemons(settings: Settings) -> list[Daemon]:
    return [Daemon(settings, name) for name in NAMES]


def kubectl_command(settings: Settings, *arguments: str) -> list[str]:
    """A command line of kubectl, as administrator, in the cluster's network."""
    kubectl = [programs.kubernetes("kubectl"), "--kubeconfig", str(settings.kubeconfig)]
    return [*network.inside(settings), *kubectl, *arguments]


def kubectl(
    settings: Settings, *arguments: str, stdin: str = "", check: bool = True, timeout: float = COMMAND_TIMEOUT
) -> subprocess.CompletedProcess[str]:
    result = subprocess.run(
        kubectl_command(settings, *arguments),
        input=stdin, capture_output=True, text=True, timeout=timeout, check=False,
    )  # fmt: skip
    if check and result.returncode:
        raise ClusterError(f"kubectl {' '.join(arguments)} failed:\n{result.stdout}{result.stderr}")
    return result


def _is_ready(settings: Settings) -> bool:
    # RBAC's own roles are there when this hook is done.
    for check in ("readyz", "readyz/poststarthook/rbac/bootstrap-roles"):
        if kubectl(settings, "get", "--raw", f"/{check}", check=False).returncode:
            return False
    return True


def _commands(settings: Settings) -> dict[str, list[str]]:
    pki = settings.certificates
    manager = str(certificates.kubeconfig(settings, "controller-manager"))
    scheduler = str(certificates.kubeconfig(settings, "scheduler"))
    return {
        "etcd": [
            programs.system("etcd"),
            f"--data-dir={settings.directory}/etcd",
            f"--listen-client-urls={ETCD}",
            f"--advertise-client-urls={ETCD}",
            "--listen-peer-urls=http://127.0.0.1:2380",
            # The cluster's data lives as long as its processes.
            "--unsafe-no-fsync",
        ],
        "kube-apiserver": [
            programs.kubernetes("kube-apiserver"),
            f"--etcd-servers={ETCD}",
            f"--advertise-address={NODE_ADDRESS}",
            f"--secure-port={API_PORT}",
            f"--service-cluster-ip-range={SERVICE_SUBNET}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--allow-privileged=true",
            f"--client-ca-file={pki}/ca.crt",
            f"--tls-cert-file={pki}/apiserver.crt",
            f"--tls-private-key-file={pki}/apiserver.key",
            f"--kubelet-certificate-authority={pki}/ca.crt",
            f"--kubelet-client-certificate={pki}/apiserver-kubelet-client.crt",
            f"--kubelet-client-key={pki}/apiserver-kubelet-client.key",
            "--kubelet-preferred-address-types=InternalIP",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={pki}/service-account.pub",
            f"--service-account-signing-key-file={pki}/service-account.key",
        ],
        "kube-controller-manager": [
            programs.kubernetes("kube-controller-manager"),
            f"--kubeconfig={manager}",
            f"--authentication-kubeconfig={manager}",
            f"--authorization-kubeconfig={manager}",
            "--bind-address=127.0.0.1",
            "--leader-elect=false",
            f"--cluster-cidr={POD_SUBNET}",
            "--use-service-account-credentials=true",
            f"--service-account-private-key-file={pki}/service-account.key",
            f"--root-ca-file={pki}/ca.crt",
        ],
        "kube-scheduler": [
            programs.kubernetes("kube-scheduler"),
            f"--kubeconfig={scheduler}",
            f"--authentication-kubeconfig={scheduler}",
            f"--authorization-kubeconfig={scheduler}",
            "--bind-address=127.0.0.1",
            "--leader-elect=false",
        ],
    }
