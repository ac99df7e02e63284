"""Messages of a recording: what is removed from those that may hold secrets."""

from __future__ import annotations

import pytest

from shim.api.cri_pod import DNSConfig, PodSandboxConfig
from shim.api.packing import pack
from shim.api.runhcs_options import Options
from shim.api.runtimeoptions import Options as GenericOptions
from shim.api.sandbox import CreateSandboxRequest
from shim.api.task import ExecProcessRequest
from shim.api.wellknown import Any as PackedAny
from shim.oci import options as runtime_options
from shim.recording.requests import CREATE_SANDBOX, EXEC, learn, scrubbed_message
from shim.recording.scrub import SCRUBBED, Scrubber

SECRET = "correct-horse-battery"
ANNOTATIONS = {"example.com/a": SECRET, "io.microsoft.a": "b"}
SCRUBBED_ANNOTATIONS = {"example.com/a": SCRUBBED, "io.microsoft.a": "b"}


def test_options_keep_everything_but_annotations() -> None:
    options = Options(boot_files_root_path="C:\\boot", log_level="debug", default_container_annotations=ANNOTATIONS)
    found = Options.decode(scrubbed_message(Options.FULL_NAME, options.encode(), Scrubber()) or b"")
    assert found.boot_files_root_path == "C:\\boot" and found.log_level == "debug"
    assert found.default_container_annotations == SCRUBBED_ANNOTATIONS


def test_options_of_a_toml_text_keep_everything_but_annotations() -> None:
    text = (
        'SandboxIsolation = 1\nSandboxPlatform = "linux/amd64"\nDebug = true\n[DefaultContainerAnnotations]\n'
        f'"example.com/a" = "{SECRET}"\n"io.microsoft.a" = "b"\n'
    )
    packed = pack(GenericOptions(config_body=text.encode()))
    payload = scrubbed_message(packed.type_url, packed.value, Scrubber())
    assert payload is not None and SECRET.encode() not in payload
    found = runtime_options.decode(PackedAny(type_url=packed.type_url, value=payload)).values
    expected = runtime_options.decode(packed).values
    assert found.default_container_annotations == SCRUBBED_ANNOTATIONS
    found.default_container_annotations = expected.default_container_annotations
    assert found == expected


def test_configuration_of_a_pod_keeps_what_the_shim_reads() -> None:
    pod = PodSandboxConfig(
        hostname="h", dns_config=DNSConfig(servers=["1.2.3.4"]), labels={"l": SECRET}, annotations=ANNOTATIONS
    )
    found = PodSandboxConfig.decode(scrubbed_message(PodSandboxConfig.FULL_NAME, pod.encode(), Scrubber()) or b"")
    assert found == PodSandboxConfig(
        hostname="h", dns_config=DNSConfig(servers=["1.2.3.4"]), annotations=SCRUBBED_ANNOTATIONS
    )


def test_other_messages_are_not_recorded() -> None:
    assert scrubbed_message("example.Message", SECRET.encode(), Scrubber()) is None
    assert scrubbed_message(Options.FULL_NAME, b"\xff", Scrubber()) is None


@pytest.mark.parametrize(
    ("method", "payload"),
    [
        (EXEC, ExecProcessRequest(spec=PackedAny(type_url="p", value=b'{"env": ["A=%s"]}' % SECRET.encode())).encode()),
        (CREATE_SANDBOX, CreateSandboxRequest(annotations={"example.com/a": SECRET}).encode()),
        (CREATE_SANDBOX, CreateSandboxRequest(options=pack(PodSandboxConfig(annotations=ANNOTATIONS))).encode()),
    ],
)
def test_secrets_of_a_request_are_removed_from_texts(method: str, payload: bytes) -> None:
    scrubber = Scrubber()
    learn(method, payload, scrubber)
    assert SECRET not in scrubber.text(f"cannot use {SECRET}")
