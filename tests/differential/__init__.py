"""Generated cases through Microsoft's shim and ours: responses, events, HCS calls and documents must be the same.

Each case runs with Microsoft's unmodified shim under Wine, with ours under Wine, and with ours on Linux, on emulators
of the same build. `tests.parity` compares them; what differs must be in `tests.parity.expected` with its reason.
"""
