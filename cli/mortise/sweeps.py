"""Sweeps: one knob turned through its values, so that a program is a curve of time against memory and not one point.

    [ARM:]VARIABLE=text{VALUES}text      an environment variable, of one arm or of all
    [ARM:]@NAME={VALUES}                 replaces {NAME} in the program's arguments
    ocaml, go, java, node, jemalloc, ... a preset

VALUES are separated by commas; `20..320*2` is a geometric range and `1..9+2` an arithmetic one. `unset` is always among
them: setting a knob at all may switch something else off, and only the unset point shows that.
"""

import re
from dataclasses import dataclass

from mortise import conf
from mortise.arms import AS_SHIPPED, CONTROL, Arm
from mortise.errors import WrongUse, unknown

UNSET = "unset"
PRESETS = {
    "ocaml": ["OCAMLRUNPARAM=o={20,40,80,120,160,240,320}"],
    "go": ["GOGC={25,50,100,200,400,800}"],
    "java": ["JAVA_TOOL_OPTIONS=-Xmx{64,96,128,192,256,384,512}m"],
    "node": ["NODE_OPTIONS=--max-semi-space-size={1,2,4,8,16,32,64}"],
    "jemalloc": ["jemalloc:MALLOC_CONF=dirty_decay_ms:{0,10,30,100,300,1000,10000},muzzy_decay_ms:0"],
    "mimalloc": ["mimalloc:MIMALLOC_PURGE_DELAY={0,1,10,100,1000,10000}"],
    "tcmalloc": ["tcmalloc:TCMALLOC_RELEASE_RATE={0.01,0.1,1,10,100,1000}"],
    "glibc": ["glibc:MALLOC_TRIM_THRESHOLD_={65536,524288,4194304,33554432,134217728}"],
    "mortise": ["hslab:MORTISE_CONF=purge_ms={0,10,100,1000,10000,-1}"],
}
VALUES_MAX = 64
POINTS_MIN = 5  # of a curve, unset among them: a law has three parameters, and with fewer points it would fit anything


@dataclass(frozen=True)
class Sweep:
    """One knob: where it is, and what it is turned to."""

    arm: str | None
    name: str  # of the variable, or of the placeholder behind @
    template: str
    values: tuple[str, ...]
    named_again: tuple[str, ...] = ()  # by a slip, or by a range that holds them

    @property
    def in_arguments(self) -> bool:
        return self.name.startswith("@")

    def applies_to(self, arm: str) -> bool:
        return self.arm is None or self.arm == arm


def parse_all(texts: list[str], arms: list[Arm], argv: list[str]) -> list[Sweep]:
    """The sweeps of a command line; one arm has one knob, because a curve has one parameter."""
    names = {arm.name for arm in arms}
    given = [line for text in texts for line in PRESETS.get(text, [text])]
    sweeps = [parse(text, names) for text in given]
    for arm in arms:
        mine = [s for s in sweeps if s.applies_to(arm.name)]
        if len(mine) > 1:
            raise WrongUse(
                f"arm '{arm.name}' has two sweeps, {mine[0].name} and {mine[1].name}: a curve has one knob"
            )
    for sweep in sweeps:
        if sweep.in_arguments and not any("{" + sweep.name[1:] + "}" in word for word in argv):
            raise WrongUse(f"--sweep {sweep.name}: no '{{{sweep.name[1:]}}}' among the program's arguments")
    return sweeps


def arms_for(texts: list[str], first: str) -> list[str]:
    """Whom presets are about, where nobody names arms: a collector's knob is turned in the program as it ships, an allocator's in that
    allocator, beside the one that is `first` without it. Nothing where a sweep is no preset.
    """
    if not texts or not all(text in PRESETS for text in texts):
        return []
    heads = [line.partition("=")[0].partition(":") for text in texts for line in PRESETS[text]]
    named = [head for head, colon, _ in heads if colon]
    return list(dict.fromkeys([first, *named])) if named else [AS_SHIPPED]


def parse(text: str, arms: set[str]) -> Sweep:
    """One sweep; the words before its first `:` are an arm only if there is such an arm."""
    arm, rest = None, text
    head, colon, after = text.partition(":")
    if colon and "=" not in head:
        if head not in arms:
            raise unknown("arm in --sweep", head, arms, "name one of the arms that are compared, or compare it too (--arms)")
        arm, rest = head, after
    name, equals, template = rest.partition("=")
    braces = re.findall(r"\{[^{}]*\}", template)
    if not equals or not name or len(braces) != 1:
        if "=" not in text:
            raise unknown("sweep", text, PRESETS, "or write VARIABLE=text{VALUE,VALUE,...}")
        raise WrongUse(
            f"--sweep '{text}': expected [ARM:]VARIABLE=text{{VALUE,VALUE,...}} with exactly one pair of braces"
        )
    named = expand(braces[0][1:-1], text)
    values = (UNSET, *dict.fromkeys(v for v in named if v != UNSET))
    if not 1 < len(values) <= VALUES_MAX + 1:
        raise WrongUse(f"--sweep '{text}': expected 1 to {VALUES_MAX} values between the braces, got {len(values) - 1}")
    template = template.replace(braces[0], "{}")
    for value in values[1:] if name == "MORTISE_CONF" else ():
        conf.checked(template.replace("{}", value))
    return Sweep(arm, name, template, values, tuple(v for v in values if named.count(v) > 1))


def too_short(sweeps: list[Sweep]) -> list[str]:
    """One line for each sweep that cannot come to a law, before it is measured."""
    return [
        f"--sweep {sweep.name}: {len(sweep.values) - 1} value{'s' * (len(sweep.values) != 2)} and unset are {len(sweep.values)} points, and a "
        f"law needs {POINTS_MIN}: the values are compared with unset, no law is fitted"
        for sweep in sweeps
        if len(sweep.values) < POINTS_MIN
    ]


def unseen(texts: list[str], memory: str) -> list[str]:
    """One line for each preset whose effect the chosen memory would not show: what goes back earlier lowers no peak."""
    return [
        f"--sweep {text}: when memory is given back shows in its average, hardly in its peak: --mem avg"
        for text in texts
        if memory == "peak" and any(":" in line.partition("=")[0] for line in PRESETS.get(text, []))
    ]


def repeated(sweeps: list[Sweep]) -> list[str]:
    """One line for each sweep that names a value twice: somebody may have meant another."""
    return [
        f"--sweep {sweep.name}: {', '.join(sweep.named_again)} stand{'s' * (len(sweep.named_again) == 1)} there more than once and "
        f"{'is' if len(sweep.named_again) == 1 else 'are'} measured once"
        for sweep in sweeps
        if sweep.named_again
    ]


def expand(text: str, where: str) -> list[str]:
    """The values in their order, as they are named."""
    found: list[str] = []
    for piece in (p.strip() for p in text.split(",")):
        match = re.fullmatch(r"(-?[\d.]+)\.\.(-?[\d.]+)([*+])([\d.]+)", piece)
        found += range_of(match, where) if match else [piece] if piece else []
    return found


def range_of(match: re.Match, where: str) -> list[str]:
    try:
        low, high, step = float(match[1]), float(match[2]), float(match[4])
    except ValueError:
        raise WrongUse(f"--sweep '{where}': '{match[0]}' is not a range such as 20..320*2") from None
    if not (low <= high and (step > 1 and low > 0 if match[3] == "*" else step > 0)):
        raise WrongUse(f"--sweep '{where}': the range '{match[0]}' never reaches its end")
    found, value = [], low
    while value <= high * (1 + 1e-9) and len(found) <= VALUES_MAX:
        found.append(f"{value:g}")
        value = value * step if match[3] == "*" else value + step
    return found


def applied(sweep: Sweep, value: str, arm: Arm, argv: list[str]) -> tuple[dict[str, str], list[str]]:
    """The environment to add and the arguments to use for one point of a sweep."""
    if sweep.in_arguments:
        hole = "{" + sweep.name[1:] + "}"
        if value == UNSET:
            return {}, [word for word in argv if hole not in word]
        return {}, [word.replace(hole, sweep.template.format(value)) for word in argv]
    if value == UNSET:
        return {}, argv
    setting = sweep.template.replace("{}", value)
    if sweep.name in arm.env:  # the arm's own setting of the same variable stays in force in front of the knob
        setting = arm.env[sweep.name] + (":" if sweep.name == "GLIBC_TUNABLES" else ",") + setting
    return {sweep.name: setting}, argv


@dataclass(frozen=True)
class Place:
    """What runs once a round: an arm, at one value of its knob."""

    arm: Arm
    sweep: Sweep | None = None
    value: str = UNSET

    @property
    def knob(self) -> str | None:
        return None if self.value == UNSET else self.value

    @property
    def label(self) -> str:
        return self.arm.name if self.knob is None else f"{self.arm.name} at {self.knob}"

    @property
    def key(self) -> tuple[str, str | None]:
        return self.arm.name, self.knob


def places_of(arms: list[Arm], knobs: list[Sweep]) -> list[Place]:
    """Every arm unset, and at each value of the sweep that applies to it."""
    found = []
    for arm in arms:
        mine = next((s for s in knobs if s.applies_to(arm.name) and arm.name != CONTROL), None)
        # Who is not swept runs unset too, and so without the placeholder of someone else's sweep.
        still = next((s for s in knobs if s.in_arguments), None)
        found += [Place(arm, mine, value) for value in mine.values] if mine else [Place(arm, still)]
    return found
