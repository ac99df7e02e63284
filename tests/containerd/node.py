"""A node for tests: one containerd with one emulator, images and specs for containers, and a check for leaks.

node.run(id, node.spec("cmd", "/c", "echo hi"))     `ctr run` with a Windows spec, until it exits
node.ctr("task", "ls")                              any other command
node.events.received(id)                            the events of a container
node.expect_clean()                                 no container has leaked a resource
"""

from __future__ import annotations

import glob
import hashlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from runhcs.containerd.client import Client
from shim.commands import SHIM_SCOPE
from tests.containerd.daemon import COMMAND_TIMEOUT, NAMESPACE, RUNTIME, Containerd
from tests.containerd.event_watch import EventWatch
from tests.support import busybox_image
from tests.support.emulator import Emulator
from tests.support.eventually import eventually
from tests.support.image import make_image

# containerd limits the `delete` of a shim to five seconds; on a loaded machine the rest of the cleanup takes longer.
CLEAN_TIMEOUT = 60.0


class Node:
    def __init__(
        self,
        version: str,
        standby: bool = False,
        config: str | Callable[[Node], str] = "",
        scope: str = "",
        **containerd: Any,
    ) -> None:
        """With `standby`, shims are forks of a warm process, and `expect_clean` ignores the standby. With `scope`, all
        specs have its annotation.

        `config` is more of containerd's configuration, or makes it from the node, which has its emulator then.
        """
        self.version = version
        self.standby = standby
        self.scope = scope
        self.directory = Path(tempfile.mkdtemp(prefix="node-", dir="/tmp"))
        self.layer = self.directory / "layer"
        make_image(self.layer / "Files")
        boot = self.layer / "UtilityVM"  # for hypervisor isolation
        (boot / "Files").mkdir(parents=True)
        (boot / "SystemTemplate.vhdx").write_bytes(b"template")
        self.emulator = Emulator()
        try:
            env = self.emulator.env | {"RUNHCS_STANDBY": "1" if standby else "0"}
            more = config if isinstance(config, str) else config(self)
            self.containerd = Containerd(version, env, config=more, **containerd)
        except BaseException:
            self.emulator.stop()
            raise
        self.ctr = self.containerd.ctr
        self.events = EventWatch(self.containerd)
        self._numbers = itertools.count(1)
        self._specs = itertools.count(1)
        self._linux_image = False

    def stop(self) -> None:
        self.events.stop()
        self.containerd.stop()
        try:
            self.emulator.stop()
        finally:
            shutil.rmtree(self.directory, ignore_errors=True)

    def name(self) -> str:
        """A container id that no other test of this node uses."""
        return f"c{next(self._numbers)}"

    # Containers.

    def spec(self, *args: str, terminal: bool = False, **members: Any) -> dict[str, Any]:
        """A Windows spec with a layer and its own scratch directory. Members `process` and `windows` are merged."""
        number = next(self._specs)
        scratch = self.directory / "scratch" / str(number)
        process = {"args": list(args), "cwd": "C:\\", "user": {"username": "ContainerAdministrator"}}
        if terminal:
            process["terminal"] = True
        windows = {"layerFolders": [str(self.layer), str(scratch)]}
        process.update(members.pop("process", {}))
        windows.update(members.pop("windows", {}))
        if self.scope:
            members["annotations"] = {SHIM_SCOPE: self.scope, **members.get("annotations", {})}
        return {"ociVersion": "1.0.2", "process": process, "windows": windows, **members}

    def config(self, spec: dict[str, Any]) -> str:
        path = self.directory / f"config-{next(self._specs)}.json"
        path.write_text(json.dumps(spec))
        return str(path)

    def run_arguments(self, id: str, spec: dict[str, Any], *flags: str) -> list[str]:
        return ["run", "--runtime", RUNTIME, *flags, "--config", self.config(spec), id]

    def run(self, id: str, spec: dict[str, Any], *flags: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """`ctr run` until it exits, with any exit code."""
        return self.ctr(*self.run_arguments(id, spec, *flags), check=False, **options)

    def create(self, id: str, *args: str, **members: Any) -> None:
        """`ctr container create`: a container without a task."""
        config = self.config(self.spec(*args, **members))
        self.ctr("container", "create", "--runtime", RUNTIME, "--config", config, id)

    def detach(self, id: str, *args: str, flags: tuple[str, ...] = (), **members: Any) -> None:
        """`ctr run -d --null-io`: a container that runs until it is killed."""
        self.ctr(*self.run_arguments(id, self.spec(*(args or ("ping", "-t", "localhost")), **members),
                                     "-d", "--null-io", *flags))  # fmt: skip

    @contextmanager
    def popen(self, *arguments: str, **options: Any) -> Iterator[subprocess.Popen[str]]:
        """A ctr that goes on, ended when the block ends."""
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = subprocess.Popen(
            self.containerd.ctr_command(*arguments), text=True, env=self.containerd.env, **pipes | options
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
            process.communicate()

    def exec(self, id: str, exec_id: str, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """`ctr task exec` until it exits; flags come before `--`, the command after it."""
        flags: tuple[str, ...] = ()
        if "--" in arguments:
            at = arguments.index("--")
            flags, arguments = arguments[:at], arguments[at + 1 :]
        return self.ctr("task", "exec", "--exec-id", exec_id, *flags, id, *arguments, check=False, **options)

    def client(self, timeout: float = COMMAND_TIMEOUT) -> Client:
        """A client of containerd's API, for calls that `ctr` does not offer, and for status codes."""
        return Client(str(self.containerd.address), NAMESPACE, timeout)

    def linux_image(self) -> str:
        """The name of an image with busybox, which this containerd has imported."""
        if not self._linux_image:
            self.ctr("images", "import", str(busybox_image.pack(self.directory / "busybox.tar")))
            self._linux_image = True
        return busybox_image.NAME

    def linux_root(self) -> Path:
        """The files of that image in a directory of the host."""
        root = self.directory / "busybox"
        return root if root.exists() else busybox_image.make_root(root)

    def status(self, id: str) -> str:
        """`RUNNING`, `STOPPED` … as `ctr task ls` shows it; empty if there is no such task."""
        return self.tasks().get(id, "")

    def tasks(self) -> dict[str, str]:
        rows = [line.split() for line in self.ctr("task", "ls").stdout.splitlines()[1:]]
        return {row[0]: row[2] for row in rows}

    def expect_status(self, id: str, status: str) -> None:
        eventually(
            lambda: self.status(id) == status, f"{id} {status}, it is {self.status(id)!r}\n{self.containerd.log()}"
        )

    def remove(self, id: str) -> None:
        """Kill and delete the task and remove the container. Each must succeed."""
        self.ctr("task", "delete", "--force", id)
        self.ctr("container", "rm", id)

    def shim_pid(self, id: str) -> int:
        return int((self.containerd.bundles / id / "shim.pid").read_text())

    def kill_shim(self, id: str) -> None:
        os.kill(self.shim_pid(id), signal.SIGKILL)

    @staticmethod
    def expect_open(pid: int, name: str) -> None:
        """Wait until a process has a file of this name open."""

        def is_open() -> bool:
            for path in Path(f"/proc/{pid}/fd").iterdir():
                with suppress(FileNotFoundError):  # closed in between
                    if os.readlink(path).endswith(f"/{name}"):
                        return True
            return False

        eventually(is_open, f"{name} opened by process {pid}")

    @staticmethod
    def resources(pid: int) -> tuple[int, int]:
        """The numbers of descriptors and threads of a process."""
        return len(os.listdir(f"/proc/{pid}/fd")), len(os.listdir(f"/proc/{pid}/task"))

    # Leak checks.

    def leaked_resources(self) -> list[str]:
        """Every resource of a container that still exists."""
        status = self.emulator.control("status")
        leaked = [f"compute system {system['Id']}" for system in status["systems"]]
        leaked += [f"process {pid} of the emulator" for pid in self.emulator.descendants()]
        leaked += [f"{status['handles']} handles"] if status["handles"] else []
        leaked += [f"mount {point}" for point in self.emulator.mounts() + self.containerd.mounts()]
        processes = self.containerd.leaked_processes()
        leaked += [f"process {pid} of containerd" for pid in processes if not self._is_standby(pid)]
        leaked += [str(path) for path in self._files() if not (self.standby and path.name.startswith("standby-"))]
        leaked += [f"control group {path}" for path in self._control_groups()]
        leaked += [f"task {task}" for task in self.tasks()]
        leaked += [f"container {name}" for name in self.ctr("container", "ls", "-q").stdout.split()]
        return leaked

    def _is_standby(self, pid: int) -> bool:
        if not self.standby:
            return False
        try:
            return b"\0standby\0" in Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return True  # it exited

    def _files(self) -> list[Path]:
        """Bundles, their persistent directories under containerd's root, and the sockets of the shims."""
        root = self.containerd.directory / "root" / "io.containerd.runtime.v2.task"
        directories = [self.containerd.bundles, root / self.containerd.bundles.name, self.containerd.sockets]
        return [path for directory in directories if directory.exists() for path in directory.iterdir()]

    def _control_groups(self) -> list[str]:
        instance = hashlib.sha256(os.path.realpath(self.emulator.directory).encode()).hexdigest()[:12]
        return glob.glob(f"/sys/fs/cgroup/**/hcs-emulator/{instance}/*/", recursive=True)

    def expect_clean(self) -> None:
        leaked: list[str] = []

        def clean() -> bool:
            leaked[:] = self.leaked_resources()
            return not leaked

        try:
            eventually(clean, "no leaked resource", CLEAN_TIMEOUT)
        except AssertionError:
            # Far back: the leak began before the wait for the cleanup, which writes many lines too.
            raise AssertionError(f"leaked: {leaked}\n{self.containerd.log(lines=1000)}") from None
