"""`coordinator-server dump-log FILE...`: print a partition's files, as text or JSON lines.

Print the records of logs (record formats 0, 1 and 2), the entries of offset, time and transaction
indexes, and producer snapshots. Damage is reported with its position and the reason, and the
readable rest of the file is printed. The exit code is 1 if a file is damaged, and 2 for a file of
an unknown type.
"""

from __future__ import annotations

import argparse
import json
import struct
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from coordinator_server.tools.files import ReadOnlyFile, walk_log
from coordinator_server.tools.records import (
    CONTENTS_OF_TOPICS,
    Contents,
    batch_data,
    record_data,
)
from protocol.batch import iterate_records
from protocol.errors import ProtocolError
from storage.batch_scan import Corruption
from storage.index import OffsetIndex, TimeIndex
from storage.producer_state import SNAPSHOT_SUFFIX, ProducerState
from storage.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX
from storage.transaction_index import ENTRY, TRANSACTION_INDEX_SUFFIX, VERSION

# Suffixes of files that are being replaced or removed.
_TRANSIENT_SUFFIXES = (".swap", ".cleaned", ".deleted")

Lines = Iterator[dict[str, Any]]


def log_lines(file: ReadOnlyFile, contents: Contents, with_records: bool = True) -> Lines:
    """Yield the batches of a log, each followed by its records; damage is yielded in place."""
    for batch in walk_log(file):
        if isinstance(batch, Corruption):
            yield damage(batch.position, batch.reason)
            continue
        yield {"kind": "batch", **batch_data(batch)}
        if not with_records:
            continue
        data = file.pread(batch.size_bytes, batch.position)
        try:
            for record in iterate_records(data, batch, batch.position):
                yield {"kind": "record", **record_data(record, batch, contents)}
        except ProtocolError as error:
            yield damage(batch.position, f"the records do not parse: {error}")


def offset_index_lines(file: ReadOnlyFile) -> Lines:
    """Yield the entries of an offset index, with absolute offsets."""
    base = first_offset_of_index(file)
    for position, (relative, log_position) in _entries(file, OffsetIndex.entry):
        if position and relative == 0:
            return  # the unused end of a preallocated file
        yield {"kind": "index", "offset": base + relative, "position": log_position}
    yield from _torn(file, OffsetIndex.entry.size)


def time_index_lines(file: ReadOnlyFile) -> Lines:
    """Yield the entries of a time index, with absolute offsets."""
    base = first_offset_of_index(file)
    for position, (timestamp_ms, relative) in _entries(file, TimeIndex.entry):
        if position and timestamp_ms == 0:
            return
        yield {"kind": "timeindex", "timestamp_ms": timestamp_ms, "offset": base + relative}
    yield from _torn(file, TimeIndex.entry.size)


def transaction_index_lines(file: ReadOnlyFile) -> Lines:
    """Yield the aborted transactions from a segment's transaction index."""
    for position, entry in _entries(file, ENTRY):
        version, producer_id, first, last, stable = entry
        if version != VERSION:
            yield damage(position, f"an entry of version {version}")
            return
        yield {
            "kind": "aborted",
            "producer_id": producer_id,
            "first_offset": first,
            "last_offset": last,
            "last_stable_offset": stable,
        }
    yield from _torn(file, ENTRY.size)


def snapshot_lines(file: ReadOnlyFile) -> Lines:
    """Yield the producers from a producer snapshot."""
    state = ProducerState.decode(file.pread(file.size_bytes, 0))
    if state is None:
        yield damage(0, "not a whole producer snapshot of version 1")
        return
    for producer_id, entry in state.entries.items():
        last = entry.batches[-1] if entry.batches else None
        yield {
            "kind": "producer",
            "producer_id": producer_id,
            "producer_epoch": entry.epoch,
            "coordinator_epoch": entry.coordinator_epoch,
            "last_sequence": last.last_sequence if last else -1,
            "last_offset": last.last_offset if last else -1,
            "last_timestamp_ms": entry.last_timestamp,
            "transaction_start": entry.transaction_start,
        }


def first_offset_of_index(file: ReadOnlyFile) -> int:
    """Return the base offset in the name of an index file; 0 if the file was renamed."""
    digits = file.path.name[:20]
    return int(digits) if len(digits) == 20 and digits.isdigit() else 0


def damage(position: int, reason: str) -> dict[str, Any]:
    """Return a line that reports unreadable bytes."""
    return {"kind": "damage", "position": position, "reason": reason}


def _entries(file: ReadOnlyFile, entry: struct.Struct) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield the complete entries of a file with fixed-size entries, with their positions."""
    window_bytes = entry.size * 4096
    for start in range(0, file.size_bytes, window_bytes):
        data = file.pread(window_bytes, start)
        for at in range(0, len(data) - entry.size + 1, entry.size):
            yield start + at, entry.unpack_from(data, at)


def _torn(file: ReadOnlyFile, entry_bytes: int) -> Lines:
    rest = file.size_bytes % entry_bytes
    if rest:
        yield damage(file.size_bytes - rest, f"{rest} bytes of a torn entry")


_READERS: dict[str, Callable[[ReadOnlyFile], Lines]] = {
    INDEX_SUFFIX: offset_index_lines,
    TIME_INDEX_SUFFIX: time_index_lines,
    TRANSACTION_INDEX_SUFFIX: transaction_index_lines,
    SNAPSHOT_SUFFIX: snapshot_lines,
}


def file_lines(
    file: ReadOnlyFile, contents: Contents | None = None, with_records: bool = True
) -> Lines:
    """Return the contents of a file. Raises ValueError if the file name is of no known kind.

    Without `contents`, the name of the file's directory, TOPIC-N, decides how keys and values are
    decoded.
    """
    name = file.path.name
    for suffix in _TRANSIENT_SUFFIXES:
        name = name.removesuffix(suffix)
    suffix = "." + name.rpartition(".")[2]
    if suffix == LOG_SUFFIX:
        if contents is None:
            topic = file.path.absolute().parent.name.rpartition("-")[0]
            contents = CONTENTS_OF_TOPICS.get(topic, Contents.PLAIN)
        return log_lines(file, contents, with_records)
    if suffix not in _READERS:
        known = ", ".join((LOG_SUFFIX, *_READERS))
        raise ValueError(f"{file.path}: not a file of a partition ({known})")
    return _READERS[suffix](file)


def time_text(timestamp_ms: int) -> str:
    """Return a timestamp as UTC text; -1 is "no time"."""
    try:
        moment = datetime.fromtimestamp(timestamp_ms // 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{timestamp_ms} ms"
    if timestamp_ms < 0:
        return "no time"
    return f"{moment:%Y-%m-%d %H:%M:%S}.{timestamp_ms % 1000:03d}"


def readable(line: dict[str, Any]) -> str:
    """Return a line in the text format."""
    kind = line["kind"]
    if kind == "batch":
        return _readable_batch(line)
    if kind == "record":
        return _readable_record(line)
    if kind == "damage":
        return f"DAMAGED at {line['position']}: {line['reason']}"
    fields = {name: value for name, value in line.items() if name != "kind"}
    return "  ".join(f"{name}={value}" for name, value in fields.items())


def _readable_batch(line: dict[str, Any]) -> str:
    parts = [
        f"batch {line['base_offset']}-{line['last_offset']} at {line['position']}:",
        f"{line['records']} records, {line['size_bytes']} bytes, {line['compression']},",
        f"{line['timestamp_type']} {time_text(line['max_timestamp_ms'])},",
        f"leader epoch {line['leader_epoch']}, crc {line['crc']}",
    ]
    if line["producer_id"] >= 0:
        parts.append(
            f"producer {line['producer_id']} epoch {line['producer_epoch']} "
            f"sequence {line['base_sequence']}-{line['last_sequence']}"
        )
    parts += [name for name in ("transactional", "control") if line[name]]
    if line["delete_horizon_ms"] >= 0:
        parts.append(f"tombstones go {time_text(line['delete_horizon_ms'])}")
    if line["magic"] != 2:
        parts.append(f"format {line['magic']}")
    return " ".join(parts)


def _readable_record(line: dict[str, Any]) -> str:
    text = f"  {line['offset']}  {time_text(line['timestamp_ms'])}  "
    if "marker" in line:
        return f"{text}{line['marker']} coordinator epoch {line.get('coordinator_epoch', '?')}"
    text += f"{_readable_key(line['key'])} = {_readable_value(line)}"
    if line["headers"]:
        text += "  headers " + " ".join(
            f"{name}={_short(value)}" for name, value in line["headers"]
        )
    return text


def _readable_key(key: Any) -> str:
    if isinstance(key, dict) and "name" in key and isinstance(key["data"], dict):
        fields = ", ".join(f"{name}={_short(value)}" for name, value in key["data"].items())
        return f"{key['name']}({fields})"
    return _short(key)


def _readable_value(line: dict[str, Any]) -> str:
    value = line["value"]
    if line["value_size"] < 0:
        return "tombstone" if line["key_size"] >= 0 else "null"
    if isinstance(value, dict) and "version" in value:
        fields = ", ".join(f"{name}={_short(field)}" for name, field in value["data"].items())
        return f"v{value['version']}({fields})"
    return _short(value)


def _short(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def main(arguments: list[str]) -> int:
    """Run with these arguments and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="coordinator-server dump-log", description=(__doc__ or "").split("\n\n")[1]
    )
    parser.add_argument(
        "files", metavar="FILE", nargs="+", type=Path, help="log, index or snapshot file"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    parser.add_argument(
        "--headers", action="store_true", help="print batches without their records"
    )
    parser.add_argument(
        "--as",
        dest="contents",
        type=Contents,
        choices=list(Contents),
        metavar="{" + ",".join(contents.value for contents in Contents) + "}",
        help="format of keys and values (default: derived from the name of the directory)",
    )
    options = parser.parse_args(arguments)
    damaged = False
    try:
        for path in options.files:
            for text, is_damage in _printed(path, options):
                print(text)
                damaged = damaged or is_damage
    except ValueError as error:
        print(f"coordinator-server: {error}", file=sys.stderr)
        return 2
    return 1 if damaged else 0


def _printed(path: Path, options: argparse.Namespace) -> Iterator[tuple[str, bool]]:
    """Yield the output lines of one file, each with whether the line reports damage.

    Raises ValueError for a file that cannot be read.
    """
    try:
        with ReadOnlyFile(path) as file:
            if not options.json:
                yield f"{path}: {file.size_bytes} bytes", False
            for line in file_lines(file, options.contents, not options.headers):
                text = (
                    json.dumps({"file": str(path), **line}, ensure_ascii=False)
                    if options.json
                    else readable(line)
                )
                yield text, line["kind"] == "damage"
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from error
