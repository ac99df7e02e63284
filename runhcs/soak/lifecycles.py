"""The short lives of containers in a soak: one function for each kind, from `start` to `delete`."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from runhcs.soak.containers import FOREVER, SIGKILL, SoakContainer, SoakHost

SIGTERM = 15
MEMBERS = 2


def exits(host: SoakHost, random: Random) -> None:
    """The process exits by itself."""
    code = random.randrange(256)
    one = SoakContainer(host, "exits", f"exit {code}").run()
    one.expect_exit(code)
    one.close()


def killed(host: SoakHost, random: Random) -> None:
    """The process is killed, after execs in it."""
    one = SoakContainer(host, "killed", FOREVER).run()
    for number in range(random.randrange(3)):
        one.probe(f"probe{number}", random.randrange(256))
    one.client.stats()
    one.kill(random.choice((SIGKILL, SIGTERM)))
    one.close()


def pod(host: SoakHost, random: Random) -> None:
    """A sandbox and members with one shim; one member exits by itself, the others are killed."""
    sandbox = SoakContainer(host, "pod", FOREVER, is_sandbox=True).run()
    code = random.randrange(256)
    commands = [f"exit {code}", *[FOREVER] * random.randrange(MEMBERS)]
    members = [SoakContainer(host, "member", command, pod=sandbox).run() for command in commands]
    members[0].expect_exit(code)
    members[0].close()
    for member in members[1:]:
        member.probe("probe", random.randrange(256))
        member.kill()
        member.close()
    sandbox.kill()
    sandbox.close()


def vm(host: SoakHost, random: Random) -> None:
    """A container in a utility VM of its own."""
    one = SoakContainer(host, "vm", FOREVER, in_vm=True).run()
    one.probe("probe", random.randrange(256))
    one.kill()
    one.close()


def crash(host: SoakHost, random: Random) -> None:
    """The shim is killed: after `start`, Create or Start."""
    one = SoakContainer(host, "crash", FOREVER)
    steps: list[Callable[[], object]] = [one.start_shim, one.create, lambda: one.client.start()]
    for step in steps[: random.randrange(1, len(steps) + 1)]:
        step()
    one.crash()


#: How often each kind is chosen.
KINDS: dict[str, tuple[int, Callable[[SoakHost, Random], None]]] = {
    "exits": (6, exits),
    "killed": (6, killed),
    "pod": (3, pod),
    "vm": (1, vm),
    "crash": (2, crash),
}


def choose(random: Random, has_vms: bool) -> str:
    names = [name for name in KINDS if has_vms or name != "vm"]
    return random.choices(names, [KINDS[name][0] for name in names])[0]
