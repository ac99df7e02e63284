"""Linux containers in VMs, with each guest that the emulator has."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.emulator import Emulator
from tests.support.lcow_image import make_base_layer
from tests.support.linux_shims import LinuxShims
from tests.support.shims import Shims


@pytest.fixture(scope="session")
def base_layer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_base_layer(tmp_path_factory.mktemp("image"))


@pytest.fixture
def lcow(linux_guest: str, base_layer: Path, emulator: Emulator, shims: Shims) -> LinuxShims:
    return LinuxShims(emulator, shims, linux_guest, base_layer)
