"""Data sets of the hub as Parquet: written to the cache once, or read remotely."""

import io
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from headway.data.batches.cache import VERSION, cache_key, recorded, replacing, warn_of_damage
from headway.data.batches.tokens import file_sums, sealed
from headway.data.formats.parquet import Unreachable
from headway.data.stream.streamed import Shard, look_at
from headway.hub.download import DatasetId, dataset_id, loaded, parquet_files
from headway.io.cache_directory import cache_directory

AT_ONCE = 16
"""Files whose footers are fetched at the same time."""


def fetched(inputs: Sequence[str | Path]) -> list[str | Path]:
    """The inputs with each id of a data set replaced by a Parquet file of its rows, in Headway's cache.

    The file is named by what ``datasets`` calls the rows' fingerprint, and written once, and again where it is damaged.
    Raises InputError as ``loaded`` does.
    """
    return [place if (wanted := dataset_id(place)) is None else _kept(wanted) for place in inputs]


def _kept(wanted: DatasetId) -> Path:
    name = re.sub(r"[^\w.-]+", "-", f"{wanted.name}-{wanted.split}")
    with loaded(wanted) as rows:
        path = cache_directory() / f"{name}-{cache_key(rows._fingerprint, rows.features)[:16]}.parquet"
        facts_path = path.with_suffix(".json")
        if not _is_whole(path, facts_path):
            with replacing(path) as file:
                rows.to_parquet(file)
            with replacing(facts_path) as file:
                file.write(sealed({"version": VERSION, "bytes": path.stat().st_size}, file_sums(path)))
    return path


def _is_whole(path: Path, facts_path: Path) -> bool:
    """Whether a file is there as it was written.  All of it is read, as it is when it is trained on."""
    if (record := recorded(path, facts_path)) is None:
        return False
    if not (whole := np.array_equal(file_sums(path), record[1])):
        warn_of_damage(path)
    return whole


def remote_shards(wanted: DatasetId) -> list[Shard]:
    """The Parquet files of a data set, left where they are, described by their footers.  Raises InputError."""
    files = parquet_files(wanted)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(lambda file: look_at(file, partial(_Remote, file)), files))


class _Remote(io.RawIOBase):
    """A remote file, open for reading; every error on the way becomes ``Unreachable``."""

    def __init__(self, file: str):
        import fsspec

        self._file = self._tried(lambda: fsspec.open(file, "rb").open())

    def _tried(self, do: Callable[..., Any], *given: Any) -> Any:
        try:
            return do(*given)
        except FileNotFoundError:
            raise
        except Exception as error:  # of fsspec, of what it reads by, and of what that connects with
            raise Unreachable(str(error).strip() or type(error).__name__) from None

    def read(self, size: int = -1) -> bytes:
        return self._tried(self._file.read, size)

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._tried(self._file.seek, offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def readable(self) -> bool:
        return True

    seekable = readable

    def close(self) -> None:
        if not self.closed and hasattr(self, "_file"):
            self._file.close()
        super().close()
