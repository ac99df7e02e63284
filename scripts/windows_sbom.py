"""The SBOM of the Windows distribution: CycloneDX 1.6, JSON (https://cyclonedx.org/docs/1.6/json/).

The components are what the zip holds, with versions, licences and hashes; the files of each are nested in it. The bytes
depend on the content only: the serial number is derived from it, and there is no time.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from typing import Any

from windows_packages import CFFI, PURE_PYTHON, PYWIN32, PYWIN32_MODULES, Python

#: SPDX ids of the licences.
LICENCES = {
    "CPython": "PSF-2.0", "attrs": "MIT", "cattrs": "MIT", "typing-extensions": "PSF-2.0", "cffi": "MIT-0",
    "pywin32": "PSF-2.0",
}  # fmt: skip
NAMESPACE = uuid.UUID("6f0c2a4e-8a39-5e0b-9a53-3b1f0b9f2f6e")


def document(version: str, python: Python, members: dict[str, bytes]) -> bytes:
    """The SBOM of a zip with these members."""
    components = [_cpython(python, members)]
    packages = [*(requirement for requirement, _ in PURE_PYTHON), CFFI, PYWIN32]
    components += [_package(requirement, python, members) for requirement in packages]
    return _finished(version, components, members)


def of_packages(version: str, python: Python, requirements: list[str], members: dict[str, bytes]) -> bytes:
    """Of a zip with a whole CPython, and packages as their wheels have them, whose licences are in their metadata."""
    components = [_cpython(python, members)]
    for requirement in requirements:
        name, _, release = requirement.partition("==")
        purl = f"pkg:pypi/{name.replace('_', '-')}@{release}"
        components.append({"type": "library", "bom-ref": name, "name": name, "version": release, "purl": purl})
    return _finished(version, components, members)


def _finished(version: str, components: list[dict[str, Any]], members: dict[str, bytes]) -> bytes:
    listed = {file["name"] for component in components for file in component.get("components", [])}
    own = {
        "type": "application", "bom-ref": "containerd-shim-runhcs", "name": "containerd-shim-runhcs",
        "version": version, "licenses": [{"license": {"id": "Apache-2.0"}}],
        "components": [_file(name, data) for name, data in sorted(members.items()) if name not in listed],
    }  # fmt: skip
    references = [component["bom-ref"] for component in components]
    content: dict[str, Any] = {
        "bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
        "metadata": {"component": own},
        "components": components,
        "dependencies": [{"ref": own["bom-ref"], "dependsOn": references}],
    }  # fmt: skip
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    content["serialNumber"] = f"urn:uuid:{uuid.uuid5(NAMESPACE, digest)}"
    return (json.dumps(content, indent=1, sort_keys=True) + "\n").encode()


def _cpython(python: Python, members: dict[str, bytes]) -> dict[str, Any]:
    cpe = f"cpe:2.3:a:python:python:{python.version}:*:*:*:*:*:*:*"
    return {
        "type": "platform", "bom-ref": "cpython", "name": "CPython", "version": python.version, "cpe": cpe,
        "purl": f"pkg:generic/python@{python.version}?arch={python.architecture}",
        "licenses": [{"license": {"id": LICENCES["CPython"]}}],
        "externalReferences": [{"type": "distribution", "url": "https://www.python.org/downloads/windows/"}],
        "components": _files(members, set(python.files) - {python.path_file, "LICENSE.txt"}),
    }  # fmt: skip


def _package(requirement: str, python: Python, members: dict[str, bytes]) -> dict[str, Any]:
    name, _, version = requirement.partition("==")
    files = {
        "cffi": {python.cffi_backend()[0]} if name == "cffi" else set(),
        "pywin32": {*PYWIN32_MODULES, python.pywin32_library},
    }.get(name, set())
    component: dict[str, Any] = {
        "type": "library", "bom-ref": name, "name": name, "version": version,
        "purl": f"pkg:pypi/{name}@{version}", "licenses": [{"license": {"id": LICENCES[name]}}],
    }  # fmt: skip
    if files:
        component["components"] = _files(members, files)
    return component


def _files(members: dict[str, bytes], names: set[str]) -> list[dict[str, Any]]:
    return [_file(name, data) for name, data in sorted(members.items()) if name.rpartition("/")[2] in names]


def _file(name: str, data: bytes) -> dict[str, Any]:
    hashes = [{"alg": "SHA-256", "content": hashlib.sha256(data).hexdigest()}]
    return {"type": "file", "bom-ref": f"file:{name}", "name": name, "hashes": hashes}
