"""The parsers of the launcher in C compared with those in Python, on generated input, under sanitizers.

Unless the C parser reports input as unsupported, which leaves it to Python, both must return the same."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from launcher.linux.build import COMMON, FLAGS, HERE
from shim.__main__ import parse
from shim.api import task as api
from shim.api.bootstrap import BootstrapParams, Extension
from shim.api.runhcs_options import Options
from shim.api.runtimeoptions import Options as GenericOptions
from shim.api.wellknown import Any
from shim.commands import SHIM_SCOPE, Bootstrap, CommandError, Flags, bootstrap, delete, pod_connect
from shim.commands.start import CONTAINER_TYPE, SANDBOX_ID, choose_scope, parse_pod_role
from shim.container.ledger import FILE, Ledger, read_entries
from shim.lean_json import loads
from shim.platform import endpoint
from shim.task import exit_record
from shim.ttrpc.core import REQUEST, RESPONSE, encode_frame
from shim.ttrpc.envelope import encode_request, encode_response, encode_route

RUNHCS = "containerd.runhcs.v1.Options"
GENERIC = "runtimeoptions.v1.Options"
# What CRI sends for a runtime under a type that containerd does not know: the table of its configuration.
CRI_TOML = """SandboxIsolation = 1
SandboxPlatform = "windows/amd64"
TypeUrl = "x.v1.Options"

[DefaultContainerAnnotations]
"io.microsoft.a" = "b"
"""
PARSERS = (
    HERE / "address.c", HERE / "files.c", HERE / "sha256.c",
    *COMMON.glob("*.c"),
)  # fmt: skip
GENERATED = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


class Probe:
    def __init__(self, program: Path, sockets: str) -> None:
        environment = {**os.environ, "RUNHCS_SOCKET_DIR": sockets}
        self._process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        self._lock = threading.Lock()

    def request(self, kind: bytes, id: str, data: bytes) -> str:
        assert self._process.stdin is not None and self._process.stdout is not None
        frame = kind + b"".join(len(text).to_bytes(4, "big") + text for text in (id.encode(), data))
        with self._lock:
            self._process.stdin.write(frame)
            self._process.stdin.flush()
            response = self._process.stdout.readline()
        assert response, f"the probe crashed on {frame!r}"
        return response.decode().removesuffix("\n")

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        assert self._process.wait(30) == 0
        self._process.stdout.close()


@pytest.fixture(scope="module")
def probe(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Probe]:
    program = tmp_path_factory.mktemp("probe") / "probe"
    sources = [Path(__file__).with_name("launcher_probe.c"), *PARSERS]
    sanitize = ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    flags = [flag for flag in FLAGS if flag != "-s"]
    command = ["cc", *flags, *sanitize, f"-I{HERE}", f"-I{COMMON}", *map(str, sources), "-o", program]
    subprocess.run(command, check=True, timeout=120)
    probe = Probe(program, "/run/containerd/s")
    yield probe
    probe.close()


# The annotations in config.json.


def python_role(text: bytes, id: str) -> str:
    try:
        spec = loads(text)
    except ValueError:
        return "refused"
    annotations = spec.get("annotations") if isinstance(spec, dict) else spec
    if annotations is None and isinstance(spec, dict):
        annotations = {}
    if not isinstance(annotations, dict):
        return "refused"
    try:
        sandbox, is_sandbox = parse_pod_role(annotations, id)
        scope = f" {choose_scope(annotations, Bootstrap())}" if annotations.get(SHIM_SCOPE) else ""
    except CommandError:
        return "refused"
    if is_sandbox:
        return f"sandbox {sandbox}{scope}"
    return f"standalone {scope}" if sandbox == id else f"member {sandbox}{scope}"


OURS = (CONTAINER_TYPE, SANDBOX_ID, SHIM_SCOPE)
NAMES = st.sampled_from([*OURS, "annotations", "é", 'a"b', "\\", ""]) | st.text(max_size=5)
WORDS = ["sandbox", "container", "pod", "namespace", "node", "c1", ".", "..", "a/b", "ä"]
TEXTS = st.sampled_from(WORDS) | st.text(max_size=8)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=12
)
ANNOTATIONS = st.dictionaries(NAMES, TEXTS | VALUES, max_size=4)
OTHERS = st.dictionaries(NAMES, VALUES, max_size=3)
SPECS = st.builds(lambda rest, own: {**rest, "annotations": own}, OTHERS, ANNOTATIONS)


@pytest.mark.parametrize(
    ("annotations", "role"),
    [
        ({}, "standalone "),
        ({"other": 'a \\ "value" \x7f \u20ac \U0001f600'}, "standalone "),
        ({CONTAINER_TYPE: "sandbox", SANDBOX_ID: "c1"}, "sandbox c1"),
        ({CONTAINER_TYPE: "container", SANDBOX_ID: "pod"}, "member pod"),
        ({CONTAINER_TYPE: "sandbox", SANDBOX_ID: "c1", SHIM_SCOPE: "namespace"}, "sandbox c1 namespace"),
        ({SHIM_SCOPE: "node"}, "standalone  node"),
    ],
)
@pytest.mark.parametrize("escaped", [True, False])
def test_pod_role_of_common_specs_equals_python(
    probe: Probe, annotations: dict[str, str], role: str, escaped: bool
) -> None:
    spec = {
        "ociVersion": "1.1.0", "process": {"args": ["cmd", "/c", "echo é <&>"], "env": [], "rlimits": None},
        "annotations": annotations, "windows": {"resources": {"cpu": {"maximum": 10000, "shares": 1.5e3, "x": -0.0}}},
    }  # fmt: skip
    for indent in (None, 2):
        text = json.dumps(spec, ensure_ascii=escaped, indent=indent).encode() + b"\n"
        assert probe.request(b"r", "c1", text) == role == python_role(text, "c1")
    assert probe.request(b"r", "c1", b"{}") == "standalone "


@GENERATED
@given(spec=SPECS | VALUES, escaped=st.booleans(), data=st.data())
def test_pod_role_of_generated_specs_equals_python_or_is_unsupported(
    probe: Probe, spec: object, escaped: bool, data: st.DataObject
) -> None:
    text = json.dumps(spec, ensure_ascii=escaped).encode("utf-8", "surrogatepass")
    if data.draw(st.booleans()):  # corrupt it
        at = data.draw(st.integers(0, len(text)))
        text = text[:at] + data.draw(st.binary(max_size=3)) + text[at + data.draw(st.integers(0, 3)) :]
    response = probe.request(b"r", "c1", text)
    assert response in ("unsupported ", python_role(text, "c1"))


@pytest.mark.parametrize(
    "text",
    [
        b"", b" ", b"[]", b"null", b"{} x", b"\xef\xbb\xbf{}", b'{"a":NaN}', b'{"a":01}', b'{"a":+1}', b'{"a":1.}',
        b'{"a":.5}', b'{"a":1e}', b'{"a":"\n"}', b'{"a":"\\x"}', b'{"a":"\\u12g4"}', b'{"a":"\xff"}',
        b'{"a":"\xed\xa0\x80"}', b'{"a":"\xc0\x80"}',
        b'{"a":"\xf4\x90\x80\x80"}', b'{"a":1,}', b'{"a"}', b'{,}', b"[" * 200 + b"]" * 200,
        b'{"a":' + b"1" * 5000 + b"}", b'{"a":tru}', b'{"a":"', b'{"a":"\\', b'{"annotations":null}',
        b'{"annotations":{},"annotations":{}}', b'{"annot\\u0061tions":{}}', b'{"annotations":[]}', b"{'a':1}",
        json.dumps({"annotations": {SANDBOX_ID: "pod"}}).encode(),
        json.dumps({"annotations": {CONTAINER_TYPE: "container", SANDBOX_ID: "c1"}}).encode(),
        json.dumps({"annotations": {CONTAINER_TYPE: "sandbox", SANDBOX_ID: "pod"}}).encode(),
        json.dumps({"annotations": {CONTAINER_TYPE: "other", SANDBOX_ID: "pod"}}).encode(),
        json.dumps({"annotations": {CONTAINER_TYPE: "container", SANDBOX_ID: "p" * 64}}).encode(),
    ],
)  # fmt: skip
def test_pod_role_of_invalid_or_ambiguous_specs_is_unsupported(probe: Probe, text: bytes) -> None:
    assert probe.request(b"r", "c1", text) == "unsupported "


# Runtime options on stdin.


def python_stdin(data: bytes) -> str:
    flags = Flags()
    flags.id, flags.namespace = "c1", "ns"
    try:
        boot = bootstrap.read(data, flags)
    except CommandError:
        return "refused"
    return f"supported{boot.socket_dir}{' ' + boot.shim_scope if boot.shim_scope else ''}"


OPTIONS = st.builds(
    Options, debug=st.booleans(), debug_type=st.sampled_from([0, 0, 1, 2, 3]), sandbox_image=TEXTS,
    sandbox_isolation=st.integers(0, 2), vm_processor_count=st.integers(-3, 9),
    log_level=st.sampled_from(["", "debug", "x"]),
    default_container_annotations=st.dictionaries(st.just(SHIM_SCOPE) | TEXTS, TEXTS, max_size=2),
    scrub_logs=st.none() | st.booleans(),
)  # fmt: skip


@GENERATED
@given(options=OPTIONS, kind=st.sampled_from([RUNHCS, RUNHCS, "containerd.runc.v1.Options", ""]), data=st.data())
def test_supported_options_are_accepted_by_python(
    probe: Probe, options: Options, kind: str, data: st.DataObject
) -> None:
    packed = Any(type_url=kind, value=options.encode()).encode()
    if data.draw(st.booleans()):
        at = data.draw(st.integers(0, len(packed)))
        packed = packed[:at] + data.draw(st.binary(max_size=3)) + packed[at + data.draw(st.integers(0, 3)) :]
    assert probe.request(b"o", "c1", packed) in ("unsupported", python_stdin(packed))


TOML = st.lists(
    st.sampled_from(
        ['LogLevel = "x"', 'DebugType = "FILE"', "debugtype = 1", '"Log\\u004cevel" = "x"', "VmProcessorCount = 2",
         "[a]", "x = [[[", "Debug = true", "é = 1", "BootFilesRootPath = 'C:\\boot'"]
    ),
    max_size=3,
).map("\n".join)  # fmt: skip
EXTENSIONS = st.lists(
    st.one_of(
        OPTIONS.map(lambda options: Any(type_url=RUNHCS, value=options.encode())),
        TOML.map(lambda text: Any(type_url=GENERIC, value=GenericOptions(config_body=text.encode()).encode())),
        st.builds(Any, type_url=st.sampled_from(["", "x", "a.Options"]), value=st.binary(max_size=4)),
        st.none(),
    ),
    max_size=2,
)
PARAMS = st.builds(
    lambda extensions, **fields: BootstrapParams(**fields, extensions=[Extension(value=value) for value in extensions]),
    EXTENSIONS, instance_id=st.sampled_from(["c1", "c1", "c1", "c2"]), namespace=st.sampled_from(["ns", "ns", ""]),
    log_level=st.sampled_from([0, -8, -4, 4, 12, 2**31 - 1]), containerd_version=TEXTS, containerd_binary=TEXTS,
    socket_dir=st.none() | st.sampled_from(["", "/run/s", "é", "/" * 200]),
)  # fmt: skip


@GENERATED
@given(params=PARAMS, data=st.data())
def test_supported_bootstrap_params_are_accepted_by_python(
    probe: Probe, params: BootstrapParams, data: st.DataObject
) -> None:
    packed = params.encode()
    if data.draw(st.booleans()):
        at = data.draw(st.integers(0, len(packed)))
        packed = packed[:at] + data.draw(st.binary(max_size=3)) + packed[at + data.draw(st.integers(0, 3)) :]
    assert probe.request(b"o", "c1", packed) in ("unsupported", python_stdin(packed))


@pytest.mark.parametrize("log_level", [0, -4, -8, 8])
@pytest.mark.parametrize(
    "extensions",
    [
        [],
        [Any(type_url=RUNHCS, value=Options(log_level="debug").encode())],
        [Any(type_url=GENERIC, value=GenericOptions(type_url="x.v1.Options", config_body=CRI_TOML.encode()).encode())],
    ],
    ids=["no options", "runhcs options", "TOML"],
)
def test_bootstrap_params_of_containerd_are_supported(probe: Probe, log_level: int, extensions: list[Any]) -> None:
    params = BootstrapParams(
        instance_id="c1", namespace="ns", log_level=log_level, containerd_version="v2.3.4",
        containerd_ttrpc_address="/run/containerd/containerd.sock.ttrpc", containerd_grpc_address="/run/c.sock",
        containerd_binary="/usr/bin/containerd", extensions=[Extension(value=value) for value in extensions],
        socket_dir="/run/containerd/s",
    )  # fmt: skip
    assert probe.request(b"o", "c1", params.encode()) == "supported/run/containerd/s" == python_stdin(params.encode())
    for value in extensions:
        assert probe.request(b"o", "c1", value.encode()) == "supported" == python_stdin(value.encode())


def test_toml_that_python_refuses_is_unsupported(probe: Probe) -> None:
    for text in ('LogLevel = "x"', 'DEBUGTYPE = "FILE"', '"Log\\u004cevel" = "x"', "x = " + "[" * 2000):
        packed = Any(type_url=GENERIC, value=GenericOptions(config_body=text.encode()).encode())
        assert probe.request(b"o", "c1", packed.encode()) == "unsupported"


@pytest.mark.parametrize(
    ("text", "scope"),
    [
        ('ShimScope = "node"', "node"),
        ('VmProcessorCount = 2\nShimScope = "namespace"\n\n[DefaultContainerAnnotations]\n', "namespace"),
        ('shimscope = "pod"\n', "pod"),
    ],
)
def test_scope_in_toml_is_read(probe: Probe, text: str, scope: str) -> None:
    packed = Any(type_url=GENERIC, value=GenericOptions(config_body=text.encode()).encode()).encode()
    assert probe.request(b"o", "c1", packed) == f"supported {scope}" == python_stdin(packed)


@pytest.mark.parametrize(
    "text",
    [
        'ShimScope = "cluster"',
        'ShimScope="node"',
        'ShimScope = "node" # all of them',
        'ShimScope = "node"\nShimScope = "pod"',
        '[DefaultContainerAnnotations]\nShimScope = "node"',
        f'[DefaultContainerAnnotations]\n"{SHIM_SCOPE}" = "node"',
        'SandboxImage = """\nShimScope = "node"\n"""',
        '# ShimScope = "node"',
    ],
)
def test_other_forms_of_scope_in_toml_are_left_to_python(probe: Probe, text: str) -> None:
    packed = Any(type_url=GENERIC, value=GenericOptions(config_body=text.encode()).encode())
    assert probe.request(b"o", "c1", packed.encode()) == "unsupported"


def test_all_option_fields_are_supported(probe: Probe) -> None:
    every = Options(
        debug=True, debug_type=2, registry_root="r", sandbox_image="i", sandbox_platform="windows/amd64",
        sandbox_isolation=1, boot_files_root_path="C:\\boot", vm_processor_count=2,
        vm_memory_size_in_mb=1024, GPUVHDPath="g",
        scale_cpu_limits_to_sandbox=True, default_container_scratch_size_in_gb=20, default_vm_scratch_size_in_gb=20,
        share_scratch=True, NCProxyAddr="n", log_level="warn", io_retry_timeout_in_sec=1,
        default_container_annotations={"a": "b"}, no_inherit_host_timezone=True, scrub_logs=False,
    )  # fmt: skip
    for options in (every, Options()):
        packed = Any(type_url=RUNHCS, value=options.encode()).encode()
        assert probe.request(b"o", "c1", packed) == "supported" == python_stdin(packed)
        assert probe.request(b"o", RUNHCS, packed) == "unsupported"


# The address.


@GENERATED
@given(parts=st.lists(st.sampled_from(["a", "run", ".", "..", "", "c.sock", "ä", "x y"]), min_size=1, max_size=5))
def test_socket_path_equals_python_or_is_unsupported(probe: Probe, parts: list[str]) -> None:
    for address in ("/".join(parts), "/" + "/".join(parts), "/" * 60 + "long" * 40):
        response = probe.request(b"p", "c1", address.encode())
        path = endpoint.path_of(endpoint.address_for(address, "ns", "c1", "/run/containerd/s"))
        assert response in ("unsupported", path)
    response = probe.request(b"p", "c1", b"/run/" + b"x" * 300)
    assert response == endpoint.path_of(endpoint.address_for("/run/" + "x" * 300, "ns", "c1", "/run/containerd/s"))


# The command line.

WORDS = st.sampled_from(
    ["-namespace", "--namespace", "-id", "-id=c1", "--id=c1", "-address", "-address=/a", "-publish-binary",
     "-publish-binary=/p", "-namespace=ns", "-bundle=/b", "-bundle", "start", "delete", "serve", "-debug", "--debug",
     "-debug=true", "-v", "-", "--", "", "value", "a/b", "..", "-x", "-socket", "-is-sandbox"]
)  # fmt: skip
COMMON_FLAGS = ["-namespace", "ns", "-address", "/a", "-publish-binary", "/p", "-id", "c1"]


@GENERATED
@given(words=st.lists(WORDS, max_size=6) | st.permutations([*COMMON_FLAGS[0::2], "start"]), whole=st.booleans())
def test_command_line_equals_python_or_is_unsupported(probe: Probe, words: list[str], whole: bool) -> None:
    words = [*COMMON_FLAGS, *words] if whole else words
    response = probe.request(b"c", "", b"".join(word.encode() + b"\0" for word in words))
    if response == "unsupported":
        return
    action, flags = parse(words)
    flags.require("namespace", "address", "publish-binary", "id")
    texts = (action, flags.namespace, flags.address, flags.publish_binary, flags.id, flags.bundle)
    assert response == " ".join(texts)
    assert action in ("start", "delete")


def test_command_lines_of_containerd_are_supported(probe: Probe) -> None:
    for more in (["start"], ["-debug", "start"], ["-bundle", "/b", "delete"], ["-bundle=/b", "--debug", "delete"]):
        words = [*COMMON_FLAGS, *more]
        response = probe.request(b"c", "", b"".join(word.encode() + b"\0" for word in words))
        assert response.startswith(f"{more[-1]} ns /a /p c1")


# The ledger and the exit record.

LEDGER_LINES = st.one_of(
    st.builds(
        lambda number, verb, kind, more: json.dumps({"n": str(number), verb: kind, **more}, separators=(",", ":")),
        st.integers(0, 4), st.sampled_from(["enter", "enter", "strike", "strike", "hcs"]),
        st.sampled_from(["mount", "layer"]), st.dictionaries(st.sampled_from(["target", "é"]), TEXTS, max_size=1),
    ),
    st.sampled_from(
        ["", "{}", '{"n":"1","strike":"mou', '{"n":"1","enter":"a","strike":"b"}', '{"n":"-1","enter":"x"}']
    ),
)  # fmt: skip


@GENERATED
@given(lines=st.lists(LEDGER_LINES, max_size=6), is_whole=st.booleans())
def test_released_ledger_has_no_entries_in_python(
    probe: Probe, tmp_path: Path, lines: list[str], is_whole: bool
) -> None:
    text = "\n".join(lines).encode() + b"\n" * is_whole
    (tmp_path / FILE).write_bytes(text)
    if probe.request(b"l", "", text) == "released":
        assert read_entries(str(tmp_path))[0] == []


def test_ledger_of_python_is_released_after_last_entry(probe: Probe, tmp_path: Path) -> None:
    ledger = Ledger(str(tmp_path))
    entries = [ledger.enter("mount", target=f'/a "quoted" é {number}') for number in range(3)]
    for entry in entries:
        assert probe.request(b"l", "", (tmp_path / FILE).read_bytes()) == "unsupported"
        ledger.mark_released(entry)
    assert probe.request(b"l", "", (tmp_path / FILE).read_bytes()) == "released"


NUMBERS = st.integers(0, 1 << 33) | st.sampled_from([0, 1, 255, 999_999_999, 1 << 60, 1 << 64, -1])


@GENERATED
@given(numbers=st.lists(NUMBERS, min_size=3, max_size=5), end=st.sampled_from(["\n", "\n", "", " \n", "x\n"]))
def test_delete_response_equals_python_or_is_unsupported(
    probe: Probe, tmp_path: Path, numbers: list[int], end: str
) -> None:
    text = " ".join(map(str, numbers)) + end
    (tmp_path / exit_record.FILE_NAME).write_text(text)
    response = probe.request(b"e", "", text.encode())
    if response != "unsupported":
        record = exit_record.read(str(tmp_path))
        assert record is not None and bytes.fromhex(response) == delete.encode_response(*record)


def test_delete_response_of_common_exits_is_supported(probe: Probe) -> None:
    for record in ((0, 1_700_000_000, 5, 4711), (255, 1, 0, 0), (0xC000013A, 1_700_000_000, 999_999_999, 1)):
        text = "{} {} {} {}\n".format(*record).encode()
        assert bytes.fromhex(probe.request(b"e", "", text)) == delete.encode_response(*record)


# Connect.


@GENERATED
@given(id=st.text(st.sampled_from("abc-_.019"), min_size=1, max_size=255))
def test_connect_request_equals_python(probe: Probe, id: str) -> None:
    payload = api.ConnectRequest(id=id).encode()
    body = encode_request(encode_route(pod_connect.SERVICE, "Connect"), payload, 1_000_000_000)
    assert bytes.fromhex(probe.request(b"q", id, b"")) == encode_frame(1, REQUEST, 0, body)


@GENERATED
@given(pid=st.integers(0, (1 << 32) - 1), task_pid=st.integers(0, 9), version=st.sampled_from(["", "3"]))
def test_connect_response_equals_python_or_is_unsupported(probe: Probe, pid: int, task_pid: int, version: str) -> None:
    body = encode_response(api.ConnectResponse(shim_pid=pid, task_pid=task_pid, version=version).encode())
    response = int(probe.request(b"a", "", encode_frame(1, RESPONSE, 0, body)))
    assert response == (pod_connect._pid(body) if pid < 1 << 31 else 0)


@GENERATED
@given(body=st.binary(max_size=20), kind=st.sampled_from([REQUEST, RESPONSE]))
def test_connect_response_of_any_bytes_passes_sanitizers(probe: Probe, body: bytes, kind: int) -> None:
    """Unlike Python, the C decoder does not read what follows the pid."""
    pid = int(probe.request(b"a", "", encode_frame(1, kind, 0, body)))
    assert pid == 0 or (kind == RESPONSE and body.startswith(b"\x12"))
