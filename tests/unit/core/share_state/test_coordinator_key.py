"""The text form of share partition keys in FindCoordinator."""

from __future__ import annotations

import pytest

from coordinator_server.core.share_partitions.persister import SharePartitionKey
from coordinator_server.core.share_state.coordinator_key import coordinator_key, share_partition_key

TOPIC = bytes(range(16))
UUID = "AAECAwQFBgcICQoLDA0ODw"


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (f"g:{UUID}:0", ("g", 0)),
        (f"g:{UUID}:+7", ("g", 7)),
        (f"g:{UUID}:-7", ("g", -7)),
        (f"g:{UUID}==:007", ("g", 7)),
        (f"a:b::c:{UUID}:1", ("a:b::c", 1)),
        (f"g:{UUID}:1::", ("g", 1)),  # Java's split drops trailing empty parts
    ],
)
def test_keys(text: str, key: tuple[str, int]) -> None:
    """A key is parsed from the right, as the group may contain colons."""
    assert share_partition_key(text) == SharePartitionKey(key[0], TOPIC, key[1])


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":::",
        "g",
        f"{UUID}:1",
        f":{UUID}:1",
        f" \t:{UUID}:1",
        f"g:{UUID}:",
        f"g:{UUID}:x",
        f"g:{UUID}:1.0",
        f"g:{UUID}: 1",
        f"g:{UUID}:2147483648",
        f"g:{UUID}:-2147483649",
        "g:AAAA:1",
        "g:topic:1",
        f"g:{UUID}=:1",
        f"g:{UUID[:-1]}:1",
        f"g:{UUID[:-2]}é:1",
        f"g:{UUID}AAAA:1",
        f"g:{UUID[:-1]}/:1",
    ],
)
def test_what_is_no_key(text: str) -> None:
    """A key with too few parts, an empty group, a bad UUID or a bad number is refused."""
    assert share_partition_key(text) is None


def test_the_key_as_it_is_hashed() -> None:
    """The hashed key is the same for every format that a client can use."""
    key = share_partition_key(f"a:b:{UUID}==:+07")
    assert key is not None
    assert coordinator_key(key) == f"a:b:{UUID}:7"
