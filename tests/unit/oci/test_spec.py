"""Specs and annotations: what is read, and the sentences for what is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.oci import spec as oci_spec
from shim.oci.annotations import container as names
from shim.oci.annotations.container import Annotations
from shim.oci.errors import NO_KIND, InvalidSpec
from shim.oci.section import Section
from shim.oci.spec import Spec


def windows(**more: Any) -> dict[str, Any]:
    return {"process": {"args": ["cmd"]}, "windows": {"layerFolders": None}, **more}


def refusal(call: Any, *arguments: Any) -> InvalidSpec:
    with pytest.raises(InvalidSpec) as caught:
        call(*arguments)
    return caught.value


class TestLoading:
    def test_reads_config_json_of_the_bundle(self, tmp_path: Path) -> None:
        (tmp_path / "config.json").write_text(json.dumps(windows(hostname="web")))
        assert oci_spec.load(str(tmp_path)).hostname == "web"

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (None, "does not exist"),
            ("", "is not JSON"),
            ("{", "is not JSON"),
            ("[]", "is not a JSON object"),
            ("\udcff", "not UTF-8"),
            ('{"annotations": {"a": 1}}', "annotations.a is a number: it must be text"),
            ('{"annotations": []}', "annotations is a list: it must be an object"),
        ],
    )
    def test_invalid_config_is_rejected(self, tmp_path: Path, content: str | None, message: str) -> None:
        if content is not None:
            (tmp_path / "config.json").write_bytes(content.encode("utf-8", "surrogateescape"))
        error = refusal(oci_spec.load, str(tmp_path))
        assert message in str(error) and error.kind == NO_KIND

    @given(st.binary(max_size=200))
    def test_any_bytes_load_or_raise_invalid_spec(self, data: bytes) -> None:
        try:
            Spec(oci_spec.parse(data, "config.json"))
        except InvalidSpec as error:
            assert str(error)

    def test_missing_process_error_names_next_step(self) -> None:
        assert "process.args" in str(refusal(lambda: Spec({"windows": {}}).process))


class TestSection:
    def test_null_missing_and_empty_are_equal(self) -> None:
        for values in ({}, {"a": None}):
            section = Section(values, "")
            assert section.text("a") == "" and section.number("a") == 0 and not section.flag("a")
            assert section.texts("a") == [] and section.sections("a") == [] and section.section("a").values == {}
            assert not section.has("a")
        assert Section({"a": {}}, "").has("a")

    @pytest.mark.parametrize(
        ("method", "value", "message"),
        [
            ("text", 1, "x.a is a number: it must be text"),
            ("number", "1", "x.a is text: it must be a number"),
            ("number", True, "x.a is true or false: it must be a number"),
            ("number", 1.5, "x.a is a fraction"),
            ("number", -1, "x.a is -1"),
            ("flag", 1, "x.a is a number: it must be true or false"),
            ("texts", ["a", 1], "x.a[1] is a number: it must be text"),
            ("texts", [None], "x.a[0] is null: it must be text"),
            ("sections", [[]], "x.a[0] is a list: it must be an object"),
            ("section", "b", "x.a is text: it must be an object"),
        ],
    )
    def test_wrong_type_error_has_path(self, method: str, value: object, message: str) -> None:
        assert message in str(refusal(getattr(Section({"a": value}, "x"), method), "a"))

    def test_numbers_of_64_bits_are_kept(self) -> None:
        assert Section({"mask": 2**64 - 1}, "").number("mask") == 2**64 - 1


class TestKinds:
    @pytest.mark.parametrize(
        ("sections", "wcow", "lcow", "isolated"),
        [
            ({"windows": {}}, True, False, False),
            ({"windows": {"hyperv": {}}}, True, False, True),
            ({"windows": {"hyperv": None}}, True, False, False),
            ({"linux": {}}, False, True, True),
            ({"linux": {}, "windows": {}}, False, True, True),
        ],
    )
    def test_kind_predicates(self, sections: dict[str, Any], wcow: bool, lcow: bool, isolated: bool) -> None:
        spec = Spec(sections)
        assert (spec.is_wcow, spec.is_lcow, spec.is_isolated) == (wcow, lcow, isolated)

    @pytest.mark.parametrize(("value", "is_one"), [("true", True), ("True", False), ("1", False), ("false", False)])
    def test_host_process_needs_exactly_true(self, value: str, is_one: bool) -> None:
        assert Spec(windows(annotations={names.HOST_PROCESS: value})).is_host_process is is_one

    def test_pod_roles(self) -> None:
        def role(**annotations: str) -> str:
            keys = {"type": names.CONTAINER_TYPE, "id": names.SANDBOX_ID}
            return Spec(windows(annotations={keys[key]: value for key, value in annotations.items()})).pod_role

        assert role() == ""
        assert role(type="sandbox", id="p") == "sandbox"
        assert role(type="container", id="p") == "container"
        for wrong in ({"type": "sandbox"}, {"id": "p"}, {"type": "pod", "id": "p"}):
            with pytest.raises(InvalidSpec) as caught:
                role(**wrong)
            assert caught.value.kind == NO_KIND


class TestAnnotations:
    @pytest.mark.parametrize("text", ["1", "t", "T", "TRUE", "true", "True"])
    def test_flag_true_values(self, text: str) -> None:
        assert Annotations({"k": text}).flag("k") is True

    @pytest.mark.parametrize("text", ["0", "f", "F", "FALSE", "false", "False"])
    def test_flag_false_values(self, text: str) -> None:
        assert Annotations({"k": text}).flag("k", True) is False

    @pytest.mark.parametrize("text", ["", "yes", "tRUE", " true"])
    def test_malformed_flag_warns_and_counts_as_absent(self, text: str) -> None:
        annotations = Annotations({"k": text})
        assert annotations.flag("k", True) is True and annotations.flag("k") is False
        assert annotations.warnings == ["annotation k is ignored: its value is not true or false"]

    @pytest.mark.parametrize(
        ("text", "value", "warned"),
        [
            ("7", 7, False),
            ("0", 0, False),
            ("-1", 0, True),
            (" 7", 0, True),
            ("2147483648", 0, True),
            ("\u0667", 0, True),
        ],
    )
    def test_number_limits(self, text: str, value: int, warned: bool) -> None:
        annotations = Annotations({"k": text})
        assert annotations.number("k") == value and bool(annotations.warnings) is warned

    def test_list_values(self) -> None:
        annotations = Annotations({"n": "1,2", "bad": "1, 2", "t": "a, b", "empty": ""})
        assert annotations.numbers("n") == [1, 2] and annotations.numbers("bad") == []
        assert annotations.texts("t") == ["a", " b"] and annotations.texts("empty") == []

    def test_malformed_guid_fails_the_create(self) -> None:
        good = "AAAAAAAA-bbbb-cccc-dddd-eeeeeeeeeeee"
        assert Annotations({"g": good}).guid("g") == good.lower()
        for bad in ("", f"{{{good}}}", good[:-1], good.replace("A", "x"), good.replace("-", "0")):
            with pytest.raises(InvalidSpec, match="GUID"):
                Annotations({"g": bad}).guid("g")
