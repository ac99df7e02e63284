"""The table of all annotations, and warnings for those without effect.

Its rows are in four modules by subject; only those that a spec needs are imported.
"""

from __future__ import annotations

from shim import threads
from shim.oci.annotations import container as container_rows
from shim.oci.annotations.schema import (
    CONTAINER,
    CONTAINER_IN_VM,
    EXACTLY_TRUE,
    FLAG,
    LINUX_CONTAINER,
    LINUX_VM,
    NO_EFFECT,
    REFUSED,
    VM,
    WINDOWS_VM,
    Annotation,
)
from shim.oci.errors import UNIMPLEMENTED, InvalidSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import ModuleType

    from shim.oci.spec import Spec

# Key prefixes that belong to runhcs shims only.
OURS = ("io.microsoft.", "microsoft.com/")
# Warnings that this shim has logged already, for any container; if it serves several pods, each has its own log.
_logged: set[tuple[str, str]] = set()
_MAX_LOGGED = 1000


def module_rows(module: ModuleType) -> dict[str, Annotation]:
    """The rows of one of the modules."""
    found: dict[str, Annotation] = {}
    for value in vars(module).values():
        for row in value if isinstance(value, tuple) else (value,):
            if isinstance(row, Annotation):
                found[row] = row
    return found


_container = module_rows(container_rows)


_everything: dict[str, Annotation] = {}


def rows() -> dict[str, Annotation]:
    """Every annotation that runhcs shims know, by its key, or by its prefix where the key has a variable part."""
    if not _everything:
        from shim.oci.annotations import linux, unsupported, vm

        for part in (_container, module_rows(vm), module_rows(linux), module_rows(unsupported)):
            _everything.update(part)
    return _everything


def find(key: str) -> Annotation | None:
    row = _container.get(key) or rows().get(key)
    if row is None:
        from shim.oci.annotations.vm import HVSOCKET_SERVICE

        return HVSOCKET_SERVICE if key.startswith(HVSOCKET_SERVICE) else None
    return row


def check_annotations(spec: Spec, keys: Iterable[str]) -> None:
    """Reject annotations that this shim cannot honour; warn, once per shim, of those without effect."""
    for key in keys:
        if key.startswith(OURS):
            _check(key, spec)


def _check(key: str, spec: Spec) -> None:
    row = find(key)
    if row is None:
        warn_once(spec, f"annotation {key} is not known to this shim and has no effect (docs/reference/annotations.md)")
    elif row.outcome == NO_EFFECT:
        warn_once(spec, f"annotation {key} has no effect. {row.effect}")
    elif row.scope in (LINUX_VM, LINUX_CONTAINER) and not spec.has_linux:
        warn_once(spec, f"annotation {key} has no effect: it is about Linux containers, and this one is for Windows")
    elif row.scope in (CONTAINER, WINDOWS_VM) and spec.is_lcow:
        warn_once(spec, f"annotation {key} has no effect: it is about Windows containers, and this one is for Linux")
    elif row.scope in (VM, WINDOWS_VM, LINUX_VM, CONTAINER_IN_VM) and not spec.is_isolated:
        warn_once(spec, f"annotation {key} has no effect: it is about a utility VM, and this container has none")
    elif row.outcome == REFUSED:
        _reject_if_set(row, spec)


def _reject_if_set(row: Annotation, spec: Spec) -> None:
    """A flag that is off and an empty text count as not set."""
    if row.kind is FLAG:
        is_set = spec.annotations.flag(row)
    elif row.kind is EXACTLY_TRUE:
        is_set = spec.annotations.is_exactly_true(row)
    else:
        is_set = bool(spec.annotations.text(row))
    if is_set:
        raise InvalidSpec(f"annotation {row} cannot be followed: remove it. {row.effect.rstrip('.')}", UNIMPLEMENTED)


def warn_once(spec: Spec, sentence: str) -> None:
    key = threads.current_pod(), sentence
    if key not in _logged:
        if len(_logged) >= _MAX_LOGGED:
            _logged.clear()  # they may be logged again, but must not take ever more memory
        _logged.add(key)
        spec.annotations.warn(sentence)
