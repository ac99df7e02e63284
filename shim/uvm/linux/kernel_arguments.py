"""The kernel's command line of a Linux utility VM: the kernel's arguments, then those of its init.

The order and every blank are those of Microsoft's shim
(https://github.com/microsoft/hcsshim/blob/main/internal/uvm/create_lcow.go): the line of a direct boot with an initrd
begins with a blank.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.uvm.linux.settings import LinuxVmSettings

ENTROPY_PORT = 1
LOG_PORT = 109
AGENT = "/bin/gcs -v4 -log-format json -loglevel"


def build(settings: LinuxVmSettings, architecture: str = "amd64") -> str:
    boot = settings.boot
    arguments = _root(settings)
    # Only the transport of Hyper-V sockets may register.
    arguments += " initcall_blacklist=virtio_vsock_init"
    arguments += _serial_port(bool(settings.console_pipe), architecture)
    if not settings.console_pipe:
        # A kernel panic ends the VM.
        arguments += " panic=-1 quiet"
    if settings.kernel_options:
        arguments += f" {settings.kernel_options}"
    if not settings.vpci_enabled:
        arguments += " pci=off"
    init = f"-e {ENTROPY_PORT}"
    if settings.writable_overlays and boot.is_vhd:
        init += " -w"
    command = f"/bin/vsockexec -e {LOG_PORT} {agent(settings)}"
    init += f' sh -c "{command} & exec sh"' if settings.console_pipe else f" {command}"
    return f"{arguments} nr_cpus={settings.kernel_processors} brd.rd_nr=0 pmtmr=0 -- {init}"


def agent(settings: LinuxVmSettings) -> str:
    """The command line of the guest agent."""
    command = f"{AGENT} {settings.log_level}"
    if settings.guest_arguments:
        command += f" {settings.guest_arguments}"
    if not settings.time_sync:
        command += " -disable-time-sync"
    if not settings.scrub_logs:
        command += " -scrub-logs=false"
    if settings.process_dumps:
        command += f" -core-dump-location {settings.process_dumps}"
    return command


def _root(settings: LinuxVmSettings) -> str:
    boot = settings.boot
    if not boot.is_vhd:
        return "" if boot.kernel_direct else f"initrd=/{boot.rootfs_name}"
    device = "pmem0" if settings.vpmem_count else "sda"
    return f"root=/dev/{device} ro rootwait init=/init"


def _serial_port(console: bool, architecture: str) -> str:
    if architecture == "arm64":
        return " console=ttyAMA0,115200" if console else ""
    if console:
        return " 8250_core.nr_uarts=1 8250_core.skip_txen_test=1 console=ttyS0,115200"
    return " 8250_core.nr_uarts=0"
