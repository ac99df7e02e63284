"""Write the generated pages of docs/, and a policy of deploy/, from the tables that the shim itself uses.

`make docs` runs this.
"""

from __future__ import annotations

from pathlib import Path

import conformance_page
import features_page
import man_pages
import pod_policy

from shim.hcs_bindings import catalogue
from shim.oci.annotations import container, linux, unsupported, vm
from shim.oci.annotations.schema import (
    ANY,
    CONTAINER,
    CONTAINER_IN_VM,
    LINUX_CONTAINER,
    LINUX_VM,
    VM,
    WINDOWS_VM,
    Annotation,
    Kind,
)
from shim.oci.annotations.table import module_rows
from shim.oci.option_table import OPTIONS, Option

ROOT = Path(__file__).resolve().parent.parent
NOTE = "<!-- Made by `make docs` from the tables in shim/oci: change those. -->\n"

SCOPES = {
    CONTAINER: "container",
    VM: "VM",
    CONTAINER_IN_VM: CONTAINER_IN_VM,
    WINDOWS_VM: WINDOWS_VM,
    LINUX_VM: LINUX_VM,
    LINUX_CONTAINER: LINUX_CONTAINER,
    ANY: "container, pod",
}

ANNOTATIONS_INTRO = """# Annotations

Every annotation that runhcs shims know, and its effect in this shim. In Kubernetes, set them in
`metadata.annotations` of the pod. containerd passes on only those that its `pod_annotations` or
`container_annotations` name: `runhcs config containerd` prints runtimes that do. With ctr, use
`ctr run --annotation KEY=VALUE`. Kubernetes refuses keys of more than 63 characters: set those in
the runtime's option `DefaultContainerAnnotations`.

Keys are case-sensitive. The precedence of a setting is: annotation, then [option](options.md), then
the field of the OCI spec, then the default. Unlisted keys that begin with `io.microsoft.` or
`microsoft.com/` are logged once and have no effect.

*Read from*: `container` is the spec of the container itself. `VM` is the spec that creates the
utility VM: the sandbox of a pod, or an isolated container without a pod. On other specs a VM
annotation has no effect, and without a VM the log says so. `Linux VM` and `Linux container` are
the same for specs with a `linux` section, whose containers always run in a VM. On those, the
annotations of `container` and `Windows VM` have no effect.
"""

OPTIONS_INTRO = """# Runtime options

Set these in the `options` table of a runtime in containerd's config.toml. Keys are
case-insensitive. Values are validated: an invalid value and, in TOML, an unknown key fail Create
with InvalidArgument and a message that names the key, the value and the allowed values. Unknown
fields of a protobuf message are ignored, since a newer containerd may send them. Options marked
*no effect* are logged once if they are set, and so are options for utility VMs without a VM.

The options arrive in one of two messages:

- `containerd.runhcs.v1.Options`, for the runtime type `io.containerd.runhcs.v1`. containerd knows
  these twenty and silently drops every other key.
- `runtimeoptions.v1.Options`, for any other runtime type that ends in `.runhcs.v1`
  (`io.example.runhcs.v1` starts the same binary) and for `ctr run --runtime-config-path FILE` on
  Linux. It carries the table as TOML text, or the path of a TOML file: the same keys, and
  `SandboxOsVersion`.

The precedence of a setting is: [annotation](annotations.md), then option, then the field of the OCI
spec, then the default.

`SandboxOsVersion` can be set in three ways; the first that is set counts:

1. the annotation `io.microsoft.virtualmachine.sandbox-os-version` of a pod or container;
2. the key `SandboxOsVersion` in TOML, where the runtime type is not `io.containerd.runhcs.v1`;
3. the same annotation as an entry of `DefaultContainerAnnotations`, which works with every runtime
   type.
"""


def main() -> None:
    for name, text in pages().items():
        (ROOT / "docs" / name).write_text(text, encoding="utf-8")
    for path, text in pod_policy.files().items():
        path.write_text(text, encoding="utf-8")


def pages() -> dict[str, str]:
    """The text of each generated page, by its path below docs/."""
    return {
        "reference/annotations.md": annotations_page(),
        "reference/conformance.md": conformance_page.page(
            (ROOT / "docs" / "reference" / "conformance.md").read_text(encoding="utf-8")
        ),
        "reference/errors.md": catalogue.markdown(),
        "reference/features.md": features_page.page(),
        "reference/options.md": options_page(),
        **man_pages.pages(),
    }


def annotations_page() -> str:
    shared = module_rows(container)
    machines = {key: row for key, row in {**shared, **module_rows(vm)}.items() if _is_for_vm(row)}
    linux_rows = {**shared, **module_rows(linux)}
    parts = [
        ("Containers and pods", [row for row in shared.values() if row.scope in (CONTAINER, ANY)]),
        ("Utility VMs", list(machines.values())),
        ("Linux containers and their VMs", [row for row in linux_rows.values() if _is_linux(row)]),
        ("Not supported by this shim", list(module_rows(unsupported).values())),
    ]
    out = [NOTE, ANNOTATIONS_INTRO]
    for title, rows in parts:
        out.append(f"\n## {title}\n\n| Annotation | Value | Read from | Default | Effect |\n{'| --- ' * 5}|\n")
        out += [_annotation_row(row) for row in rows]
    out.append("\n## Values\n\n| Value | Other values |\n| --- | --- |\n")
    kinds = {row.kind.text: row.kind for _, rows in parts for row in rows}
    out += [f"| {_cell(kind.text)} | {_cell(kind.wrong)} |\n" for kind in kinds.values()]
    return "".join(out)


def _is_for_vm(row: Annotation) -> bool:
    return row.scope in (VM, WINDOWS_VM, CONTAINER_IN_VM)


def _is_linux(row: Annotation) -> bool:
    return row.scope in (LINUX_VM, LINUX_CONTAINER)


def _annotation_row(row: Annotation) -> str:
    key = f"{row}<GUID>" if row.endswith(".") else row
    effect = row.effect if row.outcome == "applied" else f"*{row.outcome.capitalize()}.* {row.effect}"
    cells = (f"`{key}`", _short(row.kind), SCOPES[row.scope], row.default or "-", effect)
    return "| " + " | ".join(_cell(text) for text in cells) + " |\n"


def _short(kind: Kind) -> str:
    """As much as fits a narrow column; the whole is in the table of values."""
    return kind.text.partition(" (also")[0].partition(";")[0]


def options_page() -> str:
    out = [NOTE, OPTIONS_INTRO, "\n| No. | Key | Allowed | Effect |\n| --- | --- | --- | --- |\n"]
    out += [_option_row(option) for option in OPTIONS]
    return "".join(out)


def _option_row(option: Option) -> str:
    effect = f"*No effect.* {option.effect}" if option.unused else option.effect
    number = str(option.number) if option.number else "-"
    allowed = "text or number" if not option.number else option.allowed
    return "| " + " | ".join(_cell(text) for text in (number, f"`{option.key}`", allowed, effect)) + " |\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    main()
