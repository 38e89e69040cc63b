"""One streaming INSERT: batches become an Arrow IPC stream whose bytes leave as they are made."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_dpone.routes.content import Content
from airflow_provider_dpone.routes.types import Carrier

if TYPE_CHECKING:
    import pyarrow as pa


class _Outbox:
    """What Arrow writes to: it keeps the bytes until the next batch is done."""

    closed = False

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def write(self, data: Any) -> int:
        piece = bytes(data)
        self._pieces.append(piece)
        return len(piece)

    def flush(self) -> None:
        """Nothing is held back below this object."""

    def take(self) -> bytes:
        taken = b"".join(self._pieces)
        self._pieces.clear()
        return taken


class ArrowStream:
    """The body of the INSERT. Generate it once; then ``rows`` and ``wire_bytes`` say what was sent, ``content`` its
    checksum.

    ``failure`` keeps an exception of the source, because an HTTP client hides it behind its own.
    """

    def __init__(
        self,
        carriers: Sequence[Carrier],
        batches: Iterable[pa.RecordBatch],
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self.carriers = tuple(carriers)
        self._batches = batches
        self._progress = progress
        self.content = Content(carriers)
        self.wire_bytes = 0
        self.failure: Exception | None = None

    @property
    def rows(self) -> int:
        return self.content.rows

    def generate(self) -> Generator[bytes, None, None]:
        try:
            yield from self._bytes()
        except Exception as err:
            self.failure = err
            raise

    def _bytes(self) -> Iterator[bytes]:
        import pyarrow as pa

        outbox = _Outbox()
        writer: Any = None
        for batch in self._batches:
            arrays = [batch.column(index) for index in range(batch.num_columns)]
            self.content.add(arrays)
            prepared = [carrier.prepare(array) for carrier, array in zip(self.carriers, arrays, strict=True)]
            made = pa.RecordBatch.from_arrays(prepared, names=[carrier.name for carrier in self.carriers])
            if writer is None:
                writer = pa.ipc.new_stream(outbox, made.schema)
            writer.write_batch(made)
            yield self._sent(outbox)
        if writer is not None:
            writer.close()
            yield self._sent(outbox)

    def _sent(self, outbox: _Outbox) -> bytes:
        piece = outbox.take()
        self.wire_bytes += len(piece)
        if self._progress is not None:
            self._progress(self.rows, self.wire_bytes)
        return piece
