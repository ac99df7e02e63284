"""Log sources of a Windows guest: the ETW providers whose events it forwards to the host, as JSON in base64.

The default providers are those that concern containers; an annotation can add others or leave the defaults out.
"""

from __future__ import annotations

import json
from binascii import Error, a2b_base64, b2a_base64

from shim.oci.annotations import vm as names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from shim.oci.annotations.container import Annotations

    Document = dict[str, Any]

# The providers that Microsoft's shim requests.
DEFAULT_PROVIDERS = (
    ("microsoft.windows.hyperv.compute", "80ce50de-d264-4581-950d-abadeee0d340"),
    ("microsoft-windows-guest-network-service", "0bacf1d2-fb51-549a-6119-04daa7180dc8"),
    ("microsoft.windows.filesystem.cimfs", "772ff917-30cf-50bd-d471-55a093ea8cf8"),
    ("microsoft.windows.filesystem.unionfs", "68d6ffd0-365a-579d-6d26-76b2a0af1ddc"),
    ("microsoft-windows-bitlocker-driver", "651df93b-5053-4d1e-94c5-f6e6d25908d0"),
    ("microsoft-windows-bitlocker-api", "5d674230-ca9f-11da-a94d-0800200c9a66"),
    ("microsoft.windows.security.keyguard", "37e53459-522d-5f7d-9a19-ecfd819075c2"),
    ("microsoft.windows.security.keyguard.attestation.verify", "268833e4-8305-5640-ecee-0f30f10668be"),
    ("microsoft.windows.containers.setup", "22267b1c-b979-5c81-9e24-0db386a62dd1"),
    ("microsoft.windows.containers.storage", "2551390d-5927-5c84-6f0a-027a7e78d38d"),
    ("microsoft.windows.containers.library", "67eb0417-9297-42ae-a1d9-98bfeb359059"),
    ("microsoft.windows.containers.dynamicimage", "8ce2286c-3705-4a2a-8e36-134eae9ca147"),
    ("microsoft.windows.logforwardservice.provider", "396a26ff-fb73-5465-0d17-dd4930896239"),
)
_GUIDS = dict(DEFAULT_PROVIDERS)


def read(annotations: Annotations, warn: Callable[[str], object]) -> str:
    """Base64 of the configuration. Without sources it has none, so that the guest uses no defaults of its own."""
    sources = _given(annotations, warn)
    if annotations.flag(names.DEFAULT_LOG_SOURCES):
        defaults = [
            {"providerName": name, "providerGuid": guid, "level": "Information"} for name, guid in DEFAULT_PROVIDERS
        ]
        etw = next((source for source in sources if source.get("type") == "ETW"), None)
        if etw is None:
            sources.append({"type": "ETW", "providers": defaults})
        else:
            given = [{**provider, **_guid(provider)} for provider in etw.get("providers") or ()]
            named = {provider.get("providerGuid") for provider in given}
            etw["providers"] = [provider for provider in defaults if provider["providerGuid"] not in named] + given
    text = json.dumps({"LogConfig": {"sources": sources or None}}, separators=(",", ":"))
    return b2a_base64(text.encode(), newline=False).decode()


def _guid(provider: Document) -> Document:
    """The guest identifies providers by GUID; for the default ones the name is enough."""
    guid = str(provider.get("providerGuid") or "").strip().strip("{}").lower()
    guid = guid or _GUIDS.get(str(provider.get("providerName") or "").lower(), "")
    return {"providerGuid": guid} if guid else {}


def _given(annotations: Annotations, warn: Callable[[str], object]) -> list[Document]:
    if names.LOG_SOURCES not in annotations:
        return []
    try:
        document = json.loads(a2b_base64(annotations.text(names.LOG_SOURCES), strict_mode=True))
        sources = (document.get("logConfig") or document["LogConfig"])["sources"]
        if not all(isinstance(provider, dict) for source in sources for provider in source.get("providers") or ()):
            raise ValueError
        return [dict(source) for source in sources]
    except (ValueError, Error, KeyError, TypeError, AttributeError):
        warn(f"annotation {names.LOG_SOURCES} is ignored: it must be base64 of JSON with logConfig.sources")
        return []
