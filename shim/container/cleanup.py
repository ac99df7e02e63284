"""Cleanup: how each kind of resource in the ledger is released, from its entry alone, by this or another process.

Every function takes the entry's fields and a deadline (monotonic seconds), and succeeds if the resource does not exist.
"""

from __future__ import annotations

import time

from shim.hcs_bindings import errors

# Layer calls fail with these when the layer does not exist: file, path, element not found.
_NOT_FOUND = frozenset((0x80070002, 0x80070003, 0x80070490))
# … and with these while it is in use: sharing violation, busy, files open.
_IN_USE = frozenset((0x80070020, 0x800700AA, 0x80070961))
_RETRY_SECONDS = 0.05
# After a terminate without an exit event: open the system again.
_REOPEN_SECONDS = 1.0

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def release_system(fields: dict[str, str], deadline: float) -> None:
    """Terminate a compute system and wait for its exit.

    HCS accepts a terminate before it knows whether the system has stopped meanwhile, and then sends no exit event. So
    the system is opened again from time to time: if it does not exist any more, it is released.
    """
    while not _terminate(fields["id"], deadline):
        pass


def _terminate(id: str, deadline: float) -> bool:
    """False if it may exist still and there is time for another try."""
    from shim.hcs_bindings.system import ComputeSystem

    try:
        system = ComputeSystem.open(id)
    except errors.HcsError as error:
        if errors.is_not_exist(error):
            return True
        raise
    left = deadline - time.monotonic()
    try:
        if system.terminate():
            system.wait_exit(max(0.1, min(left, _REOPEN_SECONDS)))
    except errors.HcsError as error:
        if errors.is_timeout(error) and left > _REOPEN_SECONDS:
            return False
        if not (errors.is_stopped_or_stopping(error) or errors.is_not_exist(error) or errors.is_invalid_state(error)):
            raise
    finally:
        system.close()
    return True


def release_layer(fields: dict[str, str], deadline: float) -> None:
    """Remove the filter from a scratch layer and unmount its disk."""
    from shim.hcs_bindings import storage

    _release_scratch(storage.unprepare_layer, fields["path"], deadline)


def release_overlay(fields: dict[str, str], deadline: float) -> None:
    """Detach a scratch from the composite images under it and unmount its disk."""
    from shim.hcs_bindings import storage

    def detach(path: str) -> None:
        if volume := storage.layer_mount_path(path):
            storage.detach_overlay_filter(volume)

    _release_scratch(detach, fields["path"], deadline)


def _release_scratch(remove_filter: Callable[[str], None], path: str, deadline: float) -> None:
    """Both steps, whatever the first returns. A shim may be killed between any two calls, and after a restart of the
    machine nothing is mounted: the codes for a step that has nothing to do differ between builds and are not
    documented. What counts is whether the layer is mounted afterwards.
    """
    from shim.hcs_bindings import storage

    first = _try_layer_step(remove_filter, path, deadline)
    last = _try_layer_step(storage.deactivate_layer, path, deadline)
    if last is None or not _is_mounted(path):
        return
    raise first or last


def _is_mounted(path: str) -> bool:
    from shim.hcs_bindings import storage

    try:
        return bool(storage.layer_mount_path(path))
    except errors.HcsError as error:
        if errors.is_service_lost(error):
            raise
        return errors.normalise(error.code) in _IN_USE


def release_cim(fields: dict[str, str], deadline: float) -> None:
    from shim.hcs_bindings import cim

    _layer_step(cim.dismount, fields["volume"], deadline)


def _layer_step(step: Callable[[str], None], path: str, deadline: float) -> None:
    if (error := _try_layer_step(step, path, deadline)) is not None:
        raise error


def _try_layer_step(step: Callable[[str], None], path: str, deadline: float) -> errors.HcsError | None:
    """Its error, if it failed; None if there was nothing to do."""
    while True:
        try:
            step(path)
            return None
        except errors.HcsError as error:
            code = errors.normalise(error.code)
            if code in _NOT_FOUND:
                return None
            # A system that has just exited may still hold it for a moment.
            if code not in _IN_USE or time.monotonic() + _RETRY_SECONDS > deadline:
                return error
        time.sleep(_RETRY_SECONDS)


def release_mount(fields: dict[str, str], deadline: float) -> None:
    from shim.platform.host import unmount

    unmount(fields["target"])


def release_job(fields: dict[str, str], deadline: float) -> None:
    """Terminate the processes of a host process container."""
    from shim.platform import jobs

    jobs.kill_job(fields, deadline)


def release_user(fields: dict[str, str], deadline: float) -> None:
    """Remove the user that was created for a host process container."""
    from shim.platform import jobs

    jobs.remove_user(fields["name"])


def release_mount_point(fields: dict[str, str], deadline: float) -> None:
    """Unmount a volume from the root directory of a host process container (Server 2019)."""
    from shim.platform import jobs

    jobs.unmount_volume(fields["directory"])


def release_namespace(fields: dict[str, str], deadline: float) -> None:
    from shim.hcs_bindings import network

    _ignore_not_found(lambda: network.delete_namespace(fields["id"]))


def release_endpoint(fields: dict[str, str], deadline: float) -> None:
    """Remove an endpoint from a namespace that the shim created. The endpoint itself belongs to CNI."""
    from shim.hcs_bindings import network

    _ignore_not_found(lambda: network.remove_namespace_endpoint(fields["namespace"], fields["id"]))


def release_credentials(fields: dict[str, str], deadline: float) -> None:
    from shim.container import credentials

    _ignore_not_found(lambda: credentials.remove(fields["id"]))


def _ignore_not_found(step: Callable[[], None]) -> None:
    try:
        step()
    except errors.HcsError as error:
        missing = errors.is_not_exist(error) or errors.is_network_object_missing(error)
        if not missing and errors.normalise(error.code) not in _NOT_FOUND:
            raise
