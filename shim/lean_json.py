"""JSON without the `json` package and the `re` it imports: the standard library's C scanner and encoder by themselves.

`loads` accepts what `json.loads` accepts and returns the same objects; only errors are plainer: `ValueError` with a
message. `dumps` writes what `json.dumps` writes without spaces and with `ensure_ascii=False`.
"""

from __future__ import annotations

import _json

_SPACE = " \t\n\r"


class _Settings:
    """The scanner's context: the defaults of json.JSONDecoder."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int

    @staticmethod
    def parse_constant(name: str) -> float:
        raise ValueError(f"{name} is not JSON")


_scan = _json.make_scanner(_Settings)  # type: ignore[arg-type]


def _reject(value: object) -> object:
    raise TypeError(f"{type(value).__name__} is no value of JSON")


_encode = _json.make_encoder(None, _reject, _json.encode_basestring, None, ":", ",", False, False, False)


def dumps(value: object) -> str:
    """The value as text, unescaped, without spaces."""
    return "".join(_encode(value, 0))


def loads(data: bytes | str) -> object:
    """The one value in UTF-8 text."""
    try:
        text = data if isinstance(data, str) else data.decode()
        start = _skip(text, 0)
        value, end = _scan(text, start)
        end = _skip(text, end)
    except StopIteration as stop:
        raise ValueError(f"not JSON at character {stop.value}") from None
    except UnicodeDecodeError:
        raise ValueError("not UTF-8") from None
    except SystemError:
        # The scanner raises its errors with json.decoder if that is imported; import it for the message.
        import json

        json.loads(text)
        raise ValueError("not JSON") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if end != len(text):
        raise ValueError(f"more text after the value, at character {end}")
    return value


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in _SPACE:
        at += 1
    return at
