"""Heap profiles: reading what the library writes, scaling samples up, naming addresses, and pprof's own format.

A sample stands for many allocations: of a Poisson process with one sample in `period` bytes on average, a block of `s`
bytes is sampled with probability 1 - exp(-s / period), so its count and bytes are divided by that.
"""

import gzip
import math
import re
import shutil
import subprocess
import zlib
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from mortise import protobuf, symbols
from mortise.errors import WrongUse

HEADER = re.compile(r"heap profile: *\d+: *\d+ *\[ *\d+: *\d+\] *@ *heap_v2/(\d+)")
LINE = re.compile(r" *(\d+): *(\d+) *\[ *(\d+): *(\d+)\] *@(.*)")
DROPPED = re.compile(r"# (\d+) samples could not be recorded")
MAP = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (\S+) ([0-9a-f]+) \S+ \d+ *(.*)")
VALUES = (("alloc_objects", "count"), ("alloc_space", "bytes"), ("inuse_objects", "count"), ("inuse_space", "bytes"))


@dataclass(frozen=True)
class Frame:
    """A function, and where in its source; names are addresses where nobody knows better."""

    function: str
    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        where = f" {Path(self.file).name}:{self.line}" if self.file and self.line else ""
        return f"{self.function}{where}"


@dataclass
class Counts:
    """Estimates, of blocks and bytes: asked for in all, and held."""

    alloc_objects: float = 0
    alloc_space: float = 0
    inuse_objects: float = 0
    inuse_space: float = 0

    def add(self, other: "Counts", sign: int = 1) -> None:
        for name, _ in VALUES:
            setattr(self, name, getattr(self, name) + sign * getattr(other, name))


@dataclass
class Profile:
    """Counts by call stack, innermost frame first."""

    period: int
    stacks: dict[tuple[Frame, ...], Counts] = field(default_factory=lambda: defaultdict(Counts))
    dropped: int = 0  # samples that the library had no memory to remember

    def total(self) -> Counts:
        total = Counts()
        for counts in self.stacks.values():
            total.add(counts)
        return total

    def minus(self, base: "Profile") -> "Profile":
        """What grew since `base`; stacks that only shrank stay, with negative counts."""
        difference = Profile(self.period)
        for sign, profile in ((1, self), (-1, base)):
            for stack, counts in profile.stacks.items():
                difference.stacks[stack].add(counts, sign)
        return difference

    def by_site(self, depth: int) -> dict[tuple[Frame, ...], Counts]:
        """Counts by the innermost frames: the place that asked, and who called it."""
        sites: dict[tuple[Frame, ...], Counts] = defaultdict(Counts)
        for stack, counts in self.stacks.items():
            sites[stack[:depth] or (Frame("(unknown)"),)].add(counts)
        return sites


@dataclass(frozen=True)
class Mapping:
    start: int
    end: int
    offset: int
    path: str


def scale(count: int, size: int, period: int) -> tuple[float, float]:
    if not count or period <= 1:
        return count, size
    share = 1 - math.exp(-(size / count) / period)
    return count / share, size / share


def parse(text: str, maps: str | None = None, root: Path = Path("/")) -> Profile:
    """A profile as the library writes it. `maps`: what is mapped, where the text does not say."""
    lines = text.splitlines()
    header = HEADER.match(lines[0]) if lines else None
    if header is None:
        raise WrongUse("this is no heap profile: its first line should be 'heap profile: ... @ heap_v2/...'")
    own, _, mapped = text.partition("MAPPED_LIBRARIES:")
    mappings = [
        Mapping(int(m[1], 16), int(m[2], 16), int(m[4], 16), m[5].removesuffix(" (deleted)"))
        for m in map(MAP.match, (maps if maps is not None else mapped).splitlines())
        if m and "x" in m[3]
    ]
    period = int(header[1])
    raw: list[tuple[list[int], Counts]] = []
    for line in own.splitlines()[1:]:
        if match := LINE.match(line):
            live = scale(int(match[1]), int(match[2]), period)
            total = scale(int(match[3]), int(match[4]), period)
            raw.append(([int(a, 16) for a in match[5].split()], Counts(*total, *live)))
    names = Names(mappings, root)
    names.look_up(address for addresses, _ in raw for address in addresses)
    profile = Profile(period, dropped=sum(map(int, DROPPED.findall(own))))
    for addresses, counts in raw:
        frames = [frame for address in addresses for frame in names.of(address)]
        profile.stacks[tuple(frames)].add(counts)
    make_whole(profile)
    return profile


def make_whole(profile: Profile) -> None:
    """Rounds the estimates, as pprof's format asks, so that a profile says the same when it is read again. What one stack loses by that
    the next ones get: sums stay.
    """
    for name, _ in VALUES:
        exact, given = 0.0, 0
        for counts in profile.stacks.values():
            exact += getattr(counts, name)
            setattr(counts, name, round(exact) - given)
            given = round(exact)


class Names:
    """Return addresses as functions and lines, by addr2line where it is installed, else by symbol tables."""

    def __init__(self, mappings: list[Mapping], root: Path):
        self.mappings, self.root = mappings, root
        self.known: dict[int, list[Frame]] = {}

    def of(self, address: int) -> list[Frame]:
        return self.known.get(address, [])

    def look_up(self, addresses: Iterable[int]) -> None:
        by_file: dict[str, dict[int, int]] = defaultdict(dict)
        for address in set(addresses):
            mapping = next((m for m in self.mappings if m.start <= address - 1 < m.end), None)
            if mapping is None:
                self.known[address] = [Frame(f"{address:#x}")]
            elif Path(mapping.path).name.startswith("libmortise"):
                self.known[address] = []  # the allocator itself: everybody was there
            else:
                by_file[mapping.path][address] = address - 1 - mapping.start + mapping.offset
        for path, offsets in by_file.items():
            self._in_file(path, offsets)

    def _in_file(self, path: str, offsets: dict[int, int]) -> None:
        from elftools.common.exceptions import ELFError
        from elftools.elf.elffile import ELFFile

        inside = self.root / path.lstrip("/") if path.startswith("/") else Path(path)
        name = Path(path).name or "?"
        for address, offset in offsets.items():
            self.known[address] = [Frame(f"{name}+{offset:#x}")]
        try:
            with inside.open("rb") as file:
                elf = ELFFile(file)
                loads = [s.header for s in elf.iter_segments() if s.header.p_type == "PT_LOAD"]
                virtual = {}
                for address, offset in offsets.items():
                    load = next((h for h in loads if h.p_offset <= offset < h.p_offset + h.p_filesz), None)
                    if load is not None:
                        virtual[address] = offset - load.p_offset + load.p_vaddr
                if shutil.which("addr2line"):
                    self._by_addr2line(inside, virtual)
                self._by_symbols(elf, virtual)
        except (OSError, ELFError):
            return

    def _by_addr2line(self, file: Path, virtual: dict[int, int]) -> None:
        order = list(virtual)
        asked = "\n".join(f"{virtual[address]:#x}" for address in order)
        command = ["addr2line", "-C", "-f", "-i", "-a", "-e", str(file)]
        said = subprocess.run(command, input=asked, capture_output=True, text=True, errors="replace", check=False).stdout
        frames: dict[int, list[Frame]] = defaultdict(list)
        address, lines = None, iter(said.splitlines())
        for line in lines:
            if re.fullmatch(r"0x[0-9a-f]+", line):
                address = int(line, 16)
                continue
            where, _, number = next(lines, "?:0").partition(" (")[0].rpartition(":")
            if address is not None and line != "??":
                frames[address].append(Frame(line, "" if where == "??" else where, int(number) if number.isdigit() else 0))
        for at in order:
            found = frames.get(virtual[at])
            if found and (found[0].file or symbols.is_within(str(file), virtual[at])):
                self.known[at] = found

    def _by_symbols(self, elf: object, virtual: dict[int, int]) -> None:
        """For what addr2line knows nothing of: the symbol that reaches so far, or the nearest before it of those that do not say how far."""
        import bisect

        left = {a: v for a, v in virtual.items() if "+0x" in self.known[a][0].function}
        if not left:
            return
        reaches = sorted(
            (s["st_value"], s["st_value"] + (s["st_size"] or 1 << 20), s.name)
            for table in (".symtab", ".dynsym")
            if (section := elf.get_section_by_name(table)) is not None  # type: ignore[attr-defined]
            for s in section.iter_symbols()
            if s["st_info"]["type"] == "STT_FUNC" and s["st_value"]
        )
        for address, value in left.items():
            place = bisect.bisect_right(reaches, value, key=lambda reach: reach[0]) - 1
            if place >= 0 and value < reaches[place][1]:
                self.known[address] = [Frame(reaches[place][2])]


# -- pprof's profile.proto: https://github.com/google/pprof/blob/main/proto/profile.proto


def write_pprof(profile: Profile, path: Path) -> None:
    strings: dict[str, int] = {"": 0}

    def number_of(text: str) -> int:
        return strings.setdefault(text, len(strings))

    message = protobuf.Message()
    for name, unit in VALUES:
        message.message(1, protobuf.Message().varint(1, number_of(name)).varint(2, number_of(unit)))
    functions: dict[tuple[str, str], int] = {}
    locations: dict[Frame, int] = {}
    for stack, counts in profile.stacks.items():
        for frame in stack:
            functions.setdefault((frame.function, frame.file), len(functions) + 1)
            locations.setdefault(frame, len(locations) + 1)
        sample = protobuf.Message().packed(1, [locations[frame] for frame in stack])
        message.message(2, sample.packed(2, [round(getattr(counts, name)) for name, _ in VALUES]))
    for frame, identity in locations.items():
        line = protobuf.Message().varint(1, functions[frame.function, frame.file]).varint(2, frame.line)
        message.message(4, protobuf.Message().varint(1, identity).message(4, line))
    for (function, file), identity in functions.items():
        name = number_of(function)
        message.message(
            5, protobuf.Message().varint(1, identity).varint(2, name).varint(3, name).varint(4, number_of(file))
        )
    period = protobuf.Message().varint(1, number_of("space")).varint(2, number_of("bytes"))
    default = number_of("inuse_space")
    for text in strings:
        message.text(6, text)
    message.message(11, period).varint(12, profile.period).varint(14, default)
    try:
        path.write_bytes(gzip.compress(message.bytes, mtime=0))
    except OSError as e:
        raise WrongUse(f"cannot write the profile '{path}': {e.strerror}") from None


def read(path: Path) -> Profile:
    """A profile in a file: pprof's, or the text that the library writes at the end of a program (MORTISE_PROFILE)."""
    try:
        with path.open("rb") as file:
            is_text = file.read(13) == b"heap profile:"
        return parse(path.read_text(errors="surrogateescape")) if is_text else read_pprof(path)
    except OSError as e:
        raise WrongUse(f"cannot read '{path}': {e.strerror}") from None
    except WrongUse as e:
        raise WrongUse(str(e).replace("this is", f"'{path}' is")) from None
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, EOFError, zlib.error) as e:
        raise WrongUse(f"'{path}' is no heap profile, or is cut off or damaged: {e}") from None


def read_pprof(path: Path) -> Profile:
    """A profile that `write_pprof` or another tool wrote; values are found by their names."""
    data = path.read_bytes()
    try:
        fields = protobuf.decode(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
    except (ValueError, EOFError, gzip.BadGzipFile) as e:
        raise WrongUse(f"'{path}' is no pprof profile: {e}") from None
    strings = [value.decode(errors="replace") for value in fields[6]]
    types = [strings[protobuf.decode(value)[1][0]] for value in fields[1]]
    if not {"inuse_space", "inuse_objects"} <= set(types):
        raise WrongUse(f"'{path}' is no heap profile: it holds {', '.join(types) or 'nothing'}")
    functions = {}
    for value in fields[5]:
        f = protobuf.decode(value)
        functions[f[1][0]] = (strings[f[2][0] if f[2] else 0], strings[f[4][0] if f[4] else 0])
    locations: dict[int, list[Frame]] = {}
    for value in fields[4]:
        f = protobuf.decode(value)
        lines = [protobuf.decode(line) for line in f[4]]
        locations[f[1][0]] = [Frame(*functions[at[1][0]], at[2][0] if at[2] else 0) for at in lines]
    profile = Profile(fields[12][0] if fields[12] else 0)
    for value in fields[2]:
        f = protobuf.decode(value)
        stack = tuple(frame for identity in protobuf.unpacked(f[1]) for frame in locations.get(identity, []))
        numbers = dict(zip(types, protobuf.unpacked(f[2]), strict=False))
        profile.stacks[stack].add(Counts(*(float(numbers.get(name, 0)) for name, _ in VALUES)))
    return profile
