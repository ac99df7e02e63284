"""Rules about a container's document that gcs does not check: what a host never sends."""

from __future__ import annotations

from typing import Any

from hcs_emulator.vm.linux.agent import rules, spec
from hcs_emulator.vm.linux.agent.errors import INVALID_JSON, NIL, RuleError, panic, with_code
from hcs_emulator.vm.linux.agent.storage import Storage

CONTAINERS = "/run/gcs/c"
_WINDOWS = {"network", "devices"}
_HOST_RESOURCES = ("devices", "pids", "blockIO", "hugepageLimits", "network")


def check_schema(version: dict[str, int] | None) -> None:
    major, minor = (version["Major"], version["Minor"]) if version is not None else (0, 0)
    if (major, minor) < (2, 1):
        raise with_code(INVALID_JSON, f"invalid schema version: {{{major} {minor}}}")
    if (major, minor) != (2, 1):
        raise RuleError(rules.SCHEMA_VERSION, f"the guest negotiated schema 2.1, not {major}.{minor}")


def check_present(document: dict[str, Any] | None) -> None:
    """Members that gcs uses without a look at them: it would end."""
    if document is None:
        panic(NIL)
        return
    for name in ("process", "root", "linux"):
        if not isinstance(document.get(name), dict):
            panic(NIL)


def check_spec(identifier: str, sandbox: str, config: dict[str, Any], storage: Storage) -> None:
    document = config["OciSpecification"]
    directory = f"{CONTAINERS}/{identifier}"
    if config["OciBundlePath"] != directory:
        raise RuleError(rules.BUNDLE_PATH, f"OciBundlePath is {config['OciBundlePath']!r}, not {directory!r}")
    allowed = {f"{directory}/scratch/{identifier}", f"{CONTAINERS}/{sandbox}/scratch/{identifier}", ""}
    if config["ScratchDirPath"] not in allowed:
        raise RuleError(rules.SCRATCH_PATH, f"ScratchDirPath {config['ScratchDirPath']!r} is not {directory}/scratch/…")
    path = document["root"].get("path")
    if path != f"{directory}/rootfs":
        raise RuleError(rules.ROOT_PATH, f"root.path is {path!r}, not {directory}/rootfs")
    root = storage.root_of(path)
    if root is None:
        raise RuleError(rules.ROOT_MOUNTED, f"neither CombinedLayers nor MappedDirectory was mounted at {path}")
    if root.container not in ("", identifier):
        raise RuleError(rules.ROOT_MOUNTED, f"the layers at {path} are those of container {root.container}")
    _check_sections(document)


def _check_sections(document: spec.Spec) -> None:
    windows = {name for name, value in (document.get("windows") or {}).items() if value is not None}
    if not windows <= _WINDOWS:
        raise RuleError(
            rules.WINDOWS_SECTION, f"windows has {sorted(windows - _WINDOWS)}; only network and devices are sent"
        )
    if document.get("hooks"):
        raise RuleError(rules.NO_HOOKS, "the host sends no hooks: they are programs of the host")
    linux = document["linux"]
    if linux.get("cgroupsPath"):
        raise RuleError(rules.NO_CGROUPS_PATH, f"linux.cgroupsPath is {linux['cgroupsPath']!r}; the guest chooses it")
    resources = linux.get("resources") or {}
    sent = [name for name in _HOST_RESOURCES if resources.get(name) is not None]
    if sent:
        raise RuleError(rules.NO_HOST_RESOURCES, f"linux.resources has {', '.join(sent)}, which the host removes")
