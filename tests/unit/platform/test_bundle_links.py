"""Files of a bundle and of an image: a link or a FIFO in their place is neither followed nor waited for."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from shim.container.image_version import build_of
from shim.container.layers import MountedRoot
from shim.container.ledger import FILE, Ledger
from shim.oci.errors import InvalidSpec
from shim.platform import files
from shim.platform.log_channel import LogChannel
from shim.task import exit_record, pod_members
from shim.uvm.windows import boot_files

SECRET = "secret\n"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A file of the host that nothing may read or change."""
    path = tmp_path / "outside"
    path.write_text(SECRET)
    return path


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    path = tmp_path / "bundle"
    path.mkdir()
    return path


def _writes_log(bundle: Path) -> None:
    channel = LogChannel(str(bundle))
    channel.write(b"line\n")
    channel.close()


def _append_to_ledger(bundle: Path) -> None:
    # Made before the link: the first read would refuse it.
    link = bundle / FILE
    target = os.readlink(link)
    link.unlink()
    ledger = Ledger(str(bundle))
    link.symlink_to(target)
    ledger.enter("system", id="c1")


@pytest.mark.parametrize(
    ("name", "write"),
    [
        (FILE, _append_to_ledger),
        (".exit", lambda bundle: exit_record.write(str(bundle), 1, 2, 3, 4)),
        ("exit", lambda bundle: exit_record.write(str(bundle), 1, 2, 3, 4)),
        ("panic.log", lambda bundle: os.close(files.create(f"{bundle}/panic.log"))),
        ("log", _writes_log),
    ],
)
def test_link_in_a_bundle_is_not_written_through(
    bundle: Path, outside: Path, name: str, write: Callable[[Path], object]
) -> None:
    (bundle / name).symlink_to(outside)
    try:
        write(bundle)
    except OSError:
        pass  # refused
    assert outside.read_text() == SECRET


def test_exit_record_replaces_a_link(bundle: Path, outside: Path) -> None:
    (bundle / "exit").symlink_to(outside)
    exit_record.write(str(bundle), 1, 2, 3, 4)
    assert not (bundle / "exit").is_symlink() and exit_record.read(str(bundle)) == (1, 2, 3, 4)


def test_link_in_a_bundle_is_not_read_through(bundle: Path, tmp_path: Path) -> None:
    record = tmp_path / "record"
    record.write_text("1 2 3 4\n")
    (bundle / "exit").symlink_to(record)
    assert exit_record.read(str(bundle)) is None
    ledger = tmp_path / "elsewhere.jsonl"
    ledger.write_text('{"n":"1","enter":"mount","path":"/mnt"}\n')
    (bundle / FILE).symlink_to(ledger)
    with pytest.raises(OSError):
        Ledger(str(bundle))
    members = bundle / pod_members.DIRECTORY
    members.mkdir()
    (members / "c1").symlink_to(record)
    assert pod_members.bundles(str(bundle)) == []


def test_version_file_of_an_image_that_is_a_link_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "version").write_text("10.0.20348.1\n")
    image = tmp_path / "image" / "Windows"
    image.mkdir(parents=True)
    (image / "os-version").symlink_to(tmp_path / "version")
    assert build_of(MountedRoot(str(image.parent))) == 0
    (image / "os-version").unlink()
    (image / "os-version").write_text("10.0.20348.1\n")
    assert build_of(MountedRoot(str(image.parent))) == 20348


@pytest.mark.parametrize("name", ["UtilityVM", "UtilityVM/Files", "UtilityVM/SystemTemplate.vhdx"])
def test_boot_files_of_an_image_that_are_links_are_refused(tmp_path: Path, name: str) -> None:
    """The VM would read the file as its disk, or get the directory as its share."""
    layer = tmp_path / "layer"
    (layer / "UtilityVM" / "Files").mkdir(parents=True)
    (layer / "UtilityVM" / "SystemTemplate.vhdx").write_text("disk")
    found = boot_files.find([str(layer)], str(tmp_path / "scratch"))
    found.prepare()
    assert Path(found.scratch).read_text() == "disk"
    (layer / name).rename(tmp_path / "moved")
    (layer / name).symlink_to(tmp_path / "moved")
    with pytest.raises(InvalidSpec, match="is a link"):
        boot_files.find([str(layer)], str(tmp_path / "other"))


@pytest.mark.parametrize("kind", ["fifo", "link"])
def test_disk_of_an_image_that_is_replaced_is_not_copied(tmp_path: Path, outside: Path, kind: str) -> None:
    """Between the check and the copy."""
    template = tmp_path / "SystemTemplate.vhdx"
    if kind == "fifo":
        os.mkfifo(template)
    else:
        template.symlink_to(outside)
    scratch = tmp_path / "scratch" / "sandbox.vhdx"
    with pytest.raises(OSError):
        boot_files.BootFiles(str(tmp_path), str(template), str(scratch)).prepare()
    assert not scratch.exists()


@pytest.mark.parametrize(
    ("name", "write"),
    [
        (FILE, lambda bundle: files.append(f"{bundle}/{FILE}", b"x")),
        (".exit", lambda bundle: exit_record.write(str(bundle), 1, 2, 3, 4)),
        ("panic.log", lambda bundle: files.create(f"{bundle}/panic.log")),
        ("log", _writes_log),
    ],
)
def test_fifo_in_a_bundle_does_not_block_a_write(bundle: Path, name: str, write: Callable[[Path], object]) -> None:
    os.mkfifo(bundle / name)
    failed: list[OSError] = []

    def run() -> None:
        try:
            write(bundle)
        except OSError as error:
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    # containerd reads the log from a FIFO: who writes to it does not wait for a reader either.
    assert bool(failed) == (name != "log")
