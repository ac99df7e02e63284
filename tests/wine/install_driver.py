"""`runhcs install` under Wine: run by Python for Windows, from a copy of the unpacked zip.

`python.exe install_driver.py EXE DIRECTORY SCENARIO`, as driver.py.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import winreg
from typing import Any

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, ROOT)

from shim.platform.windows import endpoint  # noqa: E402
from tests.support.eventually import eventually  # noqa: E402
from tests.wine.driver import TIMEOUT, Shim, main  # noqa: E402
from tests.wine.standby_driver import STANDBY_ON, standby_pipe  # noqa: E402
from tests.wine.start_driver import daemon_of, dial, start, stop  # noqa: E402

CONFIG = b"version = 2\r\n\r\n[plugins.'io.containerd.grpc.v1.cri'.cni]\r\n  bin_dir = 'C:\\cni'\r\n"
SOURCE = r"SYSTEM\CurrentControlSet\Services\EventLog\Application\containerd-shim-runhcs"


class Node:
    def __init__(self, program: str, directory: str) -> None:
        self.zip = os.path.join(directory, "unpacked")
        # Wine has no CopyFile2, which Python would use.
        shutil.copytree(os.path.dirname(program), self.zip, copy_function=shutil.copyfile)
        self.root = os.path.join(directory, "installed")
        self.containerd = os.path.join(directory, "containerd")
        self.config = os.path.join(self.containerd, "config.toml")
        os.mkdir(self.containerd)
        with open(self.config, "wb") as file:
            file.write(CONFIG)

    def install(self, *arguments: str) -> dict[str, Any]:
        options = ["--directory", self.root, "--config", self.config, "--runtime", "runhcs-wcow-process", "--json"]
        done = subprocess.run(
            [os.path.join(self.zip, "runhcs.exe"), "install", *options, *arguments],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        report: dict[str, Any] = json.loads(done.stdout)
        return report

    def versions(self) -> list[str]:
        return sorted(os.listdir(os.path.join(self.root, "versions")))

    def text(self, name: str = "config.toml") -> str:
        with open(os.path.join(self.containerd, name), "rb") as file:
            return file.read().decode()

    def upgrade(self) -> dict[str, Any]:
        """Upgrade to a zip with a changed file."""
        with open(os.path.join(self.zip, "LICENSE"), "ab") as file:
            file.write(b"\n")
        return self.install("--upgrade")


def actions(report: dict[str, Any], *outcomes: str) -> list[str]:
    """Wine derives access control lists from modes: they never equal those that were set."""
    return [one["action"] for one in report["actions"] if one["outcome"] in outcomes and one["action"] != "protect"]


def event_source() -> list[object]:
    try:
        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, SOURCE) as key:
            names = ("EventMessageFile", "TypesSupported")
            return [value for name in names for value in winreg.QueryValueEx(key, name)]
    except FileNotFoundError:
        return []


def installed(program: str, directory: str) -> Any:
    """Install, install again, uninstall."""
    node = Node(program, directory)
    planned = node.install("--dry-run")
    untouched = not os.path.exists(node.root) and node.text().encode() == CONFIG
    first = node.install()
    config, runtimes = node.text(), node.text("runhcs.toml")
    version = subprocess.run([first["shim"], "-v"], capture_output=True, timeout=TIMEOUT, check=True).stdout
    tool = os.path.join(node.root, "runhcs.cmd")
    tool_help = subprocess.run(["cmd", "/c", tool, "--help"], capture_output=True, timeout=TIMEOUT, check=True).stdout
    source = event_source()
    second = node.install()
    # Wine runs no service containerd: whether it was restarted is unknown, and the next run assumes it.
    last = [node.install("--uninstall") for _ in range(2)]
    return {
        "planned": actions(planned, "planned"), "untouched": untouched, "first": actions(first, "changed"),
        "config": config, "runtimes": runtimes, "shim": first["shim"], "version": version.decode(),
        "tool": "doctor" in tool_help.decode(), "source": source, "second": actions(second, "changed", "planned"),
        "last": [actions(one, "changed") for one in last], "kept": actions(last[0], "kept"),
        "restored": node.text().encode() == CONFIG,
        "remaining": [os.path.exists(node.root), os.listdir(node.containerd), event_source()],
    }  # fmt: skip


def upgraded(program: str, directory: str) -> Any:
    """While a shim and its standby run from the first version."""
    node = Node(program, directory)
    first = node.install()
    shim = Shim(first["shim"], directory, f"{os.path.basename(directory)}-1", "cmd /c exit 7")
    code, text = start(shim, **STANDBY_ON)
    assert code == 0, text
    task = dial(shim)
    task.create()
    pipe = standby_pipe(shim)
    eventually(lambda: endpoint.exists(pipe), "the standby")
    second = node.upgrade()
    eventually(lambda: not endpoint.exists(pipe), "the exit of the standby")
    both = node.versions() == sorted([first["version"], second["version"]])
    task.start()
    status = task.wait().exit_status
    task.delete()
    same_daemon = task.connect().shim_pid == daemon_of(shim)
    kept = [actions(node.install("--uninstall"), "kept") for _ in range(2)]
    node.install()
    exited = stop(shim, task)
    removed = actions(node.install("--upgrade"), "changed")
    return {
        "new": second["shim"] != first["shim"], "kept": actions(second, "kept"), "both": both, "status": status,
        "same_daemon": same_daemon, "kept_by_uninstall": kept, "exited": exited, "removed": removed,
        "remaining": node.versions() == [second["version"]],
    }  # fmt: skip


def protected(program: str, directory: str) -> Any:
    return Node(program, directory).install()["shim"]


def restarted(program: str, directory: str) -> Any:
    """With a service in place of containerd's: how often it was started, and the error for one that does not exist."""
    node = Node(program, directory)
    service, starts = f"runhcs-{os.path.basename(directory)}", os.path.join(directory, "starts.txt")
    command = rf"C:\windows\system32\service.exe {starts}"
    for arguments in (["create", service, "binPath=", command], ["start", service]):
        subprocess.run(["sc", *arguments], stdin=subprocess.DEVNULL, timeout=TIMEOUT, check=True)
    try:
        reports = [node.install("--restart-containerd", "--service", service) for _ in range(2)]
        missing = subprocess.run(
            [os.path.join(node.zip, "runhcs.exe"), "install", "--directory", node.root, "--config", node.config,
             "--restart-containerd", "--service", "runhcs-missing"],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT, check=False,
        )  # fmt: skip
    finally:
        for action in ("stop", "delete"):
            subprocess.run(["sc", action, service], stdin=subprocess.DEVNULL, timeout=TIMEOUT, check=False)
    with open(starts) as file:
        return {"starts": len(file.readlines()), "reports": ["restart" in actions(one, "changed") for one in reports],
                "missing": missing.stderr.decode(errors="replace")}  # fmt: skip


if __name__ == "__main__":
    main(installed, upgraded, protected, restarted)
