"""The layer functions, in the right and in the wrong order, with the code of every call."""

from __future__ import annotations

from functools import partial

from runhcs.selftest.layer_calls import SEQUENCES, run_sequence, volume_of
from runhcs.selftest.runner import Context, Step, StepFailed

OK = "0x00000000"


def _release(layer: str, parents: list[str]) -> None:
    run_sequence(("UnprepareLayer", "DeactivateLayer"), layer, parents)


def layers(context: Context) -> str:
    node = context.node
    parents = node.image()
    count = 0
    for name, calls in SEQUENCES.items():
        layer = node.scratch(node.new_id("layer"))
        context.on_cleanup(partial(_release, str(layer), parents))
        codes = run_sequence(calls, str(layer), parents)
        count += len(codes)
        context.details[name] = [f"{call} {code}" for call, code in zip(calls, codes, strict=True)]
        entry = [{"call": call, "result": code} for call, code in zip(calls, codes, strict=True)]
        node.recording.layers.append({"sequence": name, "calls": entry})
        if name == "right order" and any(code != OK for code in codes):
            call, code = next((call, code) for call, code in zip(calls, codes, strict=True) if code != OK)
            raise StepFailed(f"{call} in the right order fails with {code}", f"`runhcs explain {code}`")
        if volume_of(str(layer)):
            raise StepFailed(f"the layer is still active after: {', '.join(calls)}", "see --json for the codes")
    return f"{count} calls in {len(SEQUENCES)} sequences; no layer stays active"


STEPS = [Step("layers", "layers are created, activated, prepared and released, also in the wrong order", layers, 120.0)]
