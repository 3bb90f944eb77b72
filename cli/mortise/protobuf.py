"""As much of protocol buffers' wire format as pprof's profiles need: https://protobuf.dev/programming-guides/encoding."""

from collections import defaultdict
from typing import Any, Self

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


class Message:
    """A message being written, field by field. Zero is the default and is left out."""

    def __init__(self) -> None:
        self.bytes = b""

    def varint(self, number: int, value: int) -> Self:
        if value:
            self.bytes += varint(number << 3 | VARINT) + varint(value)
        return self

    def packed(self, number: int, values: list[int]) -> Self:
        return self._bytes(number, b"".join(map(varint, values)))

    def text(self, number: int, value: str) -> Self:
        return self._bytes(number, value.encode(errors="replace"))

    def message(self, number: int, value: "Message") -> Self:
        return self._bytes(number, value.bytes)

    def _bytes(self, number: int, value: bytes) -> Self:
        self.bytes += varint(number << 3 | BYTES) + varint(len(value)) + value
        return self


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise ValueError("a number is cut off")
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if not data[at - 1] & 0x80:
            return value, at


def decode(data: bytes) -> dict[int, list[Any]]:
    """The fields of a message, in order, by number; nested ones as bytes."""
    fields: dict[int, list[Any]] = defaultdict(list)
    at = 0
    while at < len(data):
        key, at = read_varint(data, at)
        kind = key & 7
        if kind == VARINT:
            value, at = read_varint(data, at)
            fields[key >> 3].append(value)
            continue
        length = {FIXED64: 8, FIXED32: 4}.get(kind)
        if kind == BYTES:
            length, at = read_varint(data, at)
        if length is None or at + length > len(data):
            raise ValueError("a field is cut off or of an unknown kind")
        fields[key >> 3].append(data[at : at + length])
        at += length
    return fields


def unpacked(values: list[Any]) -> list[int]:
    """The numbers of a repeated field, packed or not; as signed ones."""
    found = []
    for value in values:
        if isinstance(value, int):
            found.append(value)
            continue
        at = 0
        while at < len(value):
            number, at = read_varint(value, at)
            found.append(number)
    return [n - (1 << 64) if n >> 63 else n for n in found]
