"""The content check: a count and an order-independent checksum of typed rows, computed once for each side.

Each value becomes 64 bits that depend on its column's name, its NULL-ness and its exact value; a row's bits are
mixed together, so that values moved between rows change the result; rows are summed, so that their order does not
matter. Two independent sums make 128 bits. It finds errors; it is no defence against an adversary.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_dpone.contracts.canonical import exact_sha256
from airflow_provider_dpone.routes.types import Carrier

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

_SCHEMA = "dpone.typed-rows-checksum.v1"
_ROUNDS = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)


class Content:
    """Accumulates the arrays of one side, batch by batch; ``document`` is what the two sides must agree in."""

    def __init__(self, carriers: Sequence[Carrier]) -> None:
        self._carriers = tuple(carriers)
        self.rows = 0
        self._sums = [0, 0]

    def add(self, arrays: Sequence[pa.Array]) -> None:
        """Add one batch; ``arrays`` are in the order of the carriers."""
        import numpy as np

        count = len(arrays[0]) if arrays else 0
        self.rows += count
        for lane in range(2):
            mixed = np.full(count, lane + 1, dtype=np.uint64)
            for carrier, array in zip(self._carriers, arrays, strict=True):
                seed = np.uint64(_seed(carrier.name, lane))
                mixed = _mix(mixed * np.uint64(_ROUNDS[0]) + _mix(_bits(array, carrier.kind, lane) ^ seed))
            total = int(np.add.reduce(mixed, dtype=np.uint64)) if count else 0
            self._sums[lane] = (self._sums[lane] + total) % 2**64

    def document(self) -> Mapping[str, object]:
        return {
            "schema": _SCHEMA,
            "columns": [[carrier.name, carrier.kind] for carrier in self._carriers],
            "rows": self.rows,
            "sums": [f"{value:016x}" for value in self._sums],
        }

    def sha256(self) -> str:
        return exact_sha256(self.document())


def _seed(name: str, lane: int) -> int:
    return int.from_bytes(hashlib.sha256(f"{lane}:{name}".encode()).digest()[:8], "big")


def _mix(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The finalizer of splitmix64: every input bit reaches every output bit."""
    import numpy as np

    values = values + np.uint64(_ROUNDS[0])
    values = (values ^ (values >> np.uint64(30))) * np.uint64(_ROUNDS[1])
    values = (values ^ (values >> np.uint64(27))) * np.uint64(_ROUNDS[2])
    mixed: np.ndarray[Any, Any] = values ^ (values >> np.uint64(31))
    return mixed


def _bits(array: pa.Array, kind: str, lane: int) -> np.ndarray[Any, Any]:
    """64 bits a value; NULL is a constant of its own."""
    import numpy as np
    import pyarrow as pa

    null = np.uint64(0xA5A5_5A5A_0F0F_F0F0)
    if kind in ("bytes", "text_lower"):
        bits = _hashed(array, kind == "text_lower", lane)
    elif kind == "float":
        plain = array.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
        bits = np.ascontiguousarray(plain).view(np.uint64)
    elif kind == "integer" or (kind == "ticks" and not pa.types.is_decimal(array.type)):
        bits = array.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False).view(np.uint64)
    else:
        words = _words(array)
        bits = words[:, 0] if kind == "ticks" else words[:, 0] ^ _mix(words[:, 1])
    if array.null_count:
        bits = np.where(array.is_null().to_numpy(zero_copy_only=False), null, _mix(bits))
    else:
        bits = _mix(bits)
    return bits


def _words(array: pa.Array) -> np.ndarray[Any, Any]:
    """The two 64-bit words of each decimal, at precision 38."""
    import numpy as np
    import pyarrow as pa

    wide = array.cast(pa.decimal128(38, array.type.scale))
    buffer = wide.buffers()[1]
    words: np.ndarray[Any, Any] = np.frombuffer(buffer, dtype="<u8").reshape(-1, 2)
    return words[wide.offset : wide.offset + len(wide)]


def _hashed(array: pa.Array, lower: bool, lane: int) -> np.ndarray[Any, Any]:
    """Hash each distinct value once."""
    import numpy as np
    import pyarrow as pa

    encoded = array.cast(pa.large_binary()).dictionary_encode()
    salt = bytes([lane])
    values = (value.as_py() for value in encoded.dictionary)
    hashes = np.fromiter(
        (
            int.from_bytes(hashlib.blake2b(value.lower() if lower else value, digest_size=8, salt=salt).digest(), "big")
            for value in values
        ),
        dtype=np.uint64,
        count=len(encoded.dictionary),
    )
    if not len(hashes):
        return np.zeros(len(array), dtype=np.uint64)
    indices = encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)
    bits: np.ndarray[Any, Any] = hashes[indices]
    return bits
