"""Reads Java key stores of type JKS: their entries and the password protection.

This reader exists because the library pyjks (2020) is unmaintained and needs three other libraries,
while the format is small and unchanged since Java 1.2. Source: sun.security.provider JavaKeyStore
and KeyProtector. Keys are encrypted with a stream of SHA-1 digests, which is weak but part of the
format.
"""

from __future__ import annotations

import hashlib
from hmac import compare_digest
from struct import Struct, error
from typing import NamedTuple

from coordinator_server.security.credentials.der import header

MAGIC = b"\xfe\xed\xfe\xed"
_PRIVATE_KEY, _TRUSTED = 1, 2
_DIGEST_BYTES = 20
_SALT_OF_FILE = b"Mighty Aphrodite"
_UINT, _ULONG, _USHORT = Struct(">I"), Struct(">Q"), Struct(">H")


class WrongPasswordError(Exception):
    """The digest of the file or of a key does not match the password."""


class JksEntry(NamedTuple):
    """An entry of a store; `protected_key` is None for a trusted certificate; `chain` is DER."""

    alias: str
    protected_key: bytes | None
    chain: tuple[bytes, ...]


class _Reader:
    """Reads consecutive numbers and byte strings."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.position = 0

    def number(self, kind: Struct) -> int:
        """Return the next number."""
        (number,) = kind.unpack_from(self._data, self.position)
        self.position += kind.size
        return int(number)

    def take(self, length: Struct) -> bytes:
        """Return the next length-prefixed byte string. Raises ValueError."""
        count = self.number(length)
        taken = self._data[self.position : self.position + count]
        if len(taken) < count:
            raise ValueError("the file is cut off")
        self.position += count
        return taken


def read_jks(data: bytes, password: str | None) -> list[JksEntry]:
    """Return the entries of a store. As in Java, the digest is checked only with a password.

    Raises ValueError, WrongPasswordError.
    """
    content, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if password is not None:
        expected = hashlib.sha1(_bytes(password) + _SALT_OF_FILE + content).digest()
        if not compare_digest(expected, digest):
            raise WrongPasswordError
    try:
        return list(_entries(content))
    except (error, UnicodeDecodeError):
        raise ValueError("the file is cut off or damaged") from None


def _entries(content: bytes) -> list[JksEntry]:
    reader = _Reader(content)
    if content[:4] != MAGIC:
        raise ValueError("it is no JKS file")
    reader.position = len(MAGIC)
    version = reader.number(_UINT)
    if version not in (1, 2):
        raise ValueError(f"version {version} of JKS is not known")
    entries = []
    for _ in range(reader.number(_UINT)):
        kind = reader.number(_UINT)
        alias = reader.take(_USHORT).decode("utf-8", "replace")
        reader.number(_ULONG)  # skip the creation time of the entry
        key = reader.take(_UINT) if kind == _PRIVATE_KEY else None
        if kind not in (_PRIVATE_KEY, _TRUSTED):
            raise ValueError(f"entry {alias} has the unknown type {kind}")
        chain = []
        for _ in range(reader.number(_UINT) if key is not None else 1):
            if version == 2 and reader.take(_USHORT) != b"X.509":
                raise ValueError(f"entry {alias} has a certificate that is not X.509")
            chain.append(reader.take(_UINT))
        entries.append(JksEntry(alias, key, tuple(chain)))
    return entries


def reveal_key(protected_key: bytes, password: str) -> bytes:
    """Return the decrypted private key as PKCS#8 DER. Raises ValueError, WrongPasswordError."""
    hidden = _octets(protected_key)
    salt, digest = hidden[:_DIGEST_BYTES], hidden[-_DIGEST_BYTES:]
    covered = hidden[_DIGEST_BYTES:-_DIGEST_BYTES]
    stream, last = bytearray(), salt
    while len(stream) < len(covered):
        last = hashlib.sha1(_bytes(password) + last).digest()
        stream += last
    key = bytes(left ^ other for left, other in zip(covered, stream, strict=False))
    if not compare_digest(hashlib.sha1(_bytes(password) + key).digest(), digest):
        raise WrongPasswordError
    return key


def _octets(info: bytes) -> bytes:
    """Return the OCTET STRING at the end of an EncryptedPrivateKeyInfo in DER.

    SEQUENCE { SEQUENCE { algorithm, NULL }, OCTET STRING }, where the algorithm is Sun's own.
    """
    try:
        _, start, _ = header(info, 0)
        _, inner, inner_length = header(info, start)
        tag, start, length = header(info, inner + inner_length)
    except ValueError:
        raise ValueError("the private key is damaged") from None
    if tag != 0x04 or start + length > len(info) or length < 2 * _DIGEST_BYTES:
        raise ValueError("the private key is damaged")
    return info[start : start + length]


def _bytes(password: str) -> bytes:
    """Return a password as Java's characters, two bytes each."""
    return password.encode("utf-16-be", "surrogatepass")
