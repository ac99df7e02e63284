"""The kubelet of the node, in a cluster or alone with static pods."""

from __future__ import annotations

import json
import os
from typing import Any

from deploy.cluster import certificates, programs
from deploy.cluster.processes import Daemon
from deploy.cluster.settings import KUBELET_PORT, MAX_PODS, NODE, NODE_ADDRESS, Settings

START_TIMEOUT = 120.0


class Kubelet(Daemon):
    def __init__(self, settings: Settings) -> None:
        super().__init__(settings, "kubelet")
        self.env = {**os.environ, "PATH": programs.PATH}

    def configure(self) -> None:
        settings = self.settings
        settings.manifests.mkdir(exist_ok=True)
        (settings.directory / "resolv.conf").touch()
        (settings.directory / "kubelet.json").write_text(json.dumps(self._configuration(), indent=2))

    def start_serving(self) -> None:
        settings = self.settings
        command = [
            programs.kubernetes("kubelet"),
            f"--config={settings.directory}/kubelet.json",
            f"--root-dir={settings.directory}/kubelet",
            f"--cert-dir={settings.certificates}",
            f"--hostname-override={NODE}",
            f"--node-ip={NODE_ADDRESS}",
        ]
        if settings.with_control_plane:
            command.append(f"--kubeconfig={certificates.kubeconfig(settings, 'kubelet')}")
        self.start(command, self.env)

    def _configuration(self) -> dict[str, Any]:
        settings = self.settings
        authority = str(settings.certificates / "ca.crt")
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "containerRuntimeEndpoint": f"unix://{settings.containerd_socket}",
            "address": NODE_ADDRESS,
            "port": KUBELET_PORT,
            "tlsCertFile": str(settings.certificates / "kubelet.crt"),
            "tlsPrivateKeyFile": str(settings.certificates / "kubelet.key"),
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": settings.with_control_plane},
                "x509": {"clientCAFile": authority},
            },
            # Alone, everybody with a certificate of the cluster may use it.
            "authorization": {"mode": "Webhook" if settings.with_control_plane else "AlwaysAllow"},
            "registerNode": settings.with_control_plane,
            "enableControllerAttachDetach": settings.with_control_plane,
            "staticPodPath": str(settings.manifests),
            "fileCheckFrequency": "1s",
            "podLogsDir": str(settings.pod_logs),
            "volumePluginDir": str(settings.directory / "volume-plugins"),
            "resolvConf": str(settings.directory / "resolv.conf"),
            "maxPods": MAX_PODS,
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{settings.name}",
            "failCgroupV1": False,
            "failSwapOn": False,
            "makeIPTablesUtilChains": False,
            # The disk is the machine's, for others to watch.
            "evictionHard": {"memory.available": "100Mi"},
            "imageGCHighThresholdPercent": 100,
            "serializeImagePulls": False,
            "featureGates": {"PodAndContainerStatsFromCRI": True},
        }
