"""Collations as five bytes of TDS, and the code page that each implies for char and varchar (MS-TDS 2.2.5.1.2)."""

from __future__ import annotations

import codecs
import struct
from functools import lru_cache

from tsqldev.types import DEFAULT_COLLATION

_LOCALES = {"Latin1_General": (0x0409, "cp1252"), "Cyrillic_General": (0x0419, "cp1251")}
_VERSIONS = {"_90_": 1, "_100_": 2, "_140_": 3}
_IGNORE_CASE, _IGNORE_ACCENT, _IGNORE_WIDTH, _IGNORE_KANA = 1 << 20, 1 << 21, 1 << 22, 1 << 23
_BINARY, _BINARY2, _UTF8 = 1 << 24, 1 << 25, 1 << 26
_SQL_SORT_IDS = {"SQL_Latin1_General_CP1_CI_AS": 52, "SQL_Latin1_General_CP1_CS_AS": 51}
_WINDOWS_ERRORS = "tsqldev-windows"


def _as_windows_does(error: UnicodeError) -> tuple[str | bytes, int]:
    """A byte without a character is the control character of the same number; a character without a byte is `?`."""
    if isinstance(error, UnicodeDecodeError):
        return "".join(chr(byte) for byte in error.object[error.start : error.end]), error.end
    if isinstance(error, UnicodeEncodeError):
        lost = error.object[error.start : error.end]
        return bytes(ord(c) if 0x80 <= ord(c) <= 0x9F else 0x3F for c in lost), error.end
    raise error


codecs.register_error(_WINDOWS_ERRORS, _as_windows_does)


@lru_cache(maxsize=256)
def collation_bytes(name: str | None) -> bytes:
    name = name or DEFAULT_COLLATION
    sort_id = _SQL_SORT_IDS.get(name, 0)
    windows = name.removeprefix("SQL_").replace("_CP1", "")
    locale = next((lcid for prefix, (lcid, _) in _LOCALES.items() if windows.startswith(prefix)), 0x0409)
    flags = 0
    if windows.endswith("_BIN2"):
        flags = _BINARY2
    elif windows.endswith("_BIN"):
        flags = _BINARY
    else:
        flags |= 0 if "_CS" in windows else _IGNORE_CASE
        flags |= _IGNORE_ACCENT if "_AI" in windows else 0
        flags |= 0 if "_WS" in windows else _IGNORE_WIDTH
        flags |= 0 if "_KS" in windows else _IGNORE_KANA
    if windows.endswith("_UTF8"):
        flags |= _UTF8
    version = next((number for part, number in _VERSIONS.items() if part in windows), 0)
    return struct.pack("<IB", locale | flags | version << 28, sort_id)


def codec_of_name(name: str | None) -> tuple[str, str]:
    """Python's codec and error handler for char data under the named collation."""
    return codec_of_bytes(collation_bytes(name))


@lru_cache(maxsize=256)
def codec_of_bytes(collation: bytes) -> tuple[str, str]:
    (bits,) = struct.unpack_from("<I", collation)
    if bits & _UTF8:
        return "utf-8", "replace"
    lcid = bits & 0xFFFF
    return next((codec for number, codec in _LOCALES.values() if number == lcid), "cp1252"), _WINDOWS_ERRORS
