r"""The user that the processes of a host process container run as.

The annotation `hostprocess-inherit-user` means the shim's own user. Otherwise the spec names a service account, a local
group, in which a user is created for the lifetime of the container, or an account that can log on without a password.
"""

from __future__ import annotations

from shim.oci.annotations import container as names
from shim.oci.errors import InvalidSpec
from shim.platform.job_types import ACCOUNT, INHERIT, MEMBER, SERVICE, Identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from shim.oci.section import Section
    from shim.oci.spec import Spec

SERVICES = ("system", "local service", "network service", "localservice", "networkservice")
AUTHORITY = "nt authority"


def from_spec(spec: Spec, id: str, is_local_group: Callable[[str], bool]) -> Identity:
    if spec.annotations.is_exactly_true(names.HOST_PROCESS_INHERIT_USER):
        return Identity(INHERIT)
    user = name_of(spec.process)
    if not user:
        raise InvalidSpec(
            "a host process container needs a user: give process.user.username, such as NT AUTHORITY\\SYSTEM, a local "
            f"group, or annotation {names.HOST_PROCESS_INHERIT_USER} for the shim's own rights"
        )
    domain, _, name = user.rpartition("\\")
    if domain.lower() == AUTHORITY or (not domain and name.lower() == "system"):
        if name.lower() not in SERVICES:
            raise InvalidSpec(
                f"process.user.username is {user!r}: of {domain} there are SYSTEM, LOCAL SERVICE and NETWORK SERVICE"
            )
        return Identity(SERVICE, name, domain or "NT AUTHORITY")
    if domain.lower() in ("", ".", "builtin") and is_local_group(name):
        return Identity(MEMBER, name, ".", id)
    return Identity(ACCOUNT, name, domain or ".")


def name_of(process: Section) -> str:
    return process.section("user").text("username")


def check_exec(process: Section, own: Section) -> None:
    """All processes of a job run as the container's user."""
    user = name_of(process)
    if user and user.lower() != name_of(own).lower():
        raise InvalidSpec(
            f"process.user.username is {user!r}, and all processes of a host process container run as "
            f"{name_of(own) or 'the shim'}: leave it out"
        )
