"""A composition as users write it, in TOML: read, checked against the catalogue, and said in C++.

    name = "mine"
    layers = [
      "Aligned",
      { layer = "CoreCache", bytes_per_class = "32 KiB" },
      { layer = "Slab", sync = "SpinLock", size_classes = { policy = "Geometric", steps = 4 } },
      ...
    ]

Everything wrong is one line that begins with the file and the line of it. What only the compiler can judge, whether a
layer fits on what is below it, is asked with `#line` directives, so that its answer names that line too.
"""

import difflib
import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from mortise.errors import WrongUse
from mortise.headers import UNITS, Catalogue, Entry, Parameter, in_units

KEYS = ("name", "summary", "use", "headers", "layers")
TAKEN = frozenset(  # a name is one of a class: no keywords, no macros of libc's
    "alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class compl concept const consteval "
    "constexpr constinit const_cast continue co_await co_return co_yield decltype default delete do double dynamic_cast else enum explicit export "
    "extern false float for friend goto if inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected "
    "public register reinterpret_cast requires return short signed sizeof static static_assert static_cast struct switch template this thread_local "
    "throw true try typedef typeid typename union unsigned using virtual void volatile wchar_t while xor xor_eq assert errno offsetof stderr "
    "stdin stdout va_arg va_end va_start".split()
)
TOKEN = re.compile(r'"""(?:\\.|[^\\])*?"""|\'\'\'.*?\'\'\'|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|#[^\n]*|[\[\]{},=\n]|[^\s\[\]{},=#]+', re.S)
Lines = dict[tuple[Any, ...], int]


@dataclass
class Placed:
    """A layer of a composition, its parameters as C++, and the layers inside it."""

    entry: Entry
    line: int
    arguments: list[str] = field(default_factory=list)
    inside: list["Placed"] = field(default_factory=list)

    @property
    def cpp(self) -> str:
        arguments = self.arguments + [inner.cpp for inner in self.inside]
        # A class template needs its angle brackets, even empty ones.
        return f"{self.entry.cpp}<{', '.join(arguments)}>" if self.entry.parameters else self.entry.cpp

    def all(self) -> Iterator["Placed"]:
        yield self
        for inner in self.inside:
            yield from inner.all()

    def of_one_stack(self) -> Iterator["Placed"]:
        yield self
        for inner in () if self.entry.holds_a_stack else self.inside:
            yield from inner.of_one_stack()

    def number(self, name: str) -> int | None:
        """A parameter that is a number; None where there is none of that name."""
        names = [p.name for p in self.entry.parameters if p.kind != "layers"]
        return int(self.arguments[names.index(name)]) if name in names else None


@dataclass
class Composition:
    path: Path
    line: int  # of the name
    name: str
    summary: str
    use: str
    layers: list[Placed]
    headers: list[str]  # of shipped layers and policies, below include
    own: list[Path]  # headers of the user's

    def entries(self) -> list[Placed]:
        return [p for layer in self.layers for p in layer.all()]


def read(path: Path, catalogue: Catalogue) -> Composition:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as e:
        raise WrongUse(f"cannot read '{path}': {e.strerror}") from None
    except UnicodeDecodeError:
        raise WrongUse(f"'{path}' is not a text file in UTF-8: expected a composition in TOML") from None
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as e:
        raise WrongUse(syntax(path, text, str(e))) from None
    except (ValueError, RecursionError) as e:  # a number of thousands of digits, brackets in brackets in brackets
        raise WrongUse(f"{path}: no composition has this: {e}") from None
    return Reader(path, catalogue, places(text, document)).composition(document)


def syntax(path: Path, text: str, said: str) -> str:
    """`Expected ']' (at line 3, column 5)` becomes `my.toml:3: not TOML: expected ']' in column 5`."""
    match = re.fullmatch(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)", said)
    if not match:
        return f"{path}: not TOML: {said}"
    what = match[1][:1].lower() + match[1][1:]
    if match[2] is None:
        return f"{path}:{len(text.splitlines())}: not TOML: {what} at the end of the file"
    if re.search("overwrite|twice|duplicate", what):
        return f"{path}:{match[2]}: a key is given twice: keep one of them"
    return f"{path}:{match[2]}: not TOML: {what} in column {match[3]}"


def places(text: str, document: dict[str, Any]) -> Lines:
    """The line of every value, by its path. Values stand in the text in the order in which the document holds them."""
    lines: Lines = {}
    tokens, line, header = [], 1, False
    for match in TOKEN.finditer(text):
        token = match[0]
        if token == "\n":
            header = False
        elif token == "[" and text[: match.start()].rpartition("\n")[2].strip() == "" and not depth(tokens):
            header = True
        if not header and token != "\n" and not token.startswith("#"):
            tokens.append((token, line))
        line += token.count("\n")
    values = [t for t, after in pairwise([*tokens, ("", 0)]) if t[0] not in "[]{},=" and after[0] != "="]
    for leaf, (_, number) in zip(leaves(document, ()), values, strict=False):
        for length in range(1, len(leaf) + 1):
            lines.setdefault(leaf[:length], number)
    for key in document:  # one without a value in it, such as an empty list
        if key not in (known[0] for known in lines) and (found := re.search(rf"^\s*{re.escape(key)}\s*=", text, re.M)):
            lines[key,] = text.count("\n", 0, found.end()) + 1
    return lines


def depth(tokens: list[tuple[str, int]]) -> int:
    return sum((t in "[{") - (t in "]}") for t, _ in tokens)


def leaves(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(inner, (*path, key))
    else:
        yield path


class Reader:
    def __init__(self, path: Path, catalogue: Catalogue, lines: Lines):
        self.path, self.catalogue, self.lines = path, catalogue, lines
        self.headers: dict[str, None] = {}

    def wrong(self, at: tuple[Any, ...], what: str) -> WrongUse:
        while at and at not in self.lines:
            at = at[:-1]
        return WrongUse(f"{self.path}:{self.lines.get(at, 1)}: {what}")

    def nearest(self, at: tuple[Any, ...], kind: str, name: str, known: Iterable[str], where: str) -> WrongUse:
        names = sorted(known)
        near = difflib.get_close_matches(name.lower(), [n.lower() for n in names], n=1, cutoff=0.5)
        guess = next((n for n in names if near and n.lower() == near[0]), None)
        hint = f"did you mean '{guess}'?" if guess else f"there are {', '.join(names)}" if names else "it takes none"
        return self.wrong(at, f"{where}unknown {kind} '{name}': {hint}")

    def composition(self, document: dict[str, Any]) -> Composition:
        for key in document:
            if key not in KEYS:
                raise self.nearest((key,), "key", key, KEYS, "")
        name = document.get("name", re.sub(r"\W", "_", self.path.stem))
        if not isinstance(name, str) or not re.fullmatch(r"[a-z][a-z0-9_]{0,30}", name):
            raise self.wrong(("name",), f"name = {shown(name)}: expected a word of at most 31 small letters, digits and _, such as \"mine\"")
        if name in TAKEN:
            raise self.wrong(("name",), f"name = {shown(name)}: C++ has taken this word: expected another one, such as \"my_{name}\"")
        for key in ("summary", "use"):
            if not re.fullmatch(r'[^"\\\x00-\x1f]*', str(document.get(key, ""))) or not isinstance(document.get(key, ""), str):
                raise self.wrong((key,), f"{key}: expected one line of text without quotes and backslashes")
        if not isinstance(document.get("layers"), list) or not document["layers"]:
            raise self.wrong(("layers",), 'layers: expected a list from top to bottom, such as layers = ["Tlsf", "MmapHeap"]')
        own = self.own_headers(document.get("headers", []))
        layers = self.list_of(("layers",), document["layers"])
        self.judge_order(layers)
        summary = document.get("summary") or " over ".join(p.entry.name for p in layers)
        return Composition(self.path, self.lines.get(("name",), 1), name, summary, document.get("use", ""), layers, list(self.headers), own)

    def own_headers(self, named: Any) -> list[Path]:
        """Headers with layers of the user's own, beside the composition; the catalogue has those layers afterwards."""
        if not isinstance(named, list) or not all(isinstance(name, str) for name in named):
            raise self.wrong(("headers",), f'headers = {shown(named)}: expected a list of files with layers, such as ["my_layer.hpp"]')
        found = []
        for i, name in enumerate(named):
            try:
                path = (self.path.parent / name).resolve()
                self.catalogue.add(path, path.read_text(encoding="utf-8"))
            except OSError as e:
                raise self.wrong(("headers", i), f"cannot read '{name}': {e.strerror}; it is looked for beside the composition") from None
            except (WrongUse, ValueError) as e:
                raise self.wrong(("headers", i), f"'{name}': {e}") from None
            found.append(path)
        return found

    def list_of(self, at: tuple[Any, ...], items: Any) -> list[Placed]:
        if not isinstance(items, list):
            raise self.wrong(at, f"{at[-1]} = {shown(items)}: expected a list of layers")
        return [self.placed((*at, i), item) for i, item in enumerate(items)]

    def placed(self, at: tuple[Any, ...], item: Any) -> Placed:
        name, given = self.named(at, item, "layer", '"Slab" or { layer = "Slab", ... }')
        entry = self.catalogue.layers.get(name)
        if entry is None:
            raise self.nearest(at, "layer", name, self.catalogue.layers, "")
        self.headers[entry.header] = None
        placed = Placed(entry, self.lines.get((*at, "layer"), self.lines.get(at, 1)))
        placed.arguments = self.arguments(at, entry, given, placed)
        return placed

    def named(self, at: tuple[Any, ...], item: Any, kind: str, example: str) -> tuple[str, dict[str, Any]]:
        """`"Name"`, or a table whose key `kind` holds the name and whose other keys are parameters."""
        if isinstance(item, str):
            return item, {}
        if isinstance(item, dict) and isinstance(item.get(kind), str):
            return item[kind], {k: v for k, v in item.items() if k != kind}
        raise self.wrong(at, f"{shown(item)}: expected a {kind}, as {example}")

    def arguments(self, at: tuple[Any, ...], entry: Entry, given: dict[str, Any], placed: Placed | None) -> list[str]:
        known = {p.name: p for p in entry.parameters}
        for key in given:
            if key not in known:
                raise self.nearest((*at, key), "parameter", key, known, f"{entry.name}: ")
        out: list[str] = []
        for p in entry.parameters:
            if p.kind == "layers" and placed is not None:
                placed.inside = self.list_of((*at, p.name), given.get(p.name, []))
            elif p.name in given:
                out.append(self.argument((*at, p.name), entry, p, given[p.name]))
            elif p.default is not None:
                out.append(self.default(p))
            else:
                raise self.wrong(at, f"{entry.name} needs its parameter '{p.name}': {p.what or p.kind}")
        return out

    def default(self, p: Parameter) -> str:
        """As the header spells it, seen from the namespace in which all of them live."""
        return re.sub(r"(\d+) (KiB|MiB|GiB|TiB)$", lambda m: str(int(m[1]) * UNITS[m[2]]), p.default or "")

    def argument(self, at: tuple[Any, ...], entry: Entry, p: Parameter, value: Any) -> str:
        if p.kind == "policy":
            return self.policy(at, entry, p, value)
        if p.kind == "boolean":
            if not isinstance(value, bool):
                raise self.wrong(at, f"{entry.name}: {p.name} = {shown(value)}: expected true or false")
            return "true" if value else "false"
        return str(self.integer(at, entry, p, value))

    def integer(self, at: tuple[Any, ...], entry: Entry, p: Parameter, value: Any) -> int:
        n = quantity(value)
        where = f"{entry.name}: {p.name} = {shown(value)}"
        expected = f" in {p.range}" if p.range else ""
        if n is None:
            raise self.wrong(at, f'{where}: expected a whole number{expected}, such as 4096 or "4 KiB"')
        if p.low is not None and p.high is not None and not p.low <= n <= p.high:
            raise self.wrong(at, f"{where} is out of range: expected {p.range.split(',')[0]}")
        if p.rule == "power of two" and n & (n - 1):
            raise self.wrong(at, f"{where} is no power of two: expected one{expected.split(',')[0]}")
        return n

    def policy(self, at: tuple[Any, ...], entry: Entry, p: Parameter, value: Any) -> str:
        answers = self.catalogue.answers(p)
        example = next(iter(answers), "")
        name, given = self.named(at, value, "policy", f'"{example}" or {{ policy = "{example}", ... }}')
        if name not in answers:
            raise self.nearest(at, f"policy for {p.name}", name, answers, f"{entry.name}: ")
        policy = answers[name]
        self.headers[policy.header] = None
        arguments = self.arguments(at, policy, given, None)
        return f"{policy.cpp}<{', '.join(arguments)}>" if policy.parameters else policy.cpp

    def judge_order(self, layers: list[Placed]) -> None:
        """Sources stand at the bottom, and nothing else does; a list inside a route may be a whole stack of its own."""
        for p in (p for layer in layers for p in layer.all()):
            for inner in p.inside[:-1] if p.entry.holds_a_stack else p.inside:
                self.expect_no_source(inner)
            if p.entry.holds_a_stack:
                if not p.inside:
                    name = next(q.name for q in p.entry.parameters if q.kind == "layers")
                    raise WrongUse(f"{self.path}:{p.line}: {p.entry.name} needs its parameter '{name}': expected a list of layers that ends with a source")
                self.expect_source(p.inside[-1])
        for p in layers[:-1]:
            self.expect_no_source(p)
        self.expect_source(layers[-1])
        for stack in [layers, *(p.inside for layer in layers for p in layer.all() if p.entry.holds_a_stack)]:
            self.judge_planes([p for layer in stack for p in layer.of_one_stack()])

    def judge_planes(self, stack: list[Placed]) -> None:
        """Each guard that keeps marks has a plane of BlockMarks to itself."""
        marks = next((p for p in stack if p.entry.name == "BlockMarks"), None)
        planes = marks.number("planes") or 1 if marks else 4
        taken: dict[int, str] = {}
        for p in stack:
            plane = p.number("plane")
            if plane is None:
                continue
            if plane in taken:
                raise WrongUse(f"{self.path}:{p.line}: {p.entry.name} and {taken[plane]} keep their marks in one plane of BlockMarks: "
                               f"expected another plane for one of them, such as plane = {max(taken) + 1}")
            if marks and plane >= planes:
                raise WrongUse(f"{self.path}:{marks.line}: {p.entry.name} keeps its marks in plane {plane} of BlockMarks, which has {planes}: "
                               f'expected {{ layer = "BlockMarks", planes = {plane + 1} }}')
            taken[plane] = p.entry.name

    def expect_source(self, last: Placed) -> None:
        if last.entry.family != "source":
            sources = [e.name for e in self.catalogue.layers.values() if e.family == "source"]
            raise WrongUse(
                f"{self.path}:{last.line}: the last layer is '{last.entry.name}', which is no source: "
                f"end the list with one of {', '.join(sorted(sources))}"
            )

    def expect_no_source(self, p: Placed) -> None:
        if p.entry.family == "source":
            raise WrongUse(f"{self.path}:{p.line}: {misplaced(p.entry)}")


def misplaced(source: Entry) -> str:
    return f"the source '{source.name}' has layers below it: a source gives memory and stands last"


HOLD_THEIR_LOCK = ("BoundaryTag", "Buddy", "Tlsf")  # whenever they ask below
KEEP_NO_RECORD = ("SizeCheck", "SizedHeader", "TailChecksum")  # of a thread
FREE = "Unsynchronised"


def without_lock(layers: list[Placed]) -> tuple[Placed, str] | None:
    """A layer that two threads may be in at once though it has no lock, and the slot that is to have one. A source may go without below
    a backbone that is asked under a lock, where nothing further up asks the source past it: for a thread's record, say.
    """
    for i, p in enumerate(layers):
        slot = next((q.name for q, said in zip((q for q in p.entry.parameters if q.kind != "layers"), p.arguments, strict=True) if FREE in said), None)
        above = layers[:i]
        is_held = p.entry.family == "source" and above and above[-1].entry.name in HOLD_THEIR_LOCK
        if slot and not (is_held and all(q.entry.name in KEEP_NO_RECORD for q in above[:-1])):
            return p, slot
        if found := without_lock(p.inside):
            return found
    return None


SAME_BLOCKS = ("AffinityPools", "BypassFor", "PerNode")  # routes that ask the stack below for what is large


def other_routes(layers: list[Placed], than: Placed | None = None) -> bool:
    """Whether some other layer may serve what a backbone refuses: the routes to whole heaps."""
    return any(p.entry.family == "route" and p is not than and p.entry.name not in SAME_BLOCKS for layer in layers for p in layer.all())


def without_route(layers: list[Placed]) -> Placed | None:
    """A `Slab`, which has blocks of its classes and no others, in a list where nothing takes what is larger."""
    return None if other_routes(layers) else next((p for layer in layers for p in layer.all() if p.entry.name == "Slab"), None)


def leaves_large_to_route(p: Placed, layers: list[Placed]) -> bool:
    """Whether only this route keeps large requests away from a `Slab`."""
    return p.entry.name == "Bypass" and any(inner.entry.name == "Slab" for inner in p.inside) and not other_routes(layers, p)


ALIGN = ("Aligned", "Fallback", "SizedHeader", "Segregate")  # or have another stack that may


def without_alignment(layers: list[Placed]) -> Placed | None:
    """A backbone of size classes above which nothing serves alignments; a layer of the user's own may."""
    every = [p for layer in layers for p in layer.all()]
    if any(p.entry.name in ALIGN or not p.entry.header.startswith("mortise/") for p in every):
        return None
    return next((p for p in every if p.entry.name in ("SegregatedFit", "Slab", "WaitFreeSlab")), None)


def gap(route: int, served: int) -> str:
    """What to say of a route that begins beyond the largest class; the largest size there is stands for no route at all."""
    largest = f"Slab serves no more than {in_units(served)} here"
    if route == 2**64 - 1:
        return f"{largest}, and malloc of more would give NULL: wrap it in Bypass with route LargerThan, bytes = {shown(in_units(served))}"
    return f"Bypass: LargerThan {in_units(route)}, but {largest}, and malloc of a size between would give NULL: " \
           f"expected bytes = {shown(in_units(served))} or less, or larger classes (max_bytes)"


def quantity(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    if isinstance(value, int):
        return value
    match = re.fullmatch(r"\s*([0-9]{1,30})\s*(KiB|MiB|GiB|TiB)?\s*", value)
    return int(match[1]) * UNITS[match[2] or ""] if match else None


def shown(value: Any) -> str:
    """A value as TOML would show it, on one line and not too long."""
    text = f'"{value}"' if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= 60 else text[:57] + "..."
