"""Message declarations: the field types and the `Message` base class.

A declaration defines a message in all its versions. `protocol.constructs` turns a declaration into
the construct Struct of one version, and `protocol.generator` writes straight-line Python from the
Struct. This module does not import construct, so that importing a declaration stays fast.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Self,
    TypeVar,
    cast,
    dataclass_transform,
    overload,
)

if TYPE_CHECKING:
    from protocol.constructs import MessageStruct

ZERO_UUID = bytes(16)


class FieldType:
    """A primitive type of Kafka; `default` is the value of fields without their own default."""

    __slots__ = ("default", "name")

    def __init__(self, name: str, default: object) -> None:
        self.name = name
        self.default = default

    def __repr__(self) -> str:
        return self.name


class ArrayType(FieldType):
    """An array of a primitive type or of a nested Message; made by `ARRAY(...)`."""

    __slots__ = ("element",)

    def __init__(self, element: FieldType | type[Message]) -> None:
        super().__init__("ARRAY", [])
        self.element = element

    def __repr__(self) -> str:
        element = self.element
        return f"ARRAY({element.__name__ if isinstance(element, type) else element})"


BOOL = FieldType("BOOL", False)
INT8 = FieldType("INT8", 0)
INT16 = FieldType("INT16", 0)
UINT16 = FieldType("UINT16", 0)
INT32 = FieldType("INT32", 0)
INT64 = FieldType("INT64", 0)
FLOAT64 = FieldType("FLOAT64", 0.0)
UUID = FieldType("UUID", ZERO_UUID)
STRING = FieldType("STRING", "")
PLAIN_STRING = FieldType("PLAIN_STRING", "")  # has an int16 length also in flexible versions
BYTES = FieldType("BYTES", b"")
RECORDS = FieldType("RECORDS", None)
ARRAY = ArrayType


class _Unset:
    """The type of `UNSET`, with a readable repr."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "UNSET"


UNSET = _Unset()


class Field:
    """One field of a message: its type, the versions that carry it, its default and its tag."""

    __slots__ = ("default", "name", "nullable_since", "since", "tag", "type", "until")

    def __init__(
        self,
        type_: FieldType | type[Message],
        since: int,
        until: int | None,
        nullable_since: int | None,
        default: object,
        tag: int | None,
    ) -> None:
        self.name = ""
        self.type = type_
        self.since = since
        self.until = until
        self.nullable_since = nullable_since
        self.default = default
        self.tag = tag

    def in_version(self, version: int) -> bool:
        """Return whether this version has the field."""
        return self.since <= version and (self.until is None or version <= self.until)

    def nullable_in(self, version: int) -> bool:
        """Return whether the field can be null in this version."""
        return self.nullable_since is not None and self.nullable_since <= version

    @property
    def fresh_default(self) -> bool:
        """Whether each message needs its own default object: a list or a nested message."""
        return self.default is UNSET

    def default_value(self) -> Any:
        """Return the default value; mutable defaults are new objects."""
        if not self.fresh_default:
            return self.default
        return self.type() if isinstance(self.type, type) else []

    def __repr__(self) -> str:
        kind = self.type
        parts = [kind.__name__ if isinstance(kind, type) else repr(kind)]
        if self.since:
            parts.append(f"since={self.since}")
        for name in ("until", "nullable_since", "tag"):
            if getattr(self, name) is not None:
                parts.append(f"{name}={getattr(self, name)}")
        if isinstance(kind, type):
            plain: object = UNSET
        else:
            plain = UNSET if isinstance(kind, ArrayType) else kind.default
        if self.default is not plain and self.default != plain:
            parts.append(f"default={self.default!r}")
        return f"field({', '.join(parts)})"


def field(
    type_: FieldType | type[Message],
    *,
    since: int = 0,
    until: int | None = None,
    nullable_since: int | None = None,
    default: object = UNSET,
    tag: int | None = None,
) -> Any:
    """Declare a field. Versions are inclusive; a field with a `tag` is a tagged field (KIP-482).

    Without `default`, the field has Kafka's default for its type: 0, False, "", b"", the zero uuid,
    an empty list, a nested message with defaults, and null only for records.
    """
    if default is UNSET and isinstance(type_, FieldType) and not isinstance(type_, ArrayType):
        default = type_.default
    return Field(type_, since, until, nullable_since, default, tag)


@dataclass_transform(kw_only_default=True)
class MessageMeta(type):
    """Turns the `field(...)` lines of a class body into slots and a list of fields."""

    def __new__(
        mcs,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        *,
        versions: tuple[int, int] | None = None,
        flexible_since: int | None = None,
    ) -> MessageMeta:
        """Create a message class. Only top-level messages have `versions` and `flexible_since`."""
        fields = []
        for key, value in list(namespace.items()):
            if isinstance(value, Field):
                value.name = key
                fields.append(value)
                del namespace[key]
        extra_slots = namespace.get("__slots__", ())
        namespace["__slots__"] = (*(field.name for field in fields), *extra_slots)
        namespace["FIELDS"] = tuple(fields)
        if versions is not None:
            namespace["VERSIONS"] = versions
            namespace["FLEXIBLE_SINCE"] = flexible_since
        return super().__new__(mcs, name, bases, namespace)


class Message(metaclass=MessageMeta):
    """The base class of messages and nested structs.

    Constructor arguments are optional keywords. `__init__` is compiled per class at its first use,
    so that importing declarations is fast.
    """

    FIELDS: ClassVar[tuple[Field, ...]]
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_SINCE: ClassVar[int | None] = None
    BY_COLUMNS: ClassVar[bool] = False
    """Whether arrays of this message may be decoded as `ReceivedColumns`."""

    encodings: ClassVar[dict[int, bytes] | None] = None
    """In a frozen message, the encoded bytes by version, filled on demand."""

    if not TYPE_CHECKING:

        def __init__(self, **values: Any) -> None:
            cls = type(self)
            cls.__init__ = _compile_init(cls)
            self.__init__(**values)

    @classmethod
    def at(cls, version: int) -> MessageStruct:
        """Return the construct Struct of `version`. Raises ProtocolError for an unknown version."""
        from protocol.constructs import struct_at

        return struct_at(cls, version)

    @classmethod
    def is_flexible(cls, version: int) -> bool:
        """Return whether `version` uses compact lengths and tagged fields (KIP-482)."""
        return cls.FLEXIBLE_SINCE is not None and version >= cls.FLEXIBLE_SINCE

    def copy(self) -> Self:
        """Return a mutable shallow copy; nested lists and messages are shared with the original."""
        message_type = type(self)
        if self.encodings is not None:
            message_type = cast("type[Self]", message_type.__bases__[0])
        new = message_type.__new__(message_type)
        for field in self.FIELDS:
            setattr(new, field.name, getattr(self, field.name))
        return new

    def __eq__(self, other: object) -> bool:
        if not (isinstance(other, type(self)) or isinstance(self, type(other))):
            # Only a message and its frozen subclass may be equal.
            return NotImplemented
        return all(getattr(self, field.name) == getattr(other, field.name) for field in self.FIELDS)

    __hash__ = None  # type: ignore[assignment]  # mutable: a message is no dict key

    def __repr__(self) -> str:
        inside = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in self.FIELDS)
        return f"{type(self).__name__}({inside})"


M = TypeVar("M", bound=Message)

_frozen_types: dict[type[Message], type[Message]] = {}


def frozen(message: M) -> M:
    """Return an immutable copy of `message`; setting a field raises AttributeError.

    Used for a message that many requests share; it is encoded once. Nested messages and lists are
    not frozen, and must not be changed either.
    """
    message_type = type(message)
    frozen_type = _frozen_types.get(message_type)
    if frozen_type is None:

        def refuse(self: Message, name: str, value: object) -> None:
            raise AttributeError(f"{message_type.__name__}.{name} of a shared message is set")

        namespace = {"__setattr__": refuse, "__slots__": ("encodings",)}
        copied = MessageMeta.__new__(MessageMeta, message_type.__name__, (message_type,), namespace)
        frozen_type = cast("type[Message]", copied)
        frozen_type.FIELDS = message_type.FIELDS
        _frozen_types[message_type] = frozen_type
    copy = object.__new__(frozen_type)
    for field in message_type.FIELDS:
        object.__setattr__(copy, field.name, getattr(message, field.name))
    object.__setattr__(copy, "encodings", {})
    return cast("M", copy)


class Columns(Sequence[M]):
    """An array of messages stored by columns, so that encoding needs no message objects.

    A column is a list, or an endless iterable of one value. All strings are empty.
    """

    __slots__ = ("_length", "columns", "message_type")

    def __init__(
        self, message_type: type[M], length: int, columns: Mapping[str, Iterable[Any]]
    ) -> None:
        self.message_type = message_type
        self._length = length
        self.columns = columns

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[M]:
        rows = islice(zip(*self.columns.values(), strict=False), self._length)
        for row in rows:
            yield self.message_type(**dict(zip(self.columns, row, strict=True)))

    @overload
    def __getitem__(self, index: int) -> M: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[M]: ...

    def __getitem__(self, index: int | slice) -> M | Sequence[M]:
        return list(self)[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # unhashable, like a list

    def __repr__(self) -> str:
        return repr(list(self))


class ReceivedColumns(Columns[M]):
    """Columns of a decoded array; in each string column all values are empty or all are null."""

    __slots__ = ()


DISPOSED_PER_STEP = 500
"""The number of list items that one step of `dispose` frees."""


def dispose(message: Message) -> Iterator[None]:
    """Empty the lists of a large message that is no longer needed, in steps.

    Freeing millions of objects at once would take too long for one iteration of the event loop. A
    shared message (`frozen`) is not changed. A partially decoded message may lack fields.
    """
    if is_frozen(message):
        return
    for field in message.FIELDS:
        items = getattr(message, field.name, None)
        if not isinstance(items, list):
            continue
        while items:
            part = items[-DISPOSED_PER_STEP:]
            del items[-DISPOSED_PER_STEP:]
            if isinstance(part[0], Message):
                for nested in part:
                    yield from dispose(nested)
            yield


def is_frozen(message: Message) -> bool:
    """Return whether `message` was created by `frozen`."""
    return declared_type(message) is not type(message)


def declared_type(message: Message) -> type[Message]:
    """Return the declared class of `message`, also if it is frozen."""
    message_type = type(message)
    base = message_type.__mro__[1]
    return base if _frozen_types.get(base) is message_type else message_type


def _compile_init(cls: type[Message]) -> Any:
    """Compile `__init__` of a message class, with one assignment per field and no loop."""
    scope: dict[str, Any] = {"UNSET": UNSET}
    arguments, lines = [], []
    for field in cls.FIELDS:
        name = field.name
        if field.fresh_default:
            default = "[]"
            if isinstance(field.type, type):
                default = f"type_{name}()"
                scope[f"type_{name}"] = field.type
            arguments.append(f"{name}=UNSET")
            lines.append(f"    self.{name} = {default} if {name} is UNSET else {name}")
        else:
            scope[f"default_{name}"] = field.default
            arguments.append(f"{name}=default_{name}")
            lines.append(f"    self.{name} = {name}")
    star = "*, " if arguments else ""
    source = f"def __init__(self, {star}{', '.join(arguments)}):\n" + "\n".join(
        lines or ["    pass"]
    )
    exec(compile(source, f"<{cls.__name__}.__init__>", "exec"), scope)
    return scope["__init__"]
