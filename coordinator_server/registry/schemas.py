"""Decodes values by their schemas: Avro with fastavro, Protobuf with protoc and protobuf, JSON.

Runs in the worker process. A decoder returns JSON and the name of the record or message.
"""

from __future__ import annotations

import io
import json
import math
import subprocess
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from coordinator_server.registry.address import protoc
from coordinator_server.registry.client import RegistryError, Schema

Decode = Callable[[bytes], tuple[str, str | None]]
"""Decodes the bytes behind the schema id. Raises RegistryError and the errors of BAD_VALUE."""

BAD_VALUE = (
    ArithmeticError,
    AttributeError,
    EOFError,
    ImportError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
)
"""Errors that the libraries raise for schemas and values that are not valid."""

_ROOT = "coordinator-server-root.proto"
_PROTOC_SECONDS = 2.0
_SHOWN_CHARACTERS = 300


def decoder_of(schema: Schema) -> Decode:
    """Return the decoder of a schema. Raises RegistryError."""
    makers = {"AVRO": _avro, "PROTOBUF": _protobuf, "JSON": _json}
    maker = makers.get(schema.kind)
    if maker is None:
        raise RegistryError(f"schemas of type {schema.kind[:50]!r} cannot be decoded")
    try:
        return maker(schema)
    except (OSError, *BAD_VALUE) as error:
        raise RegistryError(f"the schema cannot be read: {described(error)}") from error


def described(error: BaseException) -> str:
    """Return the class and the start of the text of an error."""
    text = " ".join(str(error).split())[:_SHOWN_CHARACTERS]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


# --- Avro -----------------------------------------------------------------------------------------


def _avro(schema: Schema) -> Decode:
    from fastavro import parse_schema, schemaless_reader
    from fastavro.schema import SchemaParseException

    named: dict[str, Any] = {}
    try:
        for _, text in schema.imports:
            parse_schema(json.loads(text), named_schemas=named)
        parsed: Any = parse_schema(json.loads(schema.text), named_schemas=named)
    except SchemaParseException as error:
        raise RegistryError(f"the schema cannot be read: {described(error)}") from error
    if isinstance(parsed, str) and parsed in named:
        parsed = named[parsed]
    name = parsed.get("name") if isinstance(parsed, dict) else None

    def decode(data: bytes) -> tuple[str, str | None]:
        buffer = io.BytesIO(data)
        value = schemaless_reader(buffer, parsed, None)
        if rest := len(data) - buffer.tell():
            raise RegistryError(f"{rest} bytes follow the value of the schema")
        return _dumped(value), name

    return decode


def _dumped(value: object) -> str:
    """Return a value as JSON; not-a-number and infinities are texts, as in Protobuf's JSON."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, default=_plain)
    except ValueError:
        return json.dumps(_finite(value), ensure_ascii=False, default=_plain)


def _plain(value: Any) -> Any:
    """Return bytes as Avro's JSON encoding does, dates and times in ISO 8601, others as text."""
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if hasattr(value, "isoformat"):
        return value.isoformat()
    return str(value)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return value


# --- JSON Schema ----------------------------------------------------------------------------------


def _json(schema: Schema) -> Decode:
    """Return a decoder that does not validate: the value itself is JSON."""
    parsed = json.loads(schema.text)
    title = parsed.get("title") if isinstance(parsed, dict) else None
    name = title if isinstance(title, str) else None

    def decode(data: bytes) -> tuple[str, str | None]:
        text = data.decode()
        json.loads(text)
        return text, name

    return decode


# --- Protobuf -------------------------------------------------------------------------------------


def _protobuf(schema: Schema) -> Decode:
    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.json_format import Error as JsonError
    from google.protobuf.json_format import MessageToJson
    from google.protobuf.message import DecodeError
    from google.protobuf.message_factory import GetMessageClass

    pool = DescriptorPool()
    try:
        files = _described_files(schema) or FileDescriptorSet.FromString(_compiled(schema)).file
        for file in files:
            pool.Add(file)
    except DecodeError as error:
        raise ValueError(str(error)) from error
    root = pool.FindFileByName(_ROOT)
    names = list(root.message_types_by_name)

    def decode(data: bytes) -> tuple[str, str | None]:
        path, start = _message_path(data)
        message_type = root.message_types_by_name[names[path[0]]]
        for index in path[1:]:
            message_type = message_type.nested_types[index]
        try:
            message = GetMessageClass(message_type).FromString(data[start:])
            text = MessageToJson(
                message,
                always_print_fields_with_no_presence=True,
                preserving_proto_field_name=True,
                indent=None,
                descriptor_pool=pool,
                ensure_ascii=False,
            )
        except (DecodeError, JsonError) as error:
            raise ValueError(str(error)) from error
        return text, message_type.full_name

    return decode


def _described_files(schema: Schema) -> list[Any]:
    """Return descriptors if the schema's text is one in base64, as some serializers register it.

    Registries usually return the text of a .proto file, which is never base64.
    """
    from google.protobuf import descriptor_pb2

    files = []
    for name, text in (*schema.imports, (_ROOT, schema.text)):
        try:
            data = b64decode(text, validate=True)
        except ValueError:
            return []
        file = descriptor_pb2.FileDescriptorProto.FromString(data)
        file.name = name
        files.append(file)
    own = {file.name for file in files}
    needed = {name for file in files for name in file.dependency}
    return [*_google_files(needed - own), *files]


def _google_files(names: Iterable[str]) -> Iterator[Any]:
    """Yield the descriptors of files that protobuf itself has, such as timestamp.proto."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    for name in sorted(names):
        stem = name.removeprefix("google/protobuf/").removesuffix(".proto")
        if name != f"google/protobuf/{stem}.proto" or not stem.isidentifier():
            raise RegistryError(f"the schema imports {name[:100]!r}, but does not reference it")
        module = import_module(f"google.protobuf.{stem}_pb2")
        yield FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)


def _compiled(schema: Schema) -> bytes:
    """Return the descriptors of a schema and of its imports. Raises RegistryError."""
    program = protoc()
    assert program is not None
    with TemporaryDirectory(prefix="coordinator-server-") as directory:
        folder = Path(directory).resolve()
        for name, text in (*schema.imports, (_ROOT, schema.text)):
            path = (folder / name).resolve()
            if not path.is_relative_to(folder) or path == folder:
                raise RegistryError(f"the schema references {name[:100]!r}, which is no file name")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        result = folder / "coordinator-server-result"
        arguments = _arguments(program, folder, result)
        try:
            done = subprocess.run(
                arguments,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_PROTOC_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise RegistryError(f"protoc took more than {_PROTOC_SECONDS:g} s") from None
        if done.returncode:
            errors = done.stderr.decode(errors="replace").replace(f"{folder}/", "")
            text = " ".join(errors.replace(_ROOT, "schema").split())[:_SHOWN_CHARACTERS]
            raise RegistryError(f"protoc refuses the schema: {text}")
        return result.read_bytes()


def _arguments(program: str, folder: Path, result: Path) -> Sequence[str]:
    """Return the command; protoc finds the files of Google beside its program."""
    google = Path(program).resolve().parent.parent / "include"
    paths = [f"--proto_path={folder}"]
    if google.is_dir():
        paths.append(f"--proto_path={google}")
    return [program, *paths, "--include_imports", f"--descriptor_set_out={result}", _ROOT]


def _message_path(data: bytes) -> tuple[list[int], int]:
    """Return the indexes of the message in its file, and the position behind the indexes."""
    count, position = _varint(data, 0)
    if not count:
        return [0], position
    if not 0 < count <= len(data):
        raise ValueError(f"{count} message indexes")
    path = []
    for _ in range(count):
        index, position = _varint(data, position)
        if index < 0:
            raise ValueError(f"message index {index}")
        path.append(index)
    return path, position


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """Return a zigzag-encoded number and the position behind it."""
    number = shift = 0
    while shift < 35:
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), position
        shift += 7
    raise ValueError("a message index is longer than five bytes")
