"""Annotations and options of Linux containers: refusals, warnings, and what is copied. Their effects on the VM are
tested with its document (`tests/unit/uvm/linux`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from shim.api.runhcs_options import Options as Values
from shim.oci.annotations import container as container_names
from shim.oci.annotations import linux as names
from shim.oci.annotations import table
from shim.oci.annotations.schema import APPLIED, CONTAINER, NO_EFFECT, REFUSED, WINDOWS_VM, Annotation
from shim.oci.errors import UNIMPLEMENTED, InvalidSpec
from shim.oci.normalize import normalize_spec
from shim.oci.options import HYPERVISOR, Options
from shim.oci.spec import Spec

ROWS = list(table.module_rows(names).values())
WINDOWS_ROWS = [
    row for row in table.rows().values() if row.scope in (CONTAINER, WINDOWS_VM) and row.outcome != NO_EFFECT
]


@pytest.fixture(autouse=True)
def nothing_logged() -> Iterator[None]:
    table._logged.clear()
    yield
    table._logged.clear()


def normalized(annotations: dict[str, str], options: Values | None = None, **sections: Any) -> Spec:
    spec = Spec({**(sections or {"linux": {}, "windows": {}}), "annotations": annotations})
    normalize_spec(spec, Options(options))
    return spec


@pytest.mark.parametrize("row", [row for row in ROWS if row.outcome == REFUSED])
def test_confidential_annotation_is_rejected_by_name(row: Annotation) -> None:
    with pytest.raises(InvalidSpec, match="cannot be followed") as caught:
        normalized({row: "true"})
    assert caught.value.kind == UNIMPLEMENTED
    assert f"annotation {row} " in str(caught.value)
    assert normalized({row: "false" if row.default == "false" else ""}).annotations.warnings == []


def test_security_policy_is_rejected_for_linux_too() -> None:
    with pytest.raises(InvalidSpec, match="securitypolicy cannot be followed"):
        normalized({"io.microsoft.virtualmachine.lcow.securitypolicy": "cGFja2FnZQ=="})


@pytest.mark.parametrize("row", [row for row in ROWS if row.outcome == APPLIED])
def test_linux_annotation_of_linux_container_has_no_warning(row: Annotation) -> None:
    assert normalized({row: "1"}).annotations.warnings == []


@pytest.mark.parametrize("row", ROWS)
def test_linux_annotation_of_windows_container_warns(row: Annotation) -> None:
    (sentence,) = normalized({row: "true"}, windows={"hyperv": {}}).annotations.warnings
    assert sentence == f"annotation {row} has no effect: it is about Linux containers, and this one is for Windows"


@pytest.mark.parametrize("row", WINDOWS_ROWS)
def test_windows_annotation_of_linux_container_warns(row: Annotation) -> None:
    (sentence,) = normalized({row: "true"}).annotations.warnings
    assert sentence == f"annotation {row} has no effect: it is about Windows containers, and this one is for Linux"


def test_boot_files_option_becomes_annotation_of_linux_specs() -> None:
    options = Values(boot_files_root_path="C:\\boot", sandbox_isolation=HYPERVISOR)
    assert normalized({}, options).annotations.text(container_names.VM_BOOT_FILES) == "C:\\boot"
    given = {container_names.VM_BOOT_FILES: "C:\\own"}
    assert normalized(given, options).annotations.text(container_names.VM_BOOT_FILES) == "C:\\own"
    assert container_names.VM_BOOT_FILES not in normalized({}, options, windows={}).annotations


def test_process_isolation_with_options_is_refused() -> None:
    with pytest.raises(InvalidSpec, match=r"^invalid runtime sandbox isolation \(PROCESS\) for hypervisor isolated"):
        normalized({}, Values(debug=True))


@pytest.mark.parametrize(
    ("platform", "sections", "words"),
    [
        ("linux/amd64", {"windows": {}}, "empty Linux config in OCI spec for Linux sandbox platform: linux/amd64"),
        ("windows/amd64", {"linux": {}}, "non-empty Linux config in OCI spec for Windows sandbox platform: "),
        ("plan9/amd64", {"linux": {}}, "unknown runtime sandbox platform OS: plan9/amd64"),
        ("plan9/amd64", {"windows": {}}, "unknown runtime sandbox platform OS: plan9/amd64"),
    ],
)
def test_platform_of_other_system_is_refused(platform: str, sections: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidSpec) as caught:
        normalized({}, Values(sandbox_platform=platform, sandbox_isolation=HYPERVISOR), **sections)
    assert str(caught.value).startswith(words)


def test_platform_of_linux_spec_is_accepted() -> None:
    options = Values(sandbox_platform="linux/amd64", sandbox_isolation=HYPERVISOR)
    assert normalized({}, options, linux={}).is_lcow
