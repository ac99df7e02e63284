"""The whole table of annotations, and what the log is told about those that a spec has for nothing.

Its rows are in three modules by what they concern; only those that a spec needs are loaded.
"""

from __future__ import annotations

from shim.oci.annotations import container as container_rows
from shim.oci.annotations.schema import CONTAINER_IN_VM, EXACTLY_TRUE, FLAG, NO_EFFECT, REFUSED, VM, Annotation
from shim.oci.errors import UNIMPLEMENTED, InvalidSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import ModuleType

    from shim.oci.spec import Spec

# Namespaces of keys in which nobody but runhcs shims has a say.
OURS = ("io.microsoft.", "microsoft.com/")
# Said by this shim already, whatever the container.
_said: set[str] = set()


def module_rows(module: ModuleType) -> dict[str, Annotation]:
    """The rows of one of the three modules."""
    found: dict[str, Annotation] = {}
    for value in vars(module).values():
        for row in value if isinstance(value, tuple) else (value,):
            if isinstance(row, Annotation):
                found[row] = row
    return found


_container = module_rows(container_rows)


_everything: dict[str, Annotation] = {}


def rows() -> dict[str, Annotation]:
    """Every annotation that runhcs shims know, by its key; where the key goes on, by its beginning."""
    if not _everything:
        from shim.oci.annotations import unsupported, vm

        for part in (_container, module_rows(vm), module_rows(unsupported)):
            _everything.update(part)
    return _everything


def find(key: str) -> Annotation | None:
    row = _container.get(key) or rows().get(key)
    if row is None:
        from shim.oci.annotations.vm import HVSOCKET_SERVICE

        return HVSOCKET_SERVICE if key.startswith(HVSOCKET_SERVICE) else None
    return row


def review(spec: Spec, keys: Iterable[str]) -> None:
    """Refuse what promises something this shim does not keep; note, once per shim, what has no effect."""
    for key in keys:
        if key.startswith(OURS):
            _review(key, spec)


def _review(key: str, spec: Spec) -> None:
    row = find(key)
    if row is None:
        note(spec, f"annotation {key} is not known to this shim and has no effect (docs/reference/annotations.md)")
    elif row.outcome == NO_EFFECT:
        note(spec, f"annotation {key} has no effect. {row.effect}")
    elif row.scope in (VM, CONTAINER_IN_VM) and not spec.is_isolated:
        note(spec, f"annotation {key} has no effect: it is about a utility VM, and this container has none")
    elif row.outcome == REFUSED:
        _refuse(row, spec)


def _refuse(row: Annotation, spec: Spec) -> None:
    """A flag that is off and a text that is empty ask for nothing."""
    if row.kind is FLAG:
        asked = spec.annotations.flag(row)
    elif row.kind is EXACTLY_TRUE:
        asked = spec.annotations.is_exactly_true(row)
    else:
        asked = bool(spec.annotations.text(row))
    if asked:
        raise InvalidSpec(f"annotation {row} cannot be followed: remove it. {row.effect.rstrip('.')}", UNIMPLEMENTED)


def note(spec: Spec, sentence: str) -> None:
    if sentence not in _said:
        _said.add(sentence)
        spec.annotations.warn(sentence)
