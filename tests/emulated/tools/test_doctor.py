"""`runhcs doctor` on this machine, and without some prerequisites."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from runhcs.doctor import checks
from runhcs.install.linux import write_launcher
from runhcs.installation import NAME, ROOT, library
from tests.support.emulator import Emulator
from tests.support.lcow_image import make_boot_files


def doctor(emulator: Emulator, *arguments: str, **environment: str) -> tuple[int, dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-m", "runhcs", "doctor", "--json", *arguments],
        env=emulator.env | environment, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert not done.stderr, done.stderr
    report = json.loads(done.stdout)
    assert report["able"] == (done.returncode == 0)
    for check in report["checks"]:
        assert set(check) == {"name", "outcome", "finding", "next_step"}
        assert check["outcome"] in ("ok", "note", "warn", "fail")
        assert check["next_step"] or check["outcome"] == "ok", check
    return done.returncode, {check["name"]: check for check in report["checks"]}


def test_doctor_on_this_machine(emulator: Emulator) -> None:
    """Except for containerd and the launcher, which need not be installed."""
    _, found = doctor(emulator, RUNHCS_SOCKET_DIR=str(emulator.directory / "s"))
    for name in ("python", "rights", "namespaces", "overlay", "library", "emulator", "sockets", "linux guest"):
        assert found[name]["outcome"] in ("ok", "note"), found[name]
    assert str(emulator.directory) in found["emulator"]["finding"] and "20348" in found["emulator"]["finding"]
    assert {"cgroups", "containerd", "shim", "config", "wine"} <= set(found)


def test_text_output_has_a_table_and_a_verdict(emulator: Emulator) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "runhcs", "doctor"], env=emulator.env, capture_output=True, text=True, timeout=100,
        check=False,
    )  # fmt: skip
    assert done.stdout.split()[:3] == ["OUTCOME", "CHECK", "FINDING"] and "This machine can" in done.stdout


def test_missing_prerequisites_fail_with_a_next_step(emulator: Emulator, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    emulator.fault("HcsCreateProcess", error=0x80370109)
    config = tmp_path / "config.toml"
    config.write_text("version = [")
    code, found = doctor(
        emulator, "--config", str(config), RUNHCS_SOCKET_DIR=str(tmp_path), HCS_LIBRARY_PATH=str(tmp_path)
    )
    assert code == 1
    assert found["sockets"]["outcome"] == "fail"  # too long, or open to others
    assert found["library"]["outcome"] == "fail" and "make native" in found["library"]["next_step"]
    assert found["emulator"]["outcome"] == "warn" and "fault clear" in found["emulator"]["next_step"]
    assert found["config"]["outcome"] == "warn"


def test_launcher_check_outcomes(tmp_path: Path) -> None:
    def place(name: str) -> Path:
        directory = tmp_path / name / "bin"
        directory.mkdir(parents=True)
        return directory

    empty = place("empty")
    assert checks.shim_in(str(empty), "no daemon").outcome == "fail"
    bindir = place("fresh")
    launcher = write_launcher(bindir)
    fresh = checks.shim_in(str(bindir), "a daemon")
    assert fresh.outcome == "ok" and str(launcher) in fresh.finding
    os.utime(library(bindir) / f"{NAME}.pyc", (1, 1))
    behind = checks.shim_in(str(bindir), "a daemon")
    assert behind.outcome == "note" and "sources" in behind.finding

    checkout = tmp_path / "checkout"
    shutil.copytree(ROOT / "shim", checkout / "shim", ignore=shutil.ignore_patterns("__pycache__"))
    bindir = place("elsewhere")
    write_launcher(bindir, root=checkout)
    other = checks.shim_in(str(bindir), "a daemon")
    assert other.outcome == "note" and str(checkout) in other.finding

    for name, text, outcome in (("broken", "exit 1", "fail"), ("older", "echo '  Version: 0.0.1'", "warn")):
        bindir = place(name)
        (bindir / NAME).write_text(f"#!/bin/sh\n{text}\n")
        (bindir / NAME).chmod(0o755)
        found = checks.shim_in(str(bindir), "a daemon")
        assert found.outcome == outcome and "runhcs install" in found.next_step


def test_containerd_config_check_outcomes(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    assert checks.containerd_config(str(path)).outcome == "note"
    for plugin in ("io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime"):
        path.write_text(f'[plugins."{plugin}".containerd.runtimes.win]\nruntime_type = "{checks.RUNTIME}"\n')
        found = checks.containerd_config(str(path))
        assert found.outcome == "ok" and "win" in found.finding
    path.write_text("version = 2\n")
    assert checks.containerd_config(str(path)).outcome == "note"


def test_containerd_config_check_reads_imports(tmp_path: Path) -> None:
    path, imported = tmp_path / "config.toml", tmp_path / "runhcs.toml"
    path.write_text("version = 2\nimports = ['runhcs.toml']\n")
    found = checks.containerd_config(str(path))
    assert found.outcome == "fail" and str(imported) in found.finding
    assert checks.configured_shim(str(path)) == ""
    runtime = f'runtime_type = "{checks.RUNTIME}"\nruntime_path = "/opt/shim"\n'
    imported.write_text(f'version = 2\n[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.win]\n{runtime}')
    assert checks.containerd_config(str(path)).finding.endswith(": win")
    assert checks.configured_shim(str(path)) == "/opt/shim"
    assert checks.shim("/opt/shim", "by its path").outcome == "fail", "it does not exist"
    path.write_text(path.read_text() + '[plugins."io.containerd.grpc.v1.cri"]\nsandbox_image = "later"\n')
    assert "`runhcs install` again" in checks.containerd_config(str(path)).next_step


def test_containerd_version_check_outcomes(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    program = tmp_path / "containerd-of-test"
    assert checks.containerd_version("containerd-of-test").outcome == "warn"
    for version, outcome in (("1.5.9", "fail"), ("v1.6.20", "ok"), ("2.3.4", "ok")):
        program.write_text(f"#!/bin/sh\necho 'containerd example.org/containerd {version} 0123abc'\n")
        program.chmod(0o755)
        assert checks.containerd_version("containerd-of-test").outcome == outcome


def test_hcs_schema_check_on_the_emulator(hcs: Emulator) -> None:
    """The check of Windows nodes that also runs on the emulator."""
    found = checks.hcs_schema()
    assert found.outcome == "ok" and "2." in found.finding


def test_missing_programs_of_linux_guests_are_a_warning(emulator: Emulator, tmp_path: Path) -> None:
    for name in ("sh", "runc"):
        found_at = shutil.which(name)
        assert found_at
        (tmp_path / name).symlink_to(found_at)
    _, found = doctor(emulator, PATH=str(tmp_path))
    assert found["linux guest"]["outcome"] == "warn"
    assert "mkfs.ext4 not in PATH" in found["linux guest"]["finding"]
    assert "install e2fsprogs" in found["linux guest"]["next_step"]


LCOW_CONFIG = """
version = 3
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runhcs-lcow]
  runtime_type = "io.containerd.runhcs.v1"
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runhcs-lcow.options]
    SandboxPlatform = "linux/amd64"
"""


def test_linux_boot_files_are_checked_beside_the_shim(
    emulator: Emulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "_build", lambda: 20348)
    monkeypatch.setenv("HCS_EMULATOR_DIR", str(tmp_path / "none"))
    config = tmp_path / "config.toml"
    missing = checks.linux_boot_files(str(config), str(tmp_path))
    assert missing.outcome == "note" and "not found" in missing.finding and "boot files" in missing.next_step
    config.write_text(LCOW_CONFIG)
    assert checks.linux_boot_files(str(config), str(tmp_path)).outcome == "warn"
    make_boot_files(tmp_path / "LinuxBootFiles", ("vmlinux", "rootfs.vhd"))
    found = checks.linux_boot_files(str(config), str(tmp_path))
    assert (found.outcome, found.finding) == ("ok", f"vmlinux and rootfs.vhd in {tmp_path / 'LinuxBootFiles'}")
    (tmp_path / "LinuxBootFiles" / "rootfs.vhd").unlink()
    partial = checks.linux_boot_files(str(config), str(tmp_path))
    assert partial.outcome == "warn" and "initrd.img" in partial.finding
