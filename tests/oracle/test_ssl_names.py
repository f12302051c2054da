"""Names of clients with certificates are printed as by Java and mapped as by Kafka's rules."""

from __future__ import annotations

import base64
import random
import subprocess
from collections.abc import Sequence
from pathlib import Path

from coordinator_server.security.tls.distinguished_name import rfc2253
from coordinator_server.security.tls.principal_mapping import (
    NoMatchingRuleError,
    PrincipalMapper,
)
from tests.oracle.kafka_process import SECONDS, java

PROGRAM = Path(__file__).with_name("SslNames.java")
SEED = 19
TYPES = (
    *("2.5.4.3", "2.5.4.6", "2.5.4.7", "2.5.4.8", "2.5.4.9", "2.5.4.10", "2.5.4.11"),
    *("0.9.2342.19200300.100.1.1", "0.9.2342.19200300.100.1.25"),
    # email, serial number, title, given name, and country of jurisdiction
    *("1.2.840.113549.1.9.1", "2.5.4.5", "2.5.4.12", "2.5.4.42", "1.3.6.1.4.1.311.60.2.1.3"),
    "2.999.4294967296",
)
TAGS = {
    0x0C: "utf-8",
    0x13: "ascii",
    0x14: "latin-1",
    0x16: "ascii",
    0x1B: "ascii",
    0x1E: "utf-16-be",
    0x1C: "utf-32-be",
    0x04: "utf-8",
}
LETTERS = "abcXYZ019 ,=+<>#;\"\\/.-_@:'()?*&!%$"
OTHER_LETTERS = "\r\n\t\0äßéИ日本"
RULES = (
    "DEFAULT",
    "",
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/, DEFAULT",
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L",
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U",
    "RULE:.*/x/",
    "RULE:.*/x/L,RULE:^CN=(.*)$/$1/",
    "RULE:^(?<who>CN=[^,]*).*/${who}!/",
    "RULE:^(?<who>CN=[^,]*).*/${nobody}/",
    "RULE:CN=(.*)/$1$2$3/",
    "RULE:CN=(.)(.)(.)(.)(.)(.)(.)(.)(.)(.)(.*)/$11-$12-$1/",
    "RULE:CN=(.)(.*)/$10 $23 $3/",
    "RULE:CN=(.*)/$0/",
    r"RULE:CN=(.*)/\$1\\/",
    r"RULE:CN=(.*)\/(.*)/$1\/$2/",
    "RULE:CN=.*/$1/",
    "RULE:CN=(.*)/$/",
    "RULE:CN=(.*)/$a/",
    "RULE:CN=(.*/$1/",
    "RULE:CN=(.*)/$1/LU",
    "RULE:CN=(.*)/$1/X",
    "RULE:CN=(.*)/$1",
    "RULE:CN=(.*)",
    "NONE",
    "DEFAULT,DEFAULT",
    " DEFAULT , RULE:a/b/ ",
    "RULE:(?i)cn=(\\w+).*/$1/U,DEFAULT",
    "RULE:a|b/c/,RULE:[^,]+,.*/first, second/",
    "RULE:CN=(a)?(.*)/$1<$2>/",
    "RULE:\\d+/n/",
    "RULE:(a+)+b/$1/",
)
SUBJECTS = (
    "CN=alice,OU=ServiceUsers,O=Unknown,L=Unknown,ST=Unknown,C=Unknown",
    "CN=Bob.Smith,OU=Admins,O=Ours,L=Berlin,ST=Berlin,C=DE",
    "CN=ab",
    "CN=abcdefghijklmnop",
    "CN=Jörg Straße",
    "CN=a/b",
    "O=nobody",
    "cn=lower",
    "CN=10,C=DE",
    "",
    "aab",
    "12",
)


def ask_java(questions: Sequence[str]) -> list[str | None]:
    """Return Java's answers; None for an exception."""
    done = subprocess.run(
        java(str(PROGRAM)),
        input="".join(f"{question}\n" for question in questions),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=True,
    )
    return [
        None if line.startswith("!") else base64.b64decode(line).decode("utf-8")
        for line in done.stdout.splitlines()
    ]


def element(tag: int, content: bytes) -> bytes:
    """Return a DER element."""
    if len(content) < 128:
        return bytes((tag, len(content))) + content
    length = len(content).to_bytes(2, "big").lstrip(b"\0")
    return bytes((tag, 0x80 | len(length))) + length + content


def identifier(text: str) -> bytes:
    """Return an object identifier in DER."""
    first, second, *others = map(int, text.split("."))
    encoded = b""
    for number in (first * 40 + second, *others):
        septets = [number & 0x7F]
        while number := number >> 7:
            septets.insert(0, number & 0x7F | 0x80)
        encoded += bytes(septets)
    return element(0x06, encoded)


def some_name(random_: random.Random) -> bytes:
    """Return a DER name of up to four parts, some of them with several attributes."""

    def attribute() -> bytes:
        tag = random_.choice((0x0C, 0x0C, 0x13, *TAGS))
        letters = LETTERS + (OTHER_LETTERS if random_.random() < 0.3 else "")
        text = "".join(random_.choices(letters, k=random_.choice((0, 1, 3, 8, 150))))
        value = element(tag, text.encode(TAGS[tag], "replace"))
        return element(0x30, identifier(random_.choice(TYPES)) + value)

    def relative_name() -> bytes:
        attributes = [attribute() for _ in range(random_.choice((1, 1, 1, 2, 3)))]
        return element(0x31, b"".join(sorted(attributes)))

    return element(0x30, b"".join(relative_name() for _ in range(random_.randrange(5))))


def ours(rules: str, subject: str) -> str | None:
    """Return the result of our rules for a subject."""
    try:
        return PrincipalMapper(rules).name(subject)
    except (ValueError, NoMatchingRuleError):
        return None


def test_subjects_are_printed_as_java_prints_them() -> None:
    """Escapes, email addresses, multi-valued parts and all string types are printed as by Java."""
    random_ = random.Random(SEED)
    names = [some_name(random_) for _ in range(2000)]
    expected = ask_java([name.hex() for name in names])
    differ = [
        (name.hex(), theirs, our_name)
        for name, theirs in zip(names, expected, strict=True)
        if theirs is not None and (our_name := rfc2253(name)) != theirs
    ]
    assert not differ, differ[:5]
    assert sum(theirs is not None for theirs in expected) > 1000


def test_rules_map_as_kafkas_do() -> None:
    """Every rule maps every subject as in Kafka, and raises an error where Kafka's code does."""
    cases = [(rules, subject) for rules in RULES for subject in SUBJECTS]
    encoded = [
        " ".join(base64.b64encode(text.encode()).decode() for text in case) for case in cases
    ]
    expected = dict(zip(cases, ask_java(encoded), strict=True))
    differ = [
        (case, theirs, ours(*case)) for case, theirs in expected.items() if ours(*case) != theirs
    ]
    assert not differ, differ[:9]
