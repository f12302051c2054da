"""Print an API version: the declarations of its messages, their structure, the generated codec.

    python -m protocol.show API [VERSION] [--side request|response]

API is Kafka's name or key; without VERSION the newest one is shown.
"""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Iterator

from construct import Construct

from protocol.constructs import Array, MessageStruct, NullableStruct, Sized, TaggedFields
from protocol.generator import decoder_source, encoder_source, fixed_letter
from protocol.registry import SPEC_BY_KEY, SPEC_BY_NAME, ApiSpec
from protocol.schema import ArrayType, Message

_LETTERS = {
    "b": "int8",
    "h": "int16",
    "H": "uint16",
    "l": "int32",
    "q": "int64",
    "d": "float64",
    "?": "boolean",
    "16s": "uuid",
}


def find_api(text: str) -> ApiSpec | None:
    """Return the API with this key or name, ignoring case and underscores; None if unknown."""
    if text.isdigit():
        return SPEC_BY_KEY.get(int(text))
    wanted = text.replace("_", "").replace("-", "").lower()
    return next((spec for name, spec in SPEC_BY_NAME.items() if name.lower() == wanted), None)


def declaration(message_type: type[Message]) -> str:
    """Return the source of a message class, after its nested classes."""
    types: list[type[Message]] = []

    def visit(type_: type[Message]) -> None:
        for field in type_.FIELDS:
            kind = field.type.element if isinstance(field.type, ArrayType) else field.type
            if isinstance(kind, type):
                visit(kind)
        if type_ not in types:
            types.append(type_)

    visit(message_type)
    return "\n\n".join(inspect.getsource(type_).rstrip() for type_ in types)


def struct_lines(element: Construct, name: str, indent: str = "") -> Iterator[str]:
    """Yield a construct as indented lines, one per field."""
    label = f"{indent}{name}: "
    if isinstance(element, MessageStruct):
        yield label + element.message_type.__name__
        for subcon in element.subcons:
            yield from struct_lines(subcon.subcon, subcon.name, indent + "    ")
    elif isinstance(element, TaggedFields):
        yield label + ("tagged fields" if element.fields else "tagged fields, none known")
        for number, (field, inner) in sorted(element.fields.items()):
            yield from struct_lines(inner, f"{number} {field.name}", indent + "    ")
    elif isinstance(element, NullableStruct):
        yield label + "nullable (int8)"
        yield from struct_lines(element.element, "value", indent + "    ")
    elif isinstance(element, Sized):
        nullable = "nullable " if element.nullable else ""
        yield label + f"{nullable}{element.prefix} {type(element).__name__.lower()}"
        if isinstance(element, Array):
            yield from struct_lines(element.element, "element", indent + "    ")
    else:
        letter = fixed_letter(element)
        yield label + (_LETTERS[letter] if letter in _LETTERS else repr(element))


def show_message(message_type: type[Message], version: int) -> str:
    """Return the declaration, Struct and generated source of a message at a version."""
    struct = message_type.at(version)
    title = f"{message_type.__name__} v{version}"
    parts = [
        f"# {title}: declaration",
        declaration(message_type),
        f"# {title}: construct",
        "\n".join(struct_lines(struct, "message")),
        f"# {title}: generated decoder",
        decoder_source(struct)[0].rstrip(),
        f"# {title}: generated encoder",
        encoder_source(struct)[0].rstrip(),
    ]
    return "\n\n".join(parts)


def main(argv: list[str], prog: str = "python -m protocol.show") -> int:
    """Run with these arguments and return the exit code."""
    parser = argparse.ArgumentParser(prog=prog, description=__doc__.split("\n")[0])
    parser.add_argument(
        "api", metavar="API", help="name or key of the API, such as Heartbeat or 12"
    )
    parser.add_argument(
        "version", metavar="VERSION", nargs="?", type=int, help="API version (default: the newest)"
    )
    parser.add_argument(
        "--side", choices=("request", "response"), help="request or response (default: both)"
    )
    arguments = parser.parse_args(argv)
    spec = find_api(arguments.api)
    if spec is None:
        from difflib import get_close_matches  # imported only after a typo

        similar = get_close_matches(arguments.api, SPEC_BY_NAME, n=1)
        hint = f"did you mean {similar[0]}?" if similar else f"there are {', '.join(SPEC_BY_NAME)}"
        print(f"no API {arguments.api!r} is served; {hint}", file=sys.stderr)
        return 2
    version = spec.max_version if arguments.version is None else arguments.version
    if not spec.supports(version):
        print(f"{spec.name} has versions {spec.min_version} to {spec.max_version}", file=sys.stderr)
        return 2
    if arguments.side != "response":
        print(show_message(spec.request_type, version))
    if arguments.side is None:
        print()
    if arguments.side != "request":
        print(show_message(spec.response_type, version))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
