"""Users by name and number, from the files in a container's root."""

from __future__ import annotations

from pathlib import Path

import pytest

from hcs_emulator.vm.linux.agent.errors import GuestError
from hcs_emulator.vm.linux.agent.users import resolve


@pytest.fixture
def root(tmp_path: Path) -> str:
    (tmp_path / "etc").mkdir()
    users = ["root:x:0:0::/:/bin/sh", "user:x:1000:1001::/:/bin/sh", "broken", "twin:x:7:7::/:", "twin:x:8:8::/:"]
    (tmp_path / "etc" / "passwd").write_text("\n".join([*users, "big:x:4294967296:1::/:", ""]))
    (tmp_path / "etc" / "group").write_text("root:x:0:\nstaff:x:50:user\n")
    return str(tmp_path)


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        ("user", (1000, 1001)),
        ("1000", (1000, 1001)),
        ("user:staff", (1000, 50)),
        ("user:77", (1000, 77)),
        ("4242", (4242, 0)),
        ("4242:staff", (4242, 50)),
        ("0:0", (0, 0)),
    ],
)
def test_resolve_names_and_numbers(root: str, user: str, expected: tuple[int, int]) -> None:
    assert resolve(root, user) == expected


@pytest.mark.parametrize(
    ("user", "text"),
    [
        ("nobody", "failed to find user by username: nobody: expected exactly 1 user matched '0'"),
        ("twin", "failed to find user by username: twin: expected exactly 1 user matched '2'"),
        ("user:none", "failed to find group by groupname: none: expected exactly 1 user matched '0'"),
        ("a:b:c", "invalid userstr: 'a:b:c'"),
        ("-5", "UID (-5) exceeds uint32 bounds"),
        ("big", "UID (4294967296) exceeds uint32 bounds"),
        ("1:4294967296", "GID (4294967296) exceeds uint32 bounds"),
    ],
)
def test_resolve_unknown_name_refused(root: str, user: str, text: str) -> None:
    with pytest.raises(GuestError) as caught:
        resolve(root, user)
    assert str(caught.value) == text


def test_resolve_name_without_passwd_refused(tmp_path: Path) -> None:
    with pytest.raises(GuestError, match=r"failed to find user by username: user: open .*no such file"):
        resolve(str(tmp_path), "user")
    assert resolve(str(tmp_path), "12") == (12, 0)
