"""The root file system of a pod's sandbox that has no image: one program, and the directories for its mounts.

A sandbox of the Sandbox service gets no image from containerd, but the guest knows a pod only by its sandbox container.
The program waits for signals, reaps what is reparented to it where a pod shares its pid namespace, and exits at SIGTERM
or SIGINT. It is an ELF file of 216 bytes, so that the shim needs no file beside it on Windows.
"""

from __future__ import annotations

from struct import pack

from shim.container.layers import join
from shim.oci.errors import UNIMPLEMENTED, InvalidSpec
from shim.platform import files, host

PROGRAM = "pause"
# Mount points: the root is read-only.
DIRECTORIES = ("dev", "proc")

_LOAD_ADDRESS = 0x400000
_HEADERS = 64 + 56
_X86_64 = 62

# With blocked signals the kernel keeps them for sigtimedwait, for a pid 1 too.
_CODE = bytes.fromhex(
    "b80e000000"  # mov eax, 14             rt_sigprocmask(SIG_BLOCK, &signals, 0, 8)
    "31ff"  # xor edi, edi
    "488d354a000000"  # lea rsi, [rip+0x4a]
    "31d2"  # xor edx, edx
    "6a08"  # push 8
    "415a"  # pop r10
    "0f05"  # syscall
    "b880000000"  # wait: mov eax, 128      rt_sigtimedwait(&signals, 0, 0, 8)
    "488d3d36000000"  # lea rdi, [rip+0x36]
    "31f6"  # xor esi, esi
    "31d2"  # xor edx, edx
    "6a08"  # push 8
    "415a"  # pop r10
    "0f05"  # syscall
    "83f80f"  # cmp eax, SIGTERM
    "741e"  # je exit
    "83f802"  # cmp eax, SIGINT
    "7419"  # je exit
    "b83d000000"  # reap: mov eax, 61       wait4(-1, 0, WNOHANG, 0)
    "4883cfff"  # or rdi, -1
    "31f6"  # xor esi, esi
    "6a01"  # push 1
    "5a"  # pop rdx
    "4531d2"  # xor r10d, r10d
    "0f05"  # syscall
    "85c0"  # test eax, eax
    "7fe9"  # jg reap
    "ebc7"  # jmp wait
    "b83c000000"  # exit: mov eax, 60       exit(0)
    "31ff"  # xor edi, edi
    "0f05"  # syscall
    "0240010000000000"  # signals: SIGINT, SIGTERM, SIGCHLD
)


def program() -> bytes:
    """The ELF file, for x86-64."""
    size = _HEADERS + len(_CODE)
    entry = _LOAD_ADDRESS + _HEADERS
    identity = b"\x7fELF\x02\x01\x01" + bytes(9)  # 64 bits, little endian
    header = pack("<HHIQQQIHHHHHH", 2, _X86_64, 1, entry, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    segment = pack("<IIQQQQQQ", 1, 5, 0, _LOAD_ADDRESS, _LOAD_ADDRESS, size, size, 0x1000)  # readable, executable
    return identity + header + segment + _CODE


def create_root(directory: str) -> None:
    """Create the root file system, in a directory of the host."""
    if host.architecture() != "amd64":
        raise InvalidSpec(
            f"a sandbox without an image needs an amd64 host, and this is {host.architecture()}: give it an image "
            '(sandboxer = "podsandbox")',
            UNIMPLEMENTED,
        )
    for name in DIRECTORIES:
        host.make_directories(join(directory, name), 0o755)
    path = join(directory, PROGRAM)
    with open(files.native(path), "wb", buffering=0) as file:
        file.write(program())
    host.make_executable(path)
