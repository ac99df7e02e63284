"""What is removed from documents and texts of a recording."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shim.recording.scrub import SCRUBBED, Scrubber

SECRET = "correct-horse-battery"


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"env": ["A=1", "B"]}, {"env": [f"A={SCRUBBED}", f"B={SCRUBBED}"]}),
        ({"Environment": {"A": "1"}}, {"Environment": {"A": SCRUBBED}}),
        ({"args": ["a", "b"]}, {"args": [SCRUBBED]}),
        ({"CommandLine": "a b"}, {"CommandLine": SCRUBBED}),
        ({"CommandLine": ""}, {"CommandLine": ""}),
        ({"windows": {"credentialSpec": {"a": 1}}}, {"windows": {"credentialSpec": SCRUBBED}}),
        ({"annotations": {"a.b/c": "d"}}, {"annotations": {"a.b/c": SCRUBBED}}),
        ({"annotations": {"io.microsoft.a": "d"}}, {"annotations": {"io.microsoft.a": "d"}}),
        (
            {"annotations": {"io.microsoft.virtualmachine.lcow.securitypolicy": "d"}},
            {"annotations": {"io.microsoft.virtualmachine.lcow.securitypolicy": SCRUBBED}},
        ),
        ({"Key": {"Name": "k"}, "DWordValue": 7}, {"Key": {"Name": "k"}, "DWordValue": 0}),
        ({"options": ["ro", "password=x", "lowerdir=/a"]}, {"options": ["ro", f"password={SCRUBBED}", "lowerdir=/a"]}),
        ({"HostPath": "C:\\a", "n": 1, "on": True}, {"HostPath": "C:\\a", "n": 1, "on": True}),
    ],
)
def test_document_keeps_its_form_without_secrets(document: Any, expected: Any) -> None:
    assert Scrubber().document(document) == expected


def test_document_in_a_text_is_scrubbed() -> None:
    message = {"ContainerConfig": json.dumps({"process": {"env": [f"A={SECRET}"], "args": [SECRET]}})}
    text = json.dumps(Scrubber().document(message))
    assert SECRET not in text and "A=<scrubbed>" in text


def test_text_loses_what_a_spec_had() -> None:
    scrubber = Scrubber()
    scrubber.learn({"process": {"env": [f"A={SECRET}", "B=1"], "args": ["tool.exe", "-x"]}, "hostname": "machine"})
    found = scrubber.text(f"tool.exe failed on machine with {SECRET} 1")
    assert found == "<scrubbed> failed on machine with <scrubbed> 1"
    assert scrubber.failure({"Data": [{"Value": f"'{SECRET}'"}]}) == {"Data": [{"Value": "'<scrubbed>'"}]}


def test_command_lines_are_kept_if_requested() -> None:
    scrubber = Scrubber(command_lines=True)
    document = {"args": ["tool.exe"], "env": ["A=secret"]}
    scrubber.learn(document)
    assert scrubber.document(document) == {"args": ["tool.exe"], "env": [f"A={SCRUBBED}"]}
    assert scrubber.text("tool.exe secret") == "tool.exe <scrubbed>"
