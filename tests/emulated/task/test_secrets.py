"""The secrets of a spec (values of variables, credential specs, registry values) are in no log line of any level: not
in a normal lifecycle, not when HCS fails, and not when the spec is invalid."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shim.api.packing import pack
from shim.api.runhcs_options import Options
from shim.oci.annotations.container import EXTRA_REGISTRY
from shim.ttrpc.status import StatusError
from tests.support.emulator import Emulator
from tests.support.shims import Shim, Shims

SECRET = "Xyzzy-4711-"


def spec(shims: Shims, registry: str = "") -> dict[str, Any]:
    value = {"Key": {"Hive": "Software", "Name": "Vendor"}, "Name": "Token", "Type": "String",
             "StringValue": f"{SECRET}registry"}  # fmt: skip
    made = shims.spec("cmd", "/c", "ping -n 600 127.0.0.1 >nul")
    made["process"]["env"] = [f"PASSWORD={SECRET}variable"]
    made["windows"]["credentialSpec"] = json.dumps({"CmsPlugins": ["ActiveDirectory"], "Secret": f"{SECRET}credential"})
    made["annotations"] = {EXTRA_REGISTRY: registry or json.dumps([value])}
    return made


def start(shims: Shims, made: dict[str, Any]) -> Shim:
    return shims.start("c1", made, options=pack(Options(log_level="trace", debug=True)), with_log=True)


def expect_none(shims: Shims, shim: Shim, *texts: str) -> None:
    shim.log.close()
    written = shim.log.text
    assert "starting containerd-shim-runhcs-v1" in written
    assert SECRET not in written
    assert SECRET not in shim.panic_log()
    done = shims.command("c1", "delete", shim.path, bundle=shim.path)
    assert SECRET.encode() not in done.stdout + done.stderr
    for text in texts:
        assert SECRET not in text


def test_no_secrets_in_log_of_lifecycle(shims: Shims) -> None:
    shim = start(shims, spec(shims))
    shim.create(rootfs=shims.rootfs())
    shim.start()
    process = {**shims.process("cmd", "/c", "exit 0"), "env": [f"OTHER={SECRET}exec"]}
    shim.exec("e1", process)
    shim.start("e1")
    assert shim.wait("e1").exit_status == 0
    shim.kill(9)
    shim.wait()
    shim.delete()
    shim.shutdown()
    shim.wait_exited()
    expect_none(shims, shim)


@pytest.mark.parametrize("call", ["HcsCreateComputeSystem", "HcsStartComputeSystem", "HcsCreateProcess"])
def test_no_secrets_in_log_when_hcs_fails(emulator: Emulator, shims: Shims, call: str) -> None:
    emulator.fault(call, error=0x80370109)
    shim = start(shims, spec(shims))
    with pytest.raises(StatusError) as caught:
        shim.create(rootfs=shims.rootfs())
        shim.start()
    shim.kill_daemon()
    expect_none(shims, shim, caught.value.message)


@pytest.mark.parametrize(
    "registry",
    [
        f"not JSON at all: {SECRET}",
        json.dumps([{"Name": "Token", "StringValue": f"{SECRET}no key"}]),
        json.dumps([{"Key": {"Hive": "Sam", "Name": "X"}, "Name": "Token", "Type": "String", "StringValue": SECRET}]),
        json.dumps(
            [{"Key": {"Hive": "Software", "Name": "X"}, "Name": "T", "Type": "Nonsense", "StringValue": SECRET}]
        ),
    ],
    ids=["text", "no key", "another hive", "no type"],
)
def test_no_secrets_in_error_of_invalid_annotation(shims: Shims, registry: str) -> None:
    """The annotation is ignored or refused; no message has its value."""
    shim = start(shims, spec(shims, registry))
    message = ""
    try:
        shim.create(rootfs=shims.rootfs())
    except StatusError as error:
        message = error.message
    shim.kill_daemon()
    expect_none(shims, shim, message)


@pytest.mark.parametrize("variable", [f"{SECRET} without an equals sign", f"={SECRET}", f"A\0B={SECRET}"])
def test_no_secrets_in_error_of_invalid_variable(shims: Shims, variable: str) -> None:
    made = spec(shims)
    made["process"]["env"] = [variable]
    shim = start(shims, made)
    message = ""
    try:
        shim.create(rootfs=shims.rootfs())
    except StatusError as error:
        message = error.message
    shim.kill_daemon()
    expect_none(shims, shim, message)
