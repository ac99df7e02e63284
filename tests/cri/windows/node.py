"""containerd.exe with CRI and either shim, the images of a registry, and the programs that critest's specs run."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.support.oci_registry import Registry
from tests.wine.conftest import Machine, go_programs
from tests.wine.node import PROGRAM
from tests.wine.test_cri import CriNode

VERSION = "v2.3.4"
SHIMS = ("ours", "microsoft")
# Where each program of the images is, below C:\windows\system32.
PROGRAMS = {
    "cmd.c": "cmd.exe",
    "ping.c": "ping.exe",
    "powershell.c": "WindowsPowerShell/v1.0/powershell.exe",
    "web_server.c": "web-server.exe",
}


class CritestNode(CriNode):
    cni_flags = ("-DWITH_ENDPOINT",)

    def __init__(self, machine: Machine, shim: str, registry: Registry) -> None:
        self.shim = shim
        self._registry = registry
        super().__init__(machine, VERSION, "critest")
        self.call("ListContainerStats")  # waits until CRI is initialized

    def install_shim(self) -> None:
        if self.shim == "ours":
            super().install_shim()
        else:
            self.directory.mkdir()
            shutil.copy(go_programs("hcsshim") / PROGRAM, self.directory)

    def add_images(self) -> None:
        """None: containerd pulls every image."""

    def config(self) -> str:
        self._registry.write_hosts(self.directory / "hosts")
        text = super().config()
        text += f"[plugins.'io.containerd.cri.v1.images'.registry]\nconfig_path = 'C:\\{self.name}\\hosts'\n"
        return text + f"[debug]\naddress = '{self.debug_address}'\n"

    @property
    def debug_address(self) -> str:
        return rf"{self.address}.debug"

    # -- diagnosis and cleanup

    def diagnose(self) -> str:
        """What every thread of the shims and every goroutine of containerd does, and the compute systems."""
        commands = {
            "shims": [r"C:\node\runhcs.exe", "stacks", "--state", rf"C:\{self.name}\state"],
            "containerd": [rf"C:\{self.name}\ctr.exe", "pprof", "--debug-socket", self.debug_address, "goroutines"],
        }
        text = f"compute systems: {self.systems()}\n"
        for subject, command in commands.items():
            done = self.machine.run(*command, timeout=60)
            text += f"-- {subject} ({done.returncode})\n{done.stdout.decode(errors='replace')}\n"
        return text

    def remove_pods(self) -> str:
        """Remove the pods that a failed spec has left. Returns what could not be removed."""
        problems = ""
        sandboxes = 'labels."io.cri-containerd.kind"==sandbox'
        for pod in self.checked("-n", self.namespace, "containers", "ls", "-q", sandboxes).split():
            for method in ("StopPodSandbox", "RemovePodSandbox"):
                try:
                    self.call(method, pod_sandbox_id=pod)
                except AssertionError as error:
                    problems += f"{str(error)[:500]}\n"
        return problems


def install_programs(machine: Machine) -> None:
    """Compile the programs of the images into the prefix."""
    system = machine.drive / "windows" / "system32"
    for source, name in PROGRAMS.items():
        target = system / name
        target.unlink(missing_ok=True)  # a hard link to Wine's own program in the template of prefixes
        compiler = ["x86_64-w64-mingw32-gcc", "-O2", "-s", "-Wall", "-Wextra", "-Werror"]
        path = Path(__file__).with_name(source)
        subprocess.run([*compiler, str(path), "-o", str(target), "-lws2_32", "-liphlpapi"], check=True)
        # Otherwise Wine runs its own program of this name.
        key = (r"HKCU\Software\Wine\DllOverrides", "/v", target.name, "/d", "native")
        done = machine.run("reg", "add", *key, "/f")
        assert done.returncode == 0, done.stdout
    # Windows opens paths by the name of a volume; Wine reports such names but opens only those that are listed here.
    volume = machine.prefix / "dosdevices" / "volume{00000000-0000-0000-0000-000000000043}"
    volume.symlink_to("../drive_c")
