"""Authenticode: verify the signatures of published binaries, and sign our own. Both by osslsigncode.

Revocation lists are not fetched: the build works offline, and the timestamped signatures stay valid.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

TOOL = "osslsigncode"
#: The organisations that sign the files of the embeddable CPython; Microsoft signs its C runtime.
PYTHON_SIGNERS = ("Python Software Foundation", "Microsoft Corporation")
DESCRIPTION = "containerd-shim-runhcs"
_SUBJECT = re.compile(r"Signer #0:\s+Subject: (.+)")
_TIMEOUT = 120


class SignatureError(Exception):
    """A signature is missing or invalid, or cannot be made."""


def verify(file: Path, roots: Path, signers: tuple[str, ...] | None = None) -> str:
    """The subject of the signer. Raises SignatureError unless digest, signature, timestamp and chain are valid and, if
    given, the signer is one of these organisations."""
    command = [TOOL, "verify", "-ignore-crl", "-CAfile", str(roots), "-TSA-CAfile", str(roots), "-in", str(file)]
    done = _run(command)
    if done.returncode:
        cause = "not signed" if "No signature found" in done.stdout else "an invalid signature"
        raise SignatureError(f"{file.name}: {cause}\n{done.stdout}")
    match = _SUBJECT.search(done.stdout)
    subject = match[1].strip() if match else ""
    if signers is not None and not any(f"/O={signer}/" in f"{subject}/" for signer in signers):
        raise SignatureError(f"{file.name}: signed by {subject or 'an unknown signer'}, not by {' or '.join(signers)}")
    return subject


def is_signed(file: Path) -> bool:
    return "No signature found" not in _run([TOOL, "verify", "-ignore-crl", "-in", str(file)]).stdout


def sign(file: Path, certificate: Path, password: str, timestamp_server: str = "") -> bytes:
    """The signed content. `certificate`: a PKCS #12 file. Without a timestamp the signature expires with it."""
    output = file.with_name(f"{file.name}.signed")
    command = [TOOL, "sign", "-pkcs12", str(certificate), "-h", "sha256", "-n", DESCRIPTION]
    command += ["-ts", timestamp_server] if timestamp_server else []
    # The password is not an argument: others can read those.
    password_file = file.with_name(f"{file.name}.password")
    password_file.touch(mode=0o600)
    try:
        password_file.write_text(password)
        done = _run([*command, "-readpass", str(password_file), "-in", str(file), "-out", str(output)])
        if done.returncode:
            raise SignatureError(f"{file.name} cannot be signed with {certificate}: {done.stdout.strip()}")
        return output.read_bytes()
    finally:
        password_file.unlink()
        output.unlink(missing_ok=True)


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace", timeout=_TIMEOUT, check=False,
        )  # fmt: skip
    except FileNotFoundError:
        raise SignatureError(f"{TOOL} is missing: apt-get install {TOOL}") from None
