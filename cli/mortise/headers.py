"""The catalogue of layers and policies, read from the headers themselves: names, docstrings, template signatures.

What makes an entry: a class with `kName`; with `kWhat` and in the folder of a family it is a layer, in policy/ or sync/
an answer to a slot. A parameter is documented by a line of the docstring: `kSlots` (4..255): what it means.
"""

import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from mortise.errors import WrongUse

FAMILIES = ("source", "backbone", "cache", "guard", "shape", "route", "watch")
POLICIES = ("policy", "sync")
SLOT_OF_FOLDER = {"sync": "Sync"}
SLOT_OF_HEADER = {"coloured": "SizeClasses"}  # the others are named for theirs
INTEGERS = ("std::size_t", "unsigned", "int", "std::int64_t", "std::uint64_t", "std::uint32_t")
UNITS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


@dataclass
class Parameter:
    """One parameter of a template, under the name that a composition uses for it."""

    name: str
    kind: str  # integer, boolean, policy, layers
    cpp: str
    what: str = ""
    default: str | None = None
    low: int | None = None
    high: int | None = None
    rule: str = ""  # "", "power of two", "multiple of N"
    slot: str = ""
    concept: str = ""

    @property
    def range(self) -> str:
        if self.low is None or self.high is None:
            return ""
        return f"{self.said(self.low)}..{self.said(self.high)}" + (f", {self.rule}" if self.rule else "")

    def said(self, n: int) -> str:
        """Bytes in units, counts as they are."""
        return in_units(n) if "bytes" in self.name else str(n)


@dataclass
class Entry:
    """A layer, or a policy that answers `slot`."""

    name: str
    family: str
    cpp: str
    header: str
    what: str
    needs: str = ""
    notes: dict[str, str] = field(default_factory=dict)  # of the banner: Bound, Progress, Source, Placement
    parameters: list[Parameter] = field(default_factory=list)
    slot: str = ""
    members: set[str] = field(default_factory=set)

    @property
    def holds_a_stack(self) -> bool:
        """Whether the layers inside stand on a source of their own, not on what is below; its kNeeds says so."""
        return self.needs.startswith("a whole stack inside")

    def document(self) -> dict[str, Any]:
        parameters = [
            {k: v for k, v in (asdict(p) | {"range": p.range}).items() if v not in (None, "") and k not in ("cpp", "concept")}
            for p in self.parameters
        ]
        plain = {"name": self.name, "family": self.family, "slot": self.slot, "what": self.what, "needs": self.needs}
        return {k: v for k, v in plain.items() if v} | {
            "header": self.header, "cpp": self.cpp, "notes": self.notes, "parameters": parameters,
        }


class Catalogue:
    def __init__(self, include: Path):
        self.layers: dict[str, Entry] = {}
        self.policies: dict[str, Entry] = {}  # by name within the slot: "Fit.FirstFit"
        self.concepts: dict[str, set[str]] = {}
        self.constants: dict[str, int] = {}
        headers = sorted((include / "mortise").glob("*/*.hpp"))
        for path in headers:
            text = path.read_text(encoding="utf-8")
            self.concepts |= concepts(text)
            self.constants |= constants(text)
        for path in headers:
            if path.parent.name in FAMILIES + POLICIES:
                self._read(path, include)
        if not self.layers:
            raise WrongUse(f"no layers in '{include}/mortise': expected the headers of mortise; set MORTISE_HOME")

    def _read(self, path: Path, include: Path) -> None:
        text = path.read_text(encoding="utf-8")
        for entry in entries(text, str(path.relative_to(include)), path.parent.name):
            if entry.family in FAMILIES:
                self.layers[entry.name] = entry
            else:
                entry.slot = SLOT_OF_FOLDER.get(path.parent.name) or SLOT_OF_HEADER.get(path.stem) or camel(path.stem)
                self.policies[f"{entry.slot}.{entry.name}"] = entry

    def add(self, path: Path, text: str) -> None:
        """A header of the user's own: its classes with `kName` and `kWhat` are layers where they have an `Over`, and sources where not."""
        self.concepts |= concepts(text)
        self.constants |= constants(text)
        found = entries(text, str(path), "guard")
        for entry in found:
            if entry.name in self.layers:
                raise WrongUse(f"its layer '{entry.name}' has the name of another one: expected a kName of its own")
            if "Over" not in entry.members:
                entry.family = "source"
            self.layers[entry.name] = entry
        if not found:
            raise WrongUse("no layer in it: expected a class with kName and kWhat, as in examples/poison_on_free.hpp")

    def answers(self, p: Parameter) -> dict[str, Entry]:
        """The policies that fit a parameter: of its slot, with every member that its concept asks for, and none that it refuses."""
        wanted = self.concepts.get(p.concept, set())
        of_slot = [e for e in self.policies.values() if e.slot == p.slot]
        return {e.name: e for e in of_slot if all((name.lstrip("!") in e.members) != name.startswith("!") for name in wanted)}

    def document(self) -> dict[str, Any]:
        layers = [e.document() for e in self.layers.values()]
        for layer, entry in zip(layers, self.layers.values(), strict=True):
            for shown, p in zip(layer["parameters"], entry.parameters, strict=True):
                if p.default is not None:
                    shown["default"] = self.default(p)
                if p.kind == "policy":
                    shown["answers"] = sorted(self.answers(p))
        layers.sort(key=lambda e: (FAMILIES.index(e["family"]), e["name"]))
        return {"layers": layers, "policies": [e.document() for e in self.offered()]}

    def offered(self) -> list[Entry]:
        """The policies that answer a parameter of some layer, or of another policy."""
        found = [e for e in self.policies.values() if any(e.name in self.answers(p) for p in self.slots())]
        return sorted(found, key=lambda e: (e.slot, e.name))

    def default(self, p: Parameter) -> str:
        """As a reader wants it: numbers for the names of numbers, policies without their namespaces."""
        text = re.sub(r"\b\w+::", "", p.default or "").replace("<>", "")
        text = re.sub(r"\b\d+_[KMGT]iB\b", lambda m: in_units(number(m[0]) or 0), text)
        return in_units(self.constants[text]) if text in self.constants else text

    def slots(self) -> list[Parameter]:
        """Every parameter, of layers and of policies, that a policy answers."""
        known = [*self.layers.values(), *self.policies.values()]
        return [p for e in known for p in e.parameters if p.kind == "policy"]


def camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def snake(name: str) -> str:
    """kBytesPerClass -> bytes_per_class; a T at the end only keeps a parameter apart from a member."""
    name = re.sub(r"^k(?=[A-Z])", "", name)
    name = re.sub(r"(?<=[a-z])T$", "", name)
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def in_units(n: int) -> str:
    for unit, scale in reversed(UNITS.items()):
        if n and n % scale == 0 and unit:
            return f"{n // scale} {unit}"
    return str(n)


def number(text: str) -> int | None:
    """What a number is in C++ or in a docstring: 64_KiB, 64 KiB, 32u << 20, 1'000."""
    text = text.strip().replace("'", "")
    if match := re.fullmatch(r"(-?\d+)[uUlL]*\s*<<\s*(\d+)", text):
        return int(match[1]) << int(match[2])
    match = re.fullmatch(r"(-?\d+)[uUlL]*[ _]?(KiB|MiB|GiB|TiB|)", text)
    return int(match[1]) * UNITS[match[2]] if match else None


def entries(text: str, header: str, family: str) -> list[Entry]:
    """Every class with a name of its own in a header, and the aliases of such classes."""
    found: list[Entry] = []
    bodies: dict[str, set[str]] = {}
    head = r"(?:template\s*<(?P<p>(?:[^<>]|<(?:[^<>]|<[^<>]*>)*>)*)>\s*(?:requires [^;{]*?\s)?)?"
    classes = re.compile(rf"^{head}(?:struct|class)\s+(?P<n>\w+)(?P<bases>[^;{{(]*)\{{", re.M)
    for match in classes.finditer(text):
        body = braced(text, match.end() - 1)
        own = depth_one(body)
        members = set(re.findall(r"\w+", own))
        for base in re.findall(r"\w+", match["bases"]):
            members |= bodies.get(base, set())
        bodies[match["n"]] = members
        if not (name := re.search(r'kName\s*=\s*"([^"]+)"', own)):
            continue
        what = re.search(r'kWhat\s*=\s*((?:"[^"]*"\s*)+);', own)
        if family in FAMILIES and not what:
            continue
        doc = docstring(text, match.start())
        entry = Entry(name[1], family, qualified(text, match.start(), match["n"]), header, "", notes=banner(text))
        entry.what = joined(what[1]) if what else prose(doc)
        needs = re.search(r'kNeeds\s*=\s*((?:"[^"]*"\s*)+);', own)
        entry.needs = joined(needs[1]) if needs else ""
        entry.parameters = parameters(match["p"] or "", doc)
        entry.members = members
        found.append(entry)
    if family in POLICIES:
        if family == "sync" and len(found) == 1:  # then the banner is about it
            found[0].what = f"{first_sentence(text)}. {found[0].what}".strip()
        found += aliases(text, header, family, {e.cpp.rsplit("::", 1)[-1]: e for e in found})
    return found


def aliases(text: str, header: str, family: str, known: dict[str, Entry]) -> list[Entry]:
    """`template <...> using PowerOfTwo = Geometric<1, ...>;`: a policy by another name."""
    found = []
    for m in re.finditer(r"^template\s*<([^;=]*(?:=[^;<>]*)?)>\s*using\s+(\w+)\s*=\s*(\w+)<[^;]*>;", text, re.M):
        if m[3] in known:
            doc = docstring(text, m.start())
            entry = Entry(m[2], family, qualified(text, m.start(), m[2]), header, prose(doc))
            entry.parameters, entry.members = parameters(m[1], doc), known[m[3]].members
            found.append(entry)
    return found


def braced(text: str, at: int) -> str:
    """The text from the brace at `at` to the one that closes it."""
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] == "{") - (text[i] == "}")
        if depth == 0:
            return text[at : i + 1]
    return text[at:]


def depth_one(body: str) -> str:
    """A class's own members: what stands inside deeper braces left out."""
    out, depth = [], 0
    for char in re.sub(r"//[^\n]*", "", body):
        depth -= char == "}"
        if depth <= 1:
            out.append(char)
        depth += char == "{"
    return "".join(out)


def qualified(text: str, at: int, name: str) -> str:
    """The name with the namespaces that are open at `at`; one that was closed again does not count."""
    opened: list[str] = []
    for match in re.finditer(r"^namespace ([\w:]+) \{|^\}  // namespace", text[:at], re.M):
        opened.append(match[1]) if match[1] else opened.pop()
    return "::".join([*opened, name])


def docstring(text: str, at: int) -> list[str]:
    """The lines of `///` directly above."""
    lines: list[str] = []
    for line in reversed(text[:at].splitlines()):
        if not line.startswith("///"):
            break
        lines.insert(0, line[3:].strip())
    return lines


PARAMETER_LINE = re.compile(r"`(\w+)`(?: \(([^)]*)\))?: ?(.*)")


def prose(doc: list[str]) -> str:
    """What a docstring says besides its parameters."""
    kept: list[str] = []
    for line in doc:
        if PARAMETER_LINE.match(line):
            break
        kept.append(line)
    return " ".join(kept)


def described(doc: list[str]) -> dict[str, tuple[str, str]]:
    """Parameter -> its range and its meaning, which may go on for several lines."""
    found: dict[str, list[str]] = {}
    last = None
    for line in doc:
        if match := PARAMETER_LINE.match(line):
            last = match[1]
            found[last] = [match[2] or "", match[3]]
        elif last:
            found[last][1] += " " + line
    return {name: (limits, what.strip()) for name, (limits, what) in found.items()}


def joined(literals: str) -> str:
    return "".join(re.findall(r'"([^"]*)"', literals))


def banner(text: str) -> dict[str, str]:
    """The notes of a header's first comment: Bound, Waste, Progress, Source, Placement."""
    head = text.split("#pragma once")[0]
    flat = " ".join(line.lstrip("/ ").rstrip() for line in head.splitlines())
    parts = re.split(r"(?:^|(?<=[.\s]))(Bound|Waste|Progress|Source|Placement): ", flat)
    return {key: " ".join(value.split()) for key, value in zip(parts[1::2], parts[2::2], strict=False)}


def first_sentence(text: str) -> str:
    head = text.split("#pragma once")[0].split("\n//\n")[0]
    return " ".join(line.lstrip("/ ") for line in head.splitlines()).split(". ")[0].strip()


def parameters(signature: str, doc: list[str]) -> list[Parameter]:
    told = described(doc)
    return [parameter(part, told) for part in pieces(signature)]


def pieces(signature: str) -> list[str]:
    """A template's parameters, separated by the commas that stand in no bracket."""
    out, depth = [""], 0
    for char in signature:
        depth += (char in "<(") - (char in ">)")
        if char == "," and depth == 0:
            out.append("")
        else:
            out[-1] += char
    return [" ".join(piece.split()) for piece in out if piece.strip()]


def parameter(part: str, told: dict[str, tuple[str, str]]) -> Parameter:
    declared, _, default = (side.strip() for side in part.partition("="))
    of, name = declared.rsplit(" ", 1)
    limits, what = told.get(name, ("", ""))
    p = Parameter(snake(name), "policy", name, what, default or None)
    if of.endswith("...") or of == "LayerList":
        p.kind = "layers"
    elif of in INTEGERS:
        p.kind = "integer"
        p.low, p.high, p.rule = limit(limits)
        if p.default is not None and (value := number(p.default)) is not None:
            p.default = p.said(value)
    elif of == "bool":
        p.kind = "boolean"
    else:
        p.slot = re.sub(r"T$", "", name)
        p.concept = "" if of in ("class", "typename") else of.rsplit("::", 1)[-1]
    return p


def limit(text: str) -> tuple[int | None, int | None, str]:
    """`16..1 GiB, power of two`."""
    bounds, _, rule = text.partition(",")
    low, dots, high = bounds.partition("..")
    return (number(low), number(high), rule.strip()) if dots else (None, None, "")


def constants(text: str) -> dict[str, int]:
    found = re.findall(r"^inline constexpr std::size_t (k\w+) = ([^;]+);", text, re.M)
    return {name: value for name, said in found if (value := number(said)) is not None}


def concepts(text: str) -> dict[str, set[str]]:
    """What each concept asks its type to have: names behind `P::` and behind `.` of a variable of that type; with a `!` before it what it
    must not have."""
    found: dict[str, set[str]] = {}
    pattern = r"template <class (\w+)(?:, [^<>]*)?>\s*concept (\w+) = ((?:[^;{]|\{(?:[^{}]|\{[^{}]*\})*\})*);"
    for m in re.finditer(pattern, text):
        of = m[1]
        refused = r"!requires \{ " + of + r"::(\w+); \}"
        names = set(re.findall(rf"\b{of}::(?:template )?(\w+)", re.sub(refused, "", m[3])))
        names |= {"!" + name for name in re.findall(refused, m[3])}
        for base in re.findall(rf"\b(\w+)<{of}>", m[3]):
            names |= found.get(base, set())
        for variable in re.findall(rf"\b{of}& (\w+)", m[3]):
            names |= set(re.findall(rf"\b{variable}\.(\w+)", m[3]))
        found[m[2]] = names
    return found
