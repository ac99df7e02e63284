r"""Paths of a host process container: its root directory on the host, and paths in its spec.

With the bind filter the root directory is `C:\hpc\`, or the one of an annotation, and each container sees its own
files there. Without it (Server 2019) it is `C:\hpc\<id>\`, visible to all processes of the host.

`CONTAINER_SANDBOX_MOUNT_POINT` is the variable for the root directory. It can be used in command line, working
directory and variables, in the syntax of cmd or of PowerShell.
"""

from __future__ import annotations

from shim.oci.annotations import container as names
from shim.oci.errors import InvalidSpec
from shim.platform import jobs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from shim.oci.spec import Spec

VARIABLE = "CONTAINER_SANDBOX_MOUNT_POINT"
DEFAULT_ROOT = "C:\\hpc\\"
_SPELLINGS = (f"%{VARIABLE}%", f"$env:{VARIABLE}")
# The extensions with which CreateProcess completes a program's name.
_SUFFIXES = (".com", ".exe", ".bat", ".cmd")
_SHELLS = ("cmd", "cmd.exe")
# Directories that the host needs.
_RESERVED = ("c:", "c:\\windows")


def root(spec: Spec, id: str, can_bind: bool) -> str:
    """The root directory, with a separator at its end."""
    given = spec.annotations.text(names.HOST_PROCESS_ROOT)
    path = given.replace("/", "\\").rstrip("\\")
    if given:
        if path[1:3] != ":\\" or ".." in path.split("\\"):
            raise InvalidSpec(
                f"annotation {names.HOST_PROCESS_ROOT} is {given!r}: give an absolute path, such as C:\\hpc"
            )
        if path.lower() in _RESERVED or path.lower().startswith(f"{_RESERVED[1]}\\"):
            raise InvalidSpec(
                f"annotation {names.HOST_PROCESS_ROOT} is {given!r}, which the host needs itself: give another"
            )
    else:
        path = DEFAULT_ROOT.rstrip("\\")
    return f"{path}\\" if can_bind else f"{path}\\{id}\\"


def parts_of(path: str) -> list[str]:
    """The names of a path, without its drive."""
    if path[1:2] == ":":
        path = path[2:]
    return [part for part in path.replace("\\", "/").split("/") if part not in ("", ".")]


def below(root: str, path: str) -> str:
    """A path of the container, such as a mount's destination, below its root."""
    separator = root[-1]
    if path[1:2] == ":":
        path = path[2:]
    return root + path.replace("\\", separator).replace("/", separator).strip(separator)


def with_separator(path: str) -> str:
    r"""A directory of the host with a separator at its end. In a `\\?\` path `/` is no separator."""
    if path.endswith(("/", "\\")):
        return path
    return f"{path}/" if path.startswith("/") else f"{path}\\"


def is_below(path: str, parent: str) -> bool:
    path, parent = (text.replace("/", "\\").rstrip("\\").lower() + "\\" for text in (path, parent))
    return path.startswith(parent)


def expand(text: str, root: str) -> str:
    """Replace the variable with the root directory."""
    for spelling in _SPELLINGS:
        text = text.replace(spelling, root[:-1])
    return text


def environment(own: Mapping[str, str], given: Mapping[str, str], root: str) -> dict[str, str]:
    """The variables of a process: the user's own, overridden by the spec's, and the root directory."""
    merged = dict(own)
    spelled = {name.upper(): name for name in merged}
    for name, value in given.items():
        if (other := spelled.get(name.upper())) is not None and other != name:
            del merged[other]
        spelled[name.upper()] = name
        merged[name] = expand(value, root)
    path = spelled.get("PATH", "PATH")
    merged[path] = jobs.extend_path(merged.get(path, ""), root)
    merged[VARIABLE] = root
    return merged


def through_shell(line: str) -> str:
    """Run the command line with `cmd`: the bind filter applies only to processes of the job, so a process of the job
    has to look up the program.

    `cmd` removes the first and the last quote of its line, unless `/s` says that they were added for that.
    """
    first = line.lstrip()
    name = first[1:].partition('"')[0] if first.startswith('"') else first.partition(" ")[0]
    if name.lower() in _SHELLS or name.lower().endswith("\\system32\\cmd.exe"):
        return line
    return f'cmd /s /c "{line}"' if '"' in line else f"cmd /c {line}"


def find_program(
    candidates: list[str], directory: str, search: list[str], exists: Callable[[str], bool] = jobs.is_file
) -> str:
    """Without the bind filter: the file that a command line names; "" leaves the lookup to Windows.

    Names are completed as CreateProcess does it. A name without a directory is looked up in the working directory, then
    in the directories of PATH.
    """
    for name in candidates:
        bare = not any(char in name for char in "\\/:")
        parents = [directory, *search] if bare else [""] if name[1:2] == ":" or name.startswith("\\") else [directory]
        last = name.replace("/", "\\").rpartition("\\")[2]
        extensions = ("",) if "." in last else (*_SUFFIXES, "")
        for parent in parents:
            path = f"{parent.rstrip(chr(92))}\\{name}" if parent else name
            for extension in extensions:
                if exists(path + extension):
                    return path + extension
    return ""
