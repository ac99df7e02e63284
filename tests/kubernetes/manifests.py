"""Manifests of pods, as Python dictionaries."""

from __future__ import annotations

from typing import Any

from deploy.cluster.images import BUSYBOX

SLEEP = "trap exit TERM; while :; do sleep 1; done"


def container(name: str = "main", script: str = SLEEP, **members: Any) -> dict[str, Any]:
    """A container that runs a script of the shell."""
    return {"name": name, "image": BUSYBOX, "command": ["sh", "-c", script], **members}


def pod(name: str, *containers: dict[str, Any], **members: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default", **members.pop("metadata", {})}
    spec = {"containers": list(containers) or [container()], "terminationGracePeriodSeconds": 5, **members}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
