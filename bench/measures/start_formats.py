"""`start` with each form of stdin that containerd 1.6 to 2.3 sends, and to the response to the first Connect.

Every candidate gets the same form, with options of its own type: this shim's, or runc's. A program with a legacy name
never gets BootstrapParams from containerd, so for these our shim runs under another name. The daemon ends without a
container; only its start counts.
"""

from __future__ import annotations

from pathlib import Path

from attrs import evolve, frozen

from bench.harness import standby
from bench.harness.candidates import Candidate
from bench.harness.context import SuiteContext
from bench.harness.dialects import DIALECTS, LEGACY_NAMES
from bench.harness.driver import Shim
from bench.measures import starts
from shim.api.packing import pack
from shim.api.runhcs_options import Options
from shim.api.runtimeoptions import Options as TomlOptions
from shim.api.wellknown import Any as PackedAny

PROFILE = "stdin"
#: A name that containerd does not take for a legacy shim.
OTHER_NAME = "containerd-shim-example-v1"
TOML = b'Debug = false\nSandboxPlatform = "windows/amd64"\n'


@frozen
class Format:
    """What containerd of this version sends: `options` is none, message or TOML."""

    containerd: str
    options: str

    @property
    def has_params(self) -> bool:
        return DIALECTS[self.containerd].has_bootstrap

    @property
    def name(self) -> str:
        form = {"none": "", "message": "options", "TOML": "TOML options"}[self.options]
        if self.has_params:
            return f"BootstrapParams{' with ' if form else ''}{form} ({self.containerd})"
        return f"{form or 'nothing'} ({self.containerd})"


# 2.0 to 2.2 send the same as 1.7, and so does 2.3 to programs with a legacy name.
FORMATS = (
    Format("1.6", "none"),
    Format("1.6", "message"),
    Format("1.7", "none"),
    Format("1.7", "message"),
    Format("1.7", "TOML"),
    Format("2.3", "none"),
    Format("2.3", "message"),
    Format("2.3", "TOML"),
)


def measure(context: SuiteContext) -> None:
    for candidate, is_kept in context.rounds("stdin of start", context.central, context.sizes.lifecycle_rounds):
        for form in formats_for(candidate):
            times = context.attempt(candidate, PROFILE, _start, context, candidate, form)
            if times is not None and is_kept:
                starts.add(context, candidate.name, PROFILE, times, f", {form.name}")


def formats_for(candidate: Candidate) -> list[Format]:
    """Shims before 2.3 do not read BootstrapParams."""
    return [form for form in FORMATS if candidate.dialect.has_bootstrap or not form.has_params]


def _start(context: SuiteContext, candidate: Candidate, form: Format) -> dict[str, float]:
    node = context.node
    variant = as_run_by(candidate, form, node.directory)
    standby.wait(candidate)
    with Shim(variant, node) as shim:
        options = options_of(candidate, form, node.directory)
        return starts.run_once(shim, DIALECTS[form.containerd].stdin(variant.program, node.address, shim.id, options))


def as_run_by(candidate: Candidate, form: Format, directory: Path) -> Candidate:
    """The candidate with the environment of this containerd, and with a name that gets this form. Its output is parsed
    as by the newest containerd: a newer shim may answer an old containerd in a form that only new ones accept."""
    dialect = evolve(DIALECTS[form.containerd], accepts_json=True, has_bootstrap=True)
    program = candidate.program
    if form.has_params and any(name in program.name for name in LEGACY_NAMES):
        program = directory / "other-name" / candidate.name / OTHER_NAME
        if not program.exists():
            program.parent.mkdir(parents=True)
            program.symlink_to(candidate.program)
    return evolve(candidate, dialect=dialect, program=program)


def options_of(candidate: Candidate, form: Format, directory: Path) -> PackedAny | None:
    if form.options == "none":
        return None
    if not candidate.is_ours:
        return candidate.options(directory)
    if form.options == "TOML":
        return pack(TomlOptions(type_url=Options.FULL_NAME, config_body=TOML))
    return pack(Options(sandbox_platform="windows/amd64"))
