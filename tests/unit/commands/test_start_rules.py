"""`start`: whose daemon a container gets, what stdin may hold, where the socket is."""

from __future__ import annotations

import hashlib
import json
import posixpath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim import lean_json, logs
from shim.api.bootstrap import BootstrapParams, Extension
from shim.api.runhcs_options import Options
from shim.api.runtimeoptions import Options as GenericOptions
from shim.api.task import DeleteResponse
from shim.api.wellknown import Any, Timestamp
from shim.commands import Bootstrap, CommandError, Flags, bootstrap, delete, is_sandbox_bundle
from shim.commands.start import CONTAINER_TYPE, SANDBOX_ID, bootstrap_json, parse_pod_role
from shim.container import ledger
from shim.platform import endpoint

RUNHCS = "containerd.runhcs.v1.Options"


def flags(debug: bool = False) -> Flags:
    made = Flags()
    made.id, made.namespace, made.debug = "c1", "k8s.io", debug
    return made


# Grouping.


def test_standalone_container_has_its_own_daemon() -> None:
    assert parse_pod_role({}, "c1") == ("c1", False)
    assert parse_pod_role({"io.containerd.runc.v2.group": "g"}, "c1") == ("c1", False)


@pytest.mark.parametrize(
    ("bundle", "expected"),
    [
        ("/run/containerd/io.containerd.sandbox.controller.v1.shim/k8s.io/p1", True),
        ("/run/containerd/io.containerd.sandbox.controller.v1.shim/k8s.io/p1/", True),
        (r"C:\ProgramData\containerd\state\io.containerd.sandbox.controller.v1.shim\k8s.io\p1", True),
        ("/run/containerd/io.containerd.runtime.v2.task/k8s.io/p1", False),
        ("/io.containerd.sandbox.controller.v1.shim/x/k8s.io/p1", False),
        ("/p1", False),
        ("", False),
    ],
)
def test_sandbox_bundle_is_recognised_by_path(bundle: str, expected: bool) -> None:
    assert is_sandbox_bundle(bundle) is expected


def test_sandbox_response_is_json_version_3() -> None:
    address = 'unix:///run/"odd" ä/s'
    assert json.loads(bootstrap_json(address)) == {"version": 3, "address": address, "protocol": "ttrpc"}


def test_empty_message_counts_as_no_options() -> None:
    boot = bootstrap.read(Any(type_url="google.protobuf.Empty").encode(), flags())
    assert boot.options_type == "" and boot.options == b""


def test_pod_containers_share_the_daemon_of_the_sandbox() -> None:
    assert parse_pod_role({CONTAINER_TYPE: "sandbox", SANDBOX_ID: "p1"}, "p1") == ("p1", True)
    assert parse_pod_role({CONTAINER_TYPE: "container", SANDBOX_ID: "p1"}, "c1") == ("p1", False)


@pytest.mark.parametrize(
    "annotations",
    [
        {CONTAINER_TYPE: "sandbox"},
        {CONTAINER_TYPE: "container"},
        {CONTAINER_TYPE: "container", SANDBOX_ID: ""},
        {CONTAINER_TYPE: "container", SANDBOX_ID: 7},
        {SANDBOX_ID: "p1"},
        {CONTAINER_TYPE: "podsandbox", SANDBOX_ID: "p1"},
        {CONTAINER_TYPE: ["sandbox"], SANDBOX_ID: "p1"},
        {CONTAINER_TYPE: "sandbox", SANDBOX_ID: "other"},
        {CONTAINER_TYPE: "container", SANDBOX_ID: "c1"},
    ],
)
def test_incomplete_pod_annotations_are_rejected(annotations: dict[str, object]) -> None:
    with pytest.raises(CommandError, match=r"io\.kubernetes\.cri"):
        parse_pod_role(annotations, "c1")


# Stdin.


def packed(options: Options) -> bytes:
    return Any(type_url=RUNHCS, value=options.encode()).encode()


def test_bootstrap_defaults() -> None:
    boot = Bootstrap()
    assert (boot.options_type, boot.options, boot.scrub, boot.log_level) == ("", b"", True, logs.INFO)
    assert Bootstrap(debug=True).log_level == logs.DEBUG


def test_options_in_an_any_are_decoded() -> None:
    options = Options(sandbox_isolation=1, vm_memory_size_in_mb=2048)
    boot = bootstrap.read(packed(options), flags())
    assert boot.options_type == RUNHCS
    assert Options.decode(boot.options) == options


def test_type_url_prefix_is_ignored() -> None:
    data = Any(type_url=f"types.example.com/{RUNHCS}", value=Options(debug=True).encode()).encode()
    assert bootstrap.read(data, flags()).options_type == RUNHCS


def test_generic_options_are_decoded() -> None:
    data = Any(type_url="runtimeoptions.v1.Options", value=GenericOptions(type_url="x").encode()).encode()
    assert bootstrap.read(data, flags()).options_type == "runtimeoptions.v1.Options"


def generic(text: str) -> bytes:
    value = GenericOptions(config_body=text.encode()).encode()
    return Any(type_url="runtimeoptions.v1.Options", value=value).encode()


def test_generic_options_set_the_log_level() -> None:
    boot = bootstrap.read(generic('LogLevel = "warn"\nScrubLogs = false\n'), flags())
    assert (boot.log_level, boot.scrub) == (logs.WARNING, False)


# What CRI writes for a runtime under a type that containerd does not know.
CRI_TEXT = 'SandboxIsolation = 1\nSandboxPlatform = "windows/amd64"\n\n[DefaultContainerAnnotations]\n"a.b" = "c"\n'
BOOT_LINES = st.sampled_from(
    [
        "SandboxIsolation = 1", 'SandboxImage = "pause"', "Debug = true", "debug = false", 'LOGLEVEL = "error"',
        "ScrubLogs = false", "DebugType = 2", 'ShimScope = "node"', "Nonsense = 1", "# Debug", '"Debu\\u0067" = true',
        '[DefaultContainerAnnotations]\n"io.microsoft.container.shim-scope" = "namespace"',
        '"\u017fcrublogs" = true', "=",
    ]
)  # fmt: skip


def settings_of(boot: Bootstrap) -> tuple[object, ...]:
    return boot.log_level, boot.log_text, boot.scrub, boot.shim_scope, boot.options_type, boot.options


@given(st.lists(BOOT_LINES, unique=True, max_size=5).map("\n".join))
def test_generic_options_give_the_settings_of_the_whole_text(text: str) -> None:
    read = settings_of(bootstrap.read(generic(text), flags()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bootstrap, "_BOOT_WORDS", (b"",))  # in every text
        assert settings_of(bootstrap.read(generic(text), flags())) == read


def test_generic_options_without_settings_of_the_daemon_are_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connect would wait for the import of the parser. Create parses them."""
    monkeypatch.setattr("shim.oci.options.decode", lambda _: pytest.fail("the text was parsed"))
    assert bootstrap.read(generic(CRI_TEXT), flags()).options_type == "runtimeoptions.v1.Options"


@pytest.mark.parametrize("text", ["LogLevel = ", 'LogLevel = "loud"', "Nonsense = 1"])
def test_invalid_generic_options_are_left_to_create(text: str) -> None:
    assert bootstrap.read(generic(text), flags()).log_level == logs.INFO


def params(**fields: object) -> bytes:
    return BootstrapParams(instance_id="c1", namespace="k8s.io", **fields).encode()  # type: ignore[arg-type]


def test_options_in_bootstrap_params_are_decoded() -> None:
    other = Extension(value=Any(type_url="example.Something", value=b"\xff"))
    extension = Extension(value=Any(type_url=RUNHCS, value=Options(debug=True).encode()))
    data = params(extensions=[other, extension], socket_dir="/run/s", containerd_ttrpc_address="/run/t")
    boot = bootstrap.read(data, flags())
    assert (boot.options_type, boot.socket_dir, boot.ttrpc_address) == (RUNHCS, "/run/s", "/run/t")
    assert boot.log_level == logs.DEBUG


def test_bootstrap_params_without_options_are_accepted() -> None:
    assert bootstrap.read(params(), flags()).log_level == logs.INFO
    assert bootstrap.read(params(log_level=-4), flags()).log_level == logs.DEBUG


def test_any_is_not_mistaken_for_bootstrap_params() -> None:
    """Both have text in fields 1 and 2; only the right id and namespace make it BootstrapParams."""
    data = Any(type_url=RUNHCS, value=Options(log_level="warn").encode()).encode()
    boot = bootstrap.read(data, flags())
    assert boot.log_level == logs.WARNING


@pytest.mark.parametrize(
    ("options", "level"),
    [
        (Options(debug=True), logs.DEBUG),
        (Options(debug=True, log_level="error"), logs.ERROR),
        (Options(log_level="TRACE"), logs.TRACE),
        (Options(log_level="warn"), logs.WARNING),
        (Options(debug_type=2), logs.INFO),
    ],
)
def test_log_level_of_options(options: Options, level: int) -> None:
    boot = bootstrap.read(packed(options), flags())
    assert boot.log_level == level
    assert boot.log_text == (options.debug_type != 2)


@pytest.mark.parametrize(("given", "scrubs"), [(None, True), (True, True), (False, False)])
def test_scrubbing_is_on_by_default(given: bool | None, scrubs: bool) -> None:
    assert bootstrap.read(packed(Options(debug=True, scrub_logs=given)), flags()).scrub is scrubs


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\xff\xff\xff", "not a protobuf Any"),
        (b"hello", "stdin is not a protobuf Any|not for this runtime"),
        (b"{}\n", "not a protobuf Any|not for this runtime"),
        (Any(type_url="containerd.runc.v1.Options", value=b"").encode(), r"\(runc's\) are not for this runtime"),
        (Any(value=b"abc").encode(), "not for this runtime"),
        (Any(type_url=RUNHCS, value=b"\x82\x01").encode(), "cannot be read"),
        (Any(type_url=RUNHCS, value=b"\x82\x01\x02\xff\xff").encode(), "cannot be read: string is not UTF-8"),
        (packed(Options(log_level="loud")), 'log_level: not a valid log level: "loud"'),
        (Any(type_url="runtimeoptions.v1.Options", value=b"\x1a").encode(), "cannot be read"),
        (packed(Options(debug_type=1)), "debug_type FILE is not supported"),
        (params(extensions=[Extension(value=Any(type_url="containerd.runc.v1.Options"))]), "runc's"),
    ],
)
def test_invalid_stdin_is_rejected(data: bytes, message: str) -> None:
    with pytest.raises(CommandError, match=message):
        bootstrap.read(data, flags())


@given(st.binary(min_size=1, max_size=200))
def test_any_stdin_is_accepted_or_raises_command_error(data: bytes) -> None:
    with pytest.raises(CommandError):
        bootstrap.read(data, flags())


# The address.


@given(
    st.from_regex(r"/?([a-z.]{0,3}/){0,5}[a-z]{1,4}\.sock", fullmatch=True),
    st.from_regex(r"[a-z0-9]{1,5}", fullmatch=True),
    st.from_regex(r"[a-z0-9.]{1,9}[a-z]", fullmatch=True),
)
def test_address_equals_containerds(address: str, namespace: str, id: str) -> None:
    # Python keeps two leading slashes, Go keeps one.
    root = "/" if address.startswith("/") else ""
    joined = posixpath.normpath(root + "/".join((address.lstrip("/"), namespace, id)))
    expected = hashlib.sha256(joined.encode()).hexdigest()
    assert endpoint.address_for(address, namespace, id, "/run/s/") == f"unix:///run/s/{expected}"


def test_socket_directory_precedence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import posix

    name = endpoint.DIRECTORY_VARIABLE.encode()
    monkeypatch.delitem(posix.environ, name, raising=False)
    assert endpoint.address_for("/a", "n", "i").startswith("unix:///run/containerd/s/")
    monkeypatch.setitem(posix.environ, name, b"/tmp/x")
    assert endpoint.address_for("/a", "n", "i").startswith("unix:///tmp/x/")
    assert endpoint.address_for("/a", "n", "i", "/run/y").startswith("unix:///run/y/")


# The answer of delete.


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**33), st.integers(0, 999_999_999), st.integers(0, 2**32 - 1))
def test_delete_response_equals_codec(
    status: int, seconds: int, nanos: int, pid: int
) -> None:
    expected = DeleteResponse(pid=pid, exit_status=status, exited_at=Timestamp(seconds=seconds, nanos=nanos))
    assert delete.encode_response(status, seconds, nanos, pid) == expected.encode()


def test_delete_uses_the_file_name_of_the_ledger() -> None:
    assert delete.LEDGER_FILE == ledger.FILE


# JSON without json.

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(), children, max_size=4),
    max_leaves=20,
)


@given(JSON, st.sampled_from(["", " ", "\n\t"]), st.booleans())
def test_lean_json_loads_what_json_dumps(value: object, space: str, ascii: bool) -> None:
    import json

    text = space + json.dumps(value, ensure_ascii=ascii) + space
    if "\ud800" <= max(text, default="") <= "\udfff" or any("\ud800" <= char <= "\udfff" for char in text):
        return
    assert lean_json.loads(text.encode()) == value


@pytest.mark.parametrize("text", [b"", b"{", b'{"a":1,}', b"[1] 2", b"nul", b"\xff", b"[NaN]", b"[" * 100_000, b"'a'"])
def test_lean_json_raises_value_error(text: bytes) -> None:
    with pytest.raises(ValueError):
        lean_json.loads(text)
