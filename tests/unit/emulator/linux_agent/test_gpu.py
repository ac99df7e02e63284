"""The hook for assigned GPUs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hcs_emulator.vm.linux.agent import gpu, waiting
from hcs_emulator.vm.linux.agent.errors import GuestError

NAME = "5d1f4d9c-3a10-4d0d-8a6c-4f9f2f6f7b01"


def spec(kind: str) -> dict[str, Any]:
    return {
        "root": {"path": "/run/gcs/c/app/rootfs"},
        "annotations": {gpu.CAPABILITIES: "utility,compute"},
        "windows": {"devices": [{"id": NAME, "idType": kind}]},
        "linux": {"resources": {}},
    }


def test_gpu_without_hook_program_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(GuestError, match="failed to find generichook for container device support"):
        gpu.add(spec("gpu"), "/bundle")
    gpu.add(spec("vpci"), "/bundle")


def test_gpu_adds_hook_and_device_rule(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "generichook"
    program.touch(mode=0o755)
    (tmp_path / NAME / "pci0001:00" / "0001:00:00.0").mkdir(parents=True)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(waiting, "VMBUS", str(tmp_path))
    document = spec("gpu")
    gpu.add(document, "/bundle")
    (hook,) = document["hooks"]["createRuntime"]
    assert hook["args"] == [
        str(program),
        "nvidia-container-cli",
        "--debug=/bundle/nvidia-container.log",
        "--no-pivot",
        "configure",
        "--ldconfig=@/sbin/ldconfig",
        "--utility",
        "--compute",
        "--device=0001:00:00.0",
        "--pid={{pid}}",
        "/run/gcs/c/app/rootfs",
    ]
    assert "NVC_INSECURE_MODE=1" in hook["env"]
    assert document["linux"]["resources"]["devices"] == [{"allow": True, "type": "c", "access": "rwm"}]
