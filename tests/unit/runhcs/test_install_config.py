"""`runhcs install`: edits of containerd's configuration, and the file that it imports."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runhcs.config.runtimes import runtimes
from runhcs.install.containerd_config import (
    MARK,
    ConfigError,
    dump,
    effective_section,
    is_copy_current,
    load,
    merged,
    new_text,
    runtimes_text,
    version_of,
    with_import,
    without_import,
)

PATH = r"C:\Program Files\containerd\runhcs.toml"
SHIM = r"C:\Program Files\containerd-shim-runhcs\versions\1\containerd-shim-runhcs-v1.exe"
PLUGINS = {2: "io.containerd.grpc.v1.cri", 3: "io.containerd.cri.v1.runtime"}

MAIN_FILES = {
    "plain": "version = 2\n[grpc]\n  address = 'x'\n",
    "windows_line_ends": "# node\r\nversion = 3\r\n\r\n[debug]\r\n  level = 'info'\r\n",
    "byte_order_mark": "\ufeffversion = 2\nroot = 'C:\\root'\n",
    "quoted_key": '"version" = 2\n"imports" = ["a.toml"]\n',
    "empty_imports": "version = 2\nimports = []\n",
    "one_import": "version = 2\nimports = ['a.toml'] # keep\n",
    "trailing_comma": 'version = 3\nimports = ["a,[]#.toml", ]\n[grpc]\n',
    "lines_and_comments": "version = 2\nimports = [\n  # first ]\n  'a.toml', # 'b'\n  \"c\\\\d\",\n]\nroot = 'r'\n",
    "imports_before_version": "imports = ['a.toml']\nversion = 2\n",
    "version_in_table": "root = 'r'\nversion = 2 # of the file\n[plugins.x]\nversion = 7\nimports = ['no']\n",
}


@pytest.mark.parametrize("text", MAIN_FILES.values(), ids=MAIN_FILES)
def test_import_is_added_and_removed_without_other_changes(text: str) -> None:
    edited = with_import(text, PATH)
    before, after = (tomllib.loads(one.removeprefix("\ufeff").replace("\r\n", "\n")) for one in (text, edited))
    assert after == {**before, "imports": [*before.get("imports", []), PATH]}
    at = next(at for at, pair in enumerate(zip(text, edited + "\0", strict=False)) if pair[0] != pair[1])
    assert edited.endswith(text[at:]), "only one place has changed"
    assert with_import(edited, PATH) == edited
    assert with_import(edited, PATH.upper().replace("\\", "/")) == edited
    assert without_import(edited, PATH) == text


def test_added_line_has_the_line_ending_of_the_file() -> None:
    edited = with_import(MAIN_FILES["windows_line_ends"], PATH)
    assert edited.count("\n") == edited.count("\r\n")
    assert f"imports = ['{PATH}'] {MARK}\r\n" in edited


def test_pattern_that_includes_the_file_needs_no_import() -> None:
    text = "version = 2\nimports = ['C:/Program Files/containerd/*.toml']\n"
    assert with_import(text, PATH) == text
    assert without_import(text, PATH) == text


def test_import_that_was_moved_by_an_administrator_is_removed() -> None:
    text = f"version = 2\nimports = ['{PATH}', 'a.toml']\n"
    assert without_import(text, PATH) == "version = 2\nimports = ['a.toml']\n"
    text = f"version = 2\nimports = ['a.toml', '{PATH}', 'b.toml']\n"
    assert without_import(text, PATH) == "version = 2\nimports = ['a.toml', 'b.toml']\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("version = 2\nimports = [\n", "not valid TOML"),
        ("root = '''\nversion = 2\n'''\nversion = 2\n", "cannot be edited"),
        ("version = 2", "end the line first"),
    ],
)  # fmt: skip
def test_unsupported_text_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        with_import(text, PATH)


@pytest.mark.parametrize("version", [None, 1, 4])
def test_unsupported_version_is_refused(version: int | None) -> None:
    with pytest.raises(ConfigError, match="containerd config migrate"):
        version_of({} if version is None else {"version": version}, "config.toml")


def test_new_file_has_version_and_import() -> None:
    assert tomllib.loads(new_text(3, PATH)) == {"version": 3, "imports": [PATH]}
    assert without_import(new_text(2, PATH), PATH) == "version = 2\n"


@pytest.mark.parametrize("version", [2, 3])
def test_runtimes_have_the_path_of_the_shim(version: int) -> None:
    names = ["runhcs-wcow-process", "runhcs-wcow-hypervisor"]
    found = tomllib.loads(runtimes_text(runtimes(names), version, SHIM, {}))
    section = found["plugins"][PLUGINS[version]]["containerd"]
    assert found["version"] == version
    assert {name: one["runtime_path"] for name, one in section["runtimes"].items()} == dict.fromkeys(names, SHIM)
    assert section["default_runtime_name"] == "runhcs-wcow-process"


@pytest.mark.parametrize("version", [2, 3])
def test_configured_default_runtime_is_kept(version: int) -> None:
    section = {"containerd": {"default_runtime_name": "runc"}}
    found = tomllib.loads(runtimes_text(runtimes(["runhcs-wcow-process"]), version, SHIM, section))
    assert found["plugins"][PLUGINS[version]]["containerd"].get("default_runtime_name") == {2: "runc", 3: None}[version]


def test_version_2_copies_the_section_of_the_plugin() -> None:
    """containerd 1.x replaces the section by that of the imported file."""
    options = {"DebugType": 1}
    section = {
        "sandbox_image": "pause",
        "cni": {"bin_dir": "C:\\cni", "conf_dir": ""},
        "registry": {"mirrors": {"docker.io": {"endpoint": ["https://a", "https://b"]}}, "configs": {}},
        "containerd": {"runtimes": {"runhcs-wcow-process": {"runtime_type": "other", "options": options}}},
    }
    found = tomllib.loads(runtimes_text(runtimes(["runhcs-wcow-process"]), 2, SHIM, section))["plugins"][PLUGINS[2]]
    runtime = found["containerd"]["runtimes"]["runhcs-wcow-process"]
    assert runtime["options"] == options and runtime["runtime_path"] == SHIM
    assert runtime["runtime_type"] == "io.containerd.runhcs.v1"
    assert {key: found[key] for key in ("sandbox_image", "cni", "registry")} == {
        key: section[key] for key in ("sandbox_image", "cni", "registry")
    }


def test_version_3_has_the_runtimes_only() -> None:
    found = tomllib.loads(runtimes_text(runtimes([]), 3, SHIM, {"cni": {"bin_dir": "x"}}))
    assert list(found["plugins"][PLUGINS[3]]) == ["containerd"]


def test_imports_are_loaded_in_the_order_of_containerd(tmp_path: Path) -> None:
    def write(name: str, image: str, imports: list[str]) -> None:
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        plugin = f'[plugins."{PLUGINS[2]}"]\nsandbox_image = "{image}"\n'
        file.write_text(f"version = 2\nimports = {imports}\n{plugin}")

    ours = str(tmp_path / "runhcs.toml")
    write("config.toml", "main", ["a.toml", str(tmp_path / "d" / "*.toml"), ours, "config.toml"])
    write("a.toml", "a", ["nested.toml"])
    write("nested.toml", "nested", [])
    write("d/1.toml", "d1", [])
    write("d/2.toml", "d2", [])
    write("runhcs.toml", "ours", [])
    files = load(tmp_path / "config.toml", ours)
    images = [file["plugins"][PLUGINS[2]]["sandbox_image"] for file in files]
    assert images == ["main", "a", "d1", "d2", "nested"]
    assert effective_section(files, 2) == {"sandbox_image": "nested"}


def test_effective_section_of_version_3_merges_tables() -> None:
    files = [
        {"plugins": {PLUGINS[3]: {"cni": {"bin_dir": "a", "conf_dir": "b"}}}},
        {"plugins": {PLUGINS[3]: {"cni": {"bin_dir": "c"}}}},
    ]
    assert effective_section(files, 3) == {"cni": {"bin_dir": "c", "conf_dir": "b"}}


@pytest.mark.parametrize(
    ("changed", "is_current"),
    [
        ("", True),
        ("[plugins.'io.containerd.grpc.v1.cri'.cni]\nbin_dir = 'b'\n", False),
        ("[plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.other]\nruntime_type = 'x'\n", False),
        ("[grpc]\naddress = 'y'\n", True),
    ],
)
def test_copy_of_the_section_is_current(changed: str, is_current: bool, tmp_path: Path) -> None:
    main, imported = tmp_path / "config.toml", tmp_path / "runhcs.toml"
    text = "version = 2\n[plugins.'io.containerd.grpc.v1.cri']\nsandbox_image = 'a'\n"
    main.write_text(text)
    section = effective_section(load(main), 2)
    imported.write_text(runtimes_text(runtimes(["runhcs-wcow-process"]), 2, SHIM, section))
    main.write_text(text + changed)
    assert is_copy_current(main, imported) is is_current


SCALARS = st.text() | st.integers() | st.booleans() | st.floats(allow_nan=False)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3), max_leaves=4)
TABLES = st.dictionaries(st.text(), st.recursive(VALUES, lambda one: st.dictionaries(st.text(), one, max_size=3)))


@given(TABLES)
def test_written_toml_parses_to_the_same_table(table: dict[str, object]) -> None:
    assert tomllib.loads(dump(table, ("plugins", "a.b")))["plugins"]["a.b"] == table


@given(TABLES, TABLES)
def test_merged_has_the_keys_of_both(base: dict[str, object], over: dict[str, object]) -> None:
    assert {*merged(base, over)} == {*base, *over}
    assert merged(merged(base, over), over) == merged(base, over)
