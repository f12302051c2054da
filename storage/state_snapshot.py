"""Snapshots of the state that results from a log, so that the log need not be read at a start.

A snapshot is written at a clean stop and is valid for exactly one state of the log: it contains the
log end offset and the CRC of the last batch. A snapshot of an older log end is useless, because
later tombstones may have been compacted away. A stale, torn or damaged snapshot, or a snapshot of
another version, is ignored and the log is read: a snapshot only saves work.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from protocol.batch_header import read_header
from protocol.crc32c import crc32c
from storage.disk import write_atomically
from storage.errors import StorageError

if TYPE_CHECKING:
    from storage.partition_log import PartitionLog

FILE_NAME = "state-image"  # Kafka has no file of this name and ignores it
_VERSION = 1
# _FRONT: version of this format, version of the contents, CRC-32C of the remaining bytes. _BODY:
# log end offset, CRC of the last batch, size of the contents.
_FRONT = struct.Struct(">hhI")
_BODY = struct.Struct(">qIq")


def save_state(log: PartitionLog, contents_version: int, contents: bytes) -> None:
    """Write `contents` as the state at the current log end. Raises StorageError."""
    last_crc = _last_crc(log)
    body = _BODY.pack(log.log_end_offset, last_crc, len(contents)) + contents
    front = _FRONT.pack(_VERSION, contents_version, crc32c(body))
    try:
        write_atomically(log.files.disk, _path(log), front + body, sync=False)
    except OSError as error:
        raise StorageError(
            f"the state of {log.topic}-{log.partition} cannot be kept: {error}"
        ) from error


def load_state(log: PartitionLog, contents_version: int) -> bytes | None:
    """Return the contents of `save_state`; None if missing, damaged or not at the log end."""
    disk, path = log.files.disk, _path(log)
    try:
        if not disk.exists(path):
            return None
        data = disk.read_file(path)
    except OSError:
        return None
    if len(data) < _FRONT.size + _BODY.size:
        return None
    version, found_version, crc = _FRONT.unpack_from(data)
    if version != _VERSION or found_version != contents_version:
        return None
    if crc32c(data[_FRONT.size :]) != crc:
        return None
    end_offset, last_crc, size_bytes = _BODY.unpack_from(data, _FRONT.size)
    contents = data[_FRONT.size + _BODY.size :]
    if len(contents) != size_bytes or end_offset != log.log_end_offset:
        return None
    return contents if last_crc == _last_crc(log) else None


def _path(log: PartitionLog) -> str:
    return f"{log.directory}/{FILE_NAME}"


def _last_crc(log: PartitionLog) -> int:
    """Return the CRC of the last batch; 0 if the log is empty."""
    if log.log_end_offset <= log.log_start_offset:
        return 0
    return read_header(log.read(log.log_end_offset - 1, 1)).crc
