"""Users by name in the files of an image."""

from __future__ import annotations

import pytest

from shim.oci.errors import InvalidSpec
from shim.uvm.linux.users import resolve

FILES = {
    "passwd": "root:x:0:0::/root:/bin/sh\n# no user\nweb:x:33:34::/:/bin/sh\nodd:x\nbad:x:a:1::/:/x\n7:x:8:9::/:/x\n",
    "group": "root:x:0:\nwheel:x:10:web\n",
}


@pytest.mark.parametrize(
    ("name", "ids"),
    [
        ("root", (0, 0)), ("web", (33, 34)), ("33", (33, 34)), ("1234", (1234, 0)), ("web:wheel", (33, 10)),
        ("web:99", (33, 99)), ("1:10", (1, 10)), ("7", (7, 0)),
    ],
)  # fmt: skip
def test_user_is_found_by_name_or_number(name: str, ids: tuple[int, int]) -> None:
    assert resolve(name, FILES.__getitem__) == ids


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nobody", "failed to find user by username: nobody"), ("odd", "failed to find user"),
        ("bad", "failed to find user"), ("web:none", "failed to find group by groupname: none"),
        ("a:b:c", "invalid userstr: 'a:b:c'"), ("4294967296", "exceeds uint32 bounds"),
    ],
)  # fmt: skip
def test_user_that_is_not_found_is_refused(name: str, words: str) -> None:
    with pytest.raises(InvalidSpec, match=words):
        resolve(name, FILES.__getitem__)


def test_number_needs_no_files() -> None:
    assert resolve("1000:1000", lambda file: "") == (1000, 1000)


@pytest.mark.parametrize(
    ("name", "passwd", "group"),
    [
        ("bob", "bob:x:5:abc\n", ""), ("9" * 5000, "", ""), ("1:" + "9" * 5000, "", ""),
        ("bob", f"bob:x:{'9' * 5000}:1::/:/x\n", ""), ("bob", "bob:x:4294967296:1::/:/x\n", ""),
        ("bob", f"bob:x:1:{'9' * 5000}::/:/x\n", ""), ("1:g", "", f"g:x:{'9' * 5000}:\n"),
        ("\u0663", "", ""), ("\u0663", "\u0663:x:\u0663:\u0663::/:/x\n", ""),
    ],
    ids=range(9),
)  # fmt: skip
def test_hostile_number_of_image_or_spec_is_refused(name: str, passwd: str, group: str) -> None:
    with pytest.raises(InvalidSpec):
        resolve(name, {"passwd": passwd, "group": group}.__getitem__)
