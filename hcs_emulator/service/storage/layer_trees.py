"""Layer calls that copy or remove whole trees: import, export, copy, destroy. They run in threads, so that other calls
are not delayed.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from typing import Any

from hcs_emulator.service.errors import (
    E_FAIL,
    ERROR_ACCESS_DENIED,
    ERROR_ALREADY_EXISTS,
    ERROR_INVALID_PARAMETER,
    ERROR_PATH_NOT_FOUND,
    HcsError,
)
from hcs_emulator.service.schema.common import LAYER
from hcs_emulator.service.schema.shapes import Enum, Int, ListOf, Record, check
from hcs_emulator.service.storage.layers import SANDBOX, Layers, absolute, layer_files

# The version is ignored: real callers send it empty.
LAYER_DATA = Record(
    {
        "SchemaVersion": Record({"Major": Int(), "Minor": Int()}),
        "Layers": ListOf(LAYER),
        "FilterType": Enum("WCIFS", "UnionFS"),
    }
)

# A directory is deleted as a layer only if it has one of these.
_MARKS = (SANDBOX, "Files", "layerchain.json", "blob.vhdx", "Hives")


def parent_paths(layer_data: Any, operation: str, build: int) -> list[str]:
    check(LAYER_DATA, layer_data, operation, build)
    return [layer["Path"] for layer in layer_data.get("Layers", ())]


async def _copy(source: str, destination: str) -> None:
    try:
        await asyncio.to_thread(shutil.copytree, source, destination, symlinks=True, dirs_exist_ok=True)
    except (OSError, shutil.Error) as error:
        raise HcsError(E_FAIL, f"copying {source} failed: {str(error)[:200]}", data=source) from error


def create_layer(path: str | None) -> None:
    layer = absolute(path)
    if os.path.exists(layer):
        raise HcsError(ERROR_ALREADY_EXISTS, f"{layer} exists", data=layer)
    os.makedirs(os.path.join(layer, "Files"))


async def import_layer(path: str | None, source: str | None, parents: list[str]) -> None:
    layer, origin = absolute(path), absolute(source)
    if not os.path.isdir(origin):
        raise HcsError(ERROR_PATH_NOT_FOUND, f"{origin} does not exist", data=origin)
    await _copy(layer_files(origin), os.path.join(layer, "Files"))
    with open(os.path.join(layer, "layerchain.json"), "w") as chain:
        json.dump(parents, chain)


async def export_layer(path: str | None, destination: str | None) -> None:
    """A scratch layer exports its changes, another layer its files."""
    layer, target = absolute(path), absolute(destination)
    scratch = os.path.join(layer, SANDBOX + ".d", "upper")
    origin = scratch if os.path.isdir(scratch) else layer_files(layer)
    if not os.path.isdir(origin):
        raise HcsError(ERROR_PATH_NOT_FOUND, f"{layer} does not exist", data=layer)
    await _copy(origin, os.path.join(target, "Files"))


async def copy_layer(source: str | None, destination: str | None) -> None:
    origin = absolute(source)
    if not os.path.isdir(origin):
        raise HcsError(ERROR_PATH_NOT_FOUND, f"{origin} does not exist", data=origin)
    await _copy(origin, absolute(destination))


async def destroy_layer(layers: Layers, path: str | None) -> None:
    layer = absolute(path)
    if not os.path.isdir(layer):
        raise HcsError(ERROR_PATH_NOT_FOUND, f"{layer} does not exist", data=layer)
    layers.require_inactive(layer)
    if not any(os.path.lexists(os.path.join(layer, mark)) for mark in _MARKS):
        raise HcsError(
            ERROR_ACCESS_DENIED, f"{layer} does not look like a layer ({', '.join(_MARKS)}): not deleted", data=layer
        )
    try:
        await asyncio.to_thread(shutil.rmtree, layer)
    except OSError as error:
        raise HcsError(ERROR_ACCESS_DENIED, f"{layer} could not be deleted: {error.strerror}", data=layer) from error


def setup_base_layer(path: str | None) -> None:
    """The registry hives and the layout file that Windows derives from a base layer; here they are empty."""
    layer = absolute(path)
    if not os.path.isdir(layer):
        raise HcsError(ERROR_PATH_NOT_FOUND, f"{layer} does not exist", data=layer)
    if any(os.path.lexists(os.path.join(layer, name)) for name in ("Hives", "Layout")):
        raise HcsError(ERROR_ALREADY_EXISTS, f"{layer} is set up: delete Hives and Layout first", data=layer)
    os.mkdir(os.path.join(layer, "Hives"))
    with open(os.path.join(layer, "Layout"), "w"):
        pass


def expand_sandbox(path: str | None, size: int) -> None:
    marker = os.path.join(absolute(path), SANDBOX)
    if not os.path.exists(marker):
        raise HcsError(ERROR_PATH_NOT_FOUND, f"{marker} does not exist", data=marker)
    try:
        with open(marker) as file:
            present = int(json.load(file)["size"])
    except (ValueError, KeyError, TypeError):
        present = 0
    if size < present:
        raise HcsError(
            ERROR_INVALID_PARAMETER, f"the disk has {present} bytes and cannot shrink to {size}", data=marker
        )
    with open(marker, "w") as file:
        json.dump({"disk": "directory", "size": size}, file)
