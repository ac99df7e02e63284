r"""Where a host process container's files are among the host's, and what its spec may say of that.

With the bind filter they are at `C:\hpc\`, or where an annotation says, for the container's own processes alone: each
container has its own there. Without it (Server 2019) they are at `C:\hpc\<id>\`, for everybody to see.

`CONTAINER_SANDBOX_MOUNT_POINT` names the place, and may be used in command line, directory and variables, in the
spelling of cmd or of PowerShell.
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
# A program's name as CreateProcess completes it.
_SUFFIXES = (".com", ".exe", ".bat", ".cmd")
_SHELLS = ("cmd", "cmd.exe")
# Directories that the host needs as they are.
_TAKEN = ("c:", "c:\\windows")


def root(spec: Spec, id: str, can_bind: bool) -> str:
    """The place, with a separator at its end."""
    given = spec.annotations.text(names.HOST_PROCESS_ROOT)
    separator = "/" if spec.is_plain_linux else "\\"
    place = given if spec.is_plain_linux else given.replace("/", "\\")
    place = place.rstrip(separator)
    if given:
        absolute = place.startswith("/") if spec.is_plain_linux else place[1:3] == ":\\"
        if not absolute or ".." in place.split(separator):
            raise InvalidSpec(
                f"annotation {names.HOST_PROCESS_ROOT} is {given!r}: give an absolute path, such as C:\\hpc"
            )
        if place.lower() in _TAKEN or place.lower().startswith(f"{_TAKEN[1]}\\"):
            raise InvalidSpec(
                f"annotation {names.HOST_PROCESS_ROOT} is {given!r}, which the host needs itself: give another"
            )
    else:
        place = "/hpc" if spec.is_plain_linux else DEFAULT_ROOT.rstrip("\\")
    return f"{place}{separator}" if can_bind else f"{place}{separator}{id}{separator}"


def below(root: str, path: str) -> str:
    """A path of the container, such as a mount's destination, below its root."""
    separator = root[-1]
    if path[1:2] == ":":
        path = path[2:]
    return root + path.replace("\\", separator).replace("/", separator).strip(separator)


def is_below(path: str, place: str) -> bool:
    path, place = (text.replace("/", "\\").rstrip("\\").lower() + "\\" for text in (path, place))
    return path.startswith(place)


def expand(text: str, root: str) -> str:
    """With the place where the variable stands."""
    for spelling in _SPELLINGS:
        text = text.replace(spelling, root[:-1])
    return text


def environment(own: Mapping[str, str], given: Mapping[str, str], root: str, windows: bool) -> dict[str, str]:
    """The variables of a process: the user's own, those of the spec over them, and where the files are."""
    merged = dict(own)
    spelled = {name.upper(): name for name in merged}
    for name, value in given.items():
        if windows and (other := spelled.get(name.upper())) is not None and other != name:
            del merged[other]
        spelled[name.upper()] = name
        merged[name] = expand(value, root)
    path = spelled.get("PATH", "PATH") if windows else "PATH"
    merged[path] = jobs.extend_path(merged.get(path, ""), root)
    merged[VARIABLE] = root
    return merged


def through_shell(line: str) -> str:
    """The bind filter is for a job's own processes: who looks for the program must be one of them, so `cmd` does.

    It takes the first and the last quote of its line away, unless it is told that they are there for that.
    """
    first = line.lstrip()
    name = first[1:].partition('"')[0] if first.startswith('"') else first.partition(" ")[0]
    if name.lower() in _SHELLS or name.lower().endswith("\\system32\\cmd.exe"):
        return line
    return f'cmd /s /c "{line}"' if '"' in line else f"cmd /c {line}"


def find_program(
    candidates: list[str], directory: str, search: list[str], exists: Callable[[str], bool] = jobs.is_file
) -> str:
    """Without the bind filter: the file that a command line means; "" leaves it to Windows.

    Names are completed as CreateProcess does it. One without a directory is looked for where the process is to work,
    then along its path.
    """
    for name in candidates:
        bare = not any(char in name for char in "\\/:")
        places = [directory, *search] if bare else [""] if name[1:2] == ":" or name.startswith("\\") else [directory]
        last = name.replace("/", "\\").rpartition("\\")[2]
        endings = ("",) if "." in last else (*_SUFFIXES, "")
        for place in places:
            whole = f"{place.rstrip(chr(92))}\\{name}" if place else name
            for ending in endings:
                if exists(whole + ending):
                    return whole + ending
    return ""
