# Generated from runc/options.proto by scripts/generate_api.py. Do not edit; `make proto` regenerates it.
from __future__ import annotations

from shim.api.wire import Message, put_string, read_string, read_tag, read_varint, skip, varint


class Options(Message):
    __slots__ = ("no_pivot_root", "no_new_keyring", "shim_cgroup", "io_uid", "io_gid", "binary_name", "root", "systemd_cgroup", "criu_image_path", "criu_work_path", "task_api_address", "task_api_version")
    FULL_NAME = "containerd.runc.v1.Options"

    def __init__(self, *, no_pivot_root: bool = False, no_new_keyring: bool = False, shim_cgroup: str = "", io_uid: int = 0, io_gid: int = 0, binary_name: str = "", root: str = "", systemd_cgroup: bool = False, criu_image_path: str = "", criu_work_path: str = "", task_api_address: str = "", task_api_version: int = 0) -> None:
        self.no_pivot_root = no_pivot_root
        self.no_new_keyring = no_new_keyring
        self.shim_cgroup = shim_cgroup
        self.io_uid = io_uid
        self.io_gid = io_gid
        self.binary_name = binary_name
        self.root = root
        self.systemd_cgroup = systemd_cgroup
        self.criu_image_path = criu_image_path
        self.criu_work_path = criu_work_path
        self.task_api_address = task_api_address
        self.task_api_version = task_api_version

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 8:
                value, pos = read_varint(data, pos, end)
                self.no_pivot_root = value != 0
            elif tag == 16:
                value, pos = read_varint(data, pos, end)
                self.no_new_keyring = value != 0
            elif tag == 26:
                self.shim_cgroup, pos = read_string(data, pos, end)
            elif tag == 32:
                value, pos = read_varint(data, pos, end)
                self.io_uid = value & 0xFFFFFFFF
            elif tag == 40:
                value, pos = read_varint(data, pos, end)
                self.io_gid = value & 0xFFFFFFFF
            elif tag == 50:
                self.binary_name, pos = read_string(data, pos, end)
            elif tag == 58:
                self.root, pos = read_string(data, pos, end)
            elif tag == 72:
                value, pos = read_varint(data, pos, end)
                self.systemd_cgroup = value != 0
            elif tag == 82:
                self.criu_image_path, pos = read_string(data, pos, end)
            elif tag == 90:
                self.criu_work_path, pos = read_string(data, pos, end)
            elif tag == 98:
                self.task_api_address, pos = read_string(data, pos, end)
            elif tag == 104:
                value, pos = read_varint(data, pos, end)
                self.task_api_version = value & 0xFFFFFFFF
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.no_pivot_root:
            out.append(b'\x08\x01')
        if self.no_new_keyring:
            out.append(b'\x10\x01')
        if self.shim_cgroup:
            out.append(put_string(b'\x1a', self.shim_cgroup))
        if self.io_uid:
            out.append(b' ' + varint(self.io_uid & 0xFFFFFFFF))
        if self.io_gid:
            out.append(b'(' + varint(self.io_gid & 0xFFFFFFFF))
        if self.binary_name:
            out.append(put_string(b'2', self.binary_name))
        if self.root:
            out.append(put_string(b':', self.root))
        if self.systemd_cgroup:
            out.append(b'H\x01')
        if self.criu_image_path:
            out.append(put_string(b'R', self.criu_image_path))
        if self.criu_work_path:
            out.append(put_string(b'Z', self.criu_work_path))
        if self.task_api_address:
            out.append(put_string(b'b', self.task_api_address))
        if self.task_api_version:
            out.append(b'h' + varint(self.task_api_version & 0xFFFFFFFF))
        return b"".join(out)


class ProcessDetails(Message):
    __slots__ = ("exec_id",)
    FULL_NAME = "containerd.runc.v1.ProcessDetails"

    def __init__(self, *, exec_id: str = "") -> None:
        self.exec_id = exec_id

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.exec_id, pos = read_string(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.exec_id:
            out.append(put_string(b'\n', self.exec_id))
        return b"".join(out)
