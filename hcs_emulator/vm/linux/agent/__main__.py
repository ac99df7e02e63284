"""The agent as a program, with the command line of gcs."""

from __future__ import annotations

import os
import signal
import sys

from hcs_emulator.vm.linux.agent import cgroups, command_line, log, runc, syscalls
from hcs_emulator.vm.linux.agent.bridge import Bridge
from hcs_emulator.vm.linux.agent.errors import GuestError
from hcs_emulator.vm.linux.agent.guest import Guest
from hcs_emulator.vm.linux.agent.modify import total_memory


def main(arguments: list[str]) -> int:
    try:
        flags = command_line.parse(arguments)
    except command_line.UsageError as error:
        print(error, file=sys.stderr)
        return 2
    if flags["log-format"] not in ("text", "json") or flags["loglevel"] not in log.LEVELS:
        print("unknown log-format or loglevel", file=sys.stderr)
        return 1
    descriptor = 2
    if flags["logfile"]:
        descriptor = os.open(str(flags["logfile"]), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    log.configure(str(flags["loglevel"]), flags["log-format"] == "json", descriptor)
    log.info("GCS started", version="hcs-emulator")
    try:
        _prepare(flags)
    except (OSError, GuestError) as error:
        log.error(f"failed to start: {error}")
        return 1
    reserve = int(flags["root-mem-reserve-bytes"])
    Bridge(lambda notify: Guest(notify, _power_off, reserve), enabled=bool(flags["v4"])).run()
    return 0


def _prepare(flags: dict[str, str | int | bool]) -> None:
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    if flags["core-dump-location"]:
        cgroups.write("/proc/sys/kernel/core_pattern", str(flags["core-dump-location"]))
    syscalls.become_subreaper()
    version = "v2" if cgroups.is_version_2() else "v1"
    log.info(f"cgroup {version} detected by GCS - using {version} API")
    limit = total_memory() - int(flags["root-mem-reserve-bytes"])
    cgroups.create(cgroups.PODS, {"memory": {"limit": limit}})
    cgroups.create(cgroups.AGENT, {})
    cgroups.enter(cgroups.AGENT)
    os.makedirs(runc.STATE, 0o700, exist_ok=True)
    text = "memory usage for cgroup exceeded threshold"
    cgroups.watch_oom(cgroups.PODS, lambda: log.warning(text, cgroup=cgroups.PODS, thresholdBytes=limit))


def _power_off() -> None:
    syscalls.power_off()
    os._exit(0)


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))
