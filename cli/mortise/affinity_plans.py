"""Plans of affinity pools: what runs found, by build id and offset, to be followed from the first object on.

A plan is text, a line a module and a line a node; `affinity/place/plan.hpp` describes it and reads it inside the allocator.
"""

import fcntl
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mortise import formats
from mortise.errors import WrongUse

FIRST_LINE = "mortise-affinity-plan 1"
NODES_MAX, MODULES_MAX = 32767, 255  # affinity/place/plan.hpp
SAMPLES_ENOUGH = 1000  # fewer tell nothing of what is cold
COLD_SHARE = 0.002  # of all samples: a profiled node below it stays in the pool of its size class

NODE = r"node class=(\d+) bytes=(\d+) objects=(\d+) heat=(\d+) pool=(\d+) chain=(\d+\+[0-9a-f]+(?:,\d+\+[0-9a-f]+)*)"

Chain = tuple[tuple[str, int], ...]  # (build id, offset), malloc's caller first
Key = tuple[int, Chain]  # size class, chain


@dataclass
class PlannedNode:
    """What is known of one allocation context."""

    bytes: int
    objects: int = 0
    heat: int = 0
    pool: int = 0  # 0: its size class's


@dataclass
class AffinityPlan:
    """What runs found, addresses as build id and offset: it holds wherever modules are loaded."""

    modules: dict[str, str] = field(default_factory=dict)  # build id: path
    nodes: dict[Key, PlannedNode] = field(default_factory=dict)
    pairs: dict[tuple[Key, Key], int] = field(default_factory=dict)

    def text(self) -> str:
        """As much of it as the library takes; what was found first is kept."""
        asked = {b for _, chain in self.nodes for b, _ in chain}
        used = [build_id for build_id in self.modules if build_id in asked][:MODULES_MAX]
        number = {build_id: i for i, build_id in enumerate(used, 1)}
        kept = [key for key in self.nodes if all(b in number for b, _ in key[1])][:NODES_MAX]
        order = {key: i for i, key in enumerate(kept, 1)}
        pools = {0: 0}
        lines = [FIRST_LINE, *(f"module {number[b]} {b} {self.modules[b]}" for b in used)]
        for size_class, chain in kept:
            n = self.nodes[size_class, chain]
            pool = pools.setdefault(n.pool, len(pools))
            places = ",".join(f"{number[b]}+{offset:x}" for b, offset in chain)
            lines.append(
                f"node class={size_class} bytes={n.bytes} objects={n.objects} heat={n.heat} pool={pool} chain={places}"
            )
        lines += [f"pair {order[a]} {order[b]} {n}" for (a, b), n in self.pairs.items() if a in order and b in order]
        return "\n".join([*lines, ""])


def read(path: Path) -> AffinityPlan:
    """A plan file, refused in one line that names what is wrong with it."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as e:
        raise WrongUse(f"cannot read the plan '{path}': {e}") from None
    plan, numbers, keys = AffinityPlan(), {}, []
    if not lines or lines[0] != FIRST_LINE:
        raise WrongUse(f"'{path}' is no plan: expected '{FIRST_LINE}' in its first line; name another file to make one")
    for at, line in enumerate(lines[1:], 2):
        if not line or line.startswith("#"):
            continue
        try:
            if module := re.fullmatch(r"module (\d+) ([0-9a-f]+) (.+)", line, re.ASCII):
                numbers[module[1]] = module[2]
                plan.modules[module[2]] = module[3]
            elif pair := re.fullmatch(r"pair ([1-9]\d*) ([1-9]\d*) (\d+)", line, re.ASCII):
                plan.pairs[keys[int(pair[1]) - 1], keys[int(pair[2]) - 1]] = int(pair[3])
            elif node := re.fullmatch(NODE, line, re.ASCII):
                chain = tuple(
                    (numbers[m], int(offset, 16)) for m, offset in (p.split("+") for p in node[6].split(","))
                )
                keys.append((int(node[1]), chain))
                plan.nodes[keys[-1]] = PlannedNode(*(int(node[i]) for i in (2, 3, 4, 5)))
            else:
                raise ValueError(line)
        except (KeyError, IndexError, ValueError):
            raise WrongUse(f"'{path}' line {at} is not of a plan: '{line[:60]}'; delete the file to make it anew") from None
    return plan


def from_process(process: dict[str, Any]) -> AffinityPlan:
    """What one process found. Nodes in code made at run time, or in modules without a build id, cannot be named and are left out."""
    plan = AffinityPlan()
    modules = [m for m in process["modules"] if m["loaded"] and m["build_id"]]
    heat = {h["node"]: h["samples"] for h in process.get("heat", [])}
    groups = {s["node"]: s["group"] for s in process.get("shape", [])}
    by_id: dict[int, Key] = {}

    def place(address: int) -> tuple[str, int] | None:
        for m in modules:
            if m["first"] <= address < m["last"]:
                plan.modules.setdefault(m["build_id"], m["path"])
                return m["build_id"], address - m["bias"]
        return None

    pools: dict[int, int] = {}
    for n in process["nodes"]:
        chain = [place(c["address"] if isinstance(c, dict) else c) for c in n["chain"]]
        if not n["pool"] or None in chain:
            continue
        key = (n["bytes"] // 16, tuple(c for c in chain if c))
        by_id[n["id"]] = key
        pool = pools.setdefault(groups.get(n["id"], n["root"]), len(pools) + 1) if n["own_pool"] else 0
        plan.nodes[key] = PlannedNode(n["bytes"], n["counted"], heat.get(n["id"], 0), pool)
    for p in process.get("pair", []):
        if p["a"] in by_id and p["b"] in by_id:
            plan.pairs[by_id[p["a"]], by_id[p["b"]]] = p["count"]
    return plan


def merged(old: AffinityPlan, new: AffinityPlan) -> AffinityPlan:
    """Both runs' nodes: what either put together stays together. A module whose path now has another build id is replaced."""
    paths = {path: build_id for build_id, path in new.modules.items()}
    gone = {b for b, path in old.modules.items() if path in paths and paths[path] != b}
    kept = {k: n for k, n in old.nodes.items() if not any(b in gone for b, _ in k[1])}
    together = {n.pool: n.pool for n in kept.values() if n.pool}
    shift = max(together, default=0)
    together |= {n.pool + shift: n.pool + shift for n in new.nodes.values() if n.pool}

    def leader(pool: int) -> int:
        while together[pool] != pool:
            pool = together[pool]
        return pool

    out = AffinityPlan({b: p for b, p in old.modules.items() if b not in gone} | new.modules)
    for key, n in kept.items():
        out.nodes[key] = PlannedNode(n.bytes, n.objects, n.heat, n.pool)
    for key, n in new.nodes.items():
        pool = n.pool + shift if n.pool else 0
        if (before := out.nodes.get(key)) is None:
            out.nodes[key] = PlannedNode(n.bytes, n.objects, n.heat, pool)
            continue
        if before.pool and pool and leader(before.pool) != leader(pool):
            together[leader(pool)] = leader(before.pool)
        before.pool = before.pool or pool
        before.objects = max(before.objects, n.objects)
        before.heat += n.heat
    renumber: dict[int, int] = {}
    for n in out.nodes.values():
        if n.pool:
            n.pool = renumber.setdefault(leader(n.pool), len(renumber) + 1)
    for key, count in [*old.pairs.items(), *new.pairs.items()]:
        if key[0] in out.nodes and key[1] in out.nodes:
            out.pairs[key] = out.pairs.get(key, 0) + count
    return out


def cooled(plan: AffinityPlan) -> AffinityPlan:
    """After a profile: pools whose nodes are hardly ever visited give their objects back to the size class."""
    total = sum(n.heat for n in plan.nodes.values())
    if total < SAMPLES_ENOUGH:
        return plan
    heat: dict[int, int] = {}
    for n in plan.nodes.values():
        heat[n.pool] = heat.get(n.pool, 0) + n.heat
    for n in plan.nodes.values():
        if n.pool and heat[n.pool] < COLD_SHARE * total:
            n.pool = 0
    return plan


def update(path: Path, processes: list[dict[str, Any]]) -> AffinityPlan:
    """Brings the plan at `path`, made if there is none, up to date with what a run found."""
    with alone(path):
        plan = read(path) if path.exists() and path.stat().st_size else AffinityPlan()
        for process in processes:
            plan = merged(plan, from_process(process))
        plan = cooled(plan)
        put(path, plan.text())
    return plan


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Who brings the same plan up to date meanwhile waits, and begins with what we leave."""
    with ExitStack() as opened:
        with suppress(OSError):  # what cannot be locked, or not be opened: writing says so
            file = opened.enter_context(path.open("a"))
            fcntl.flock(file, fcntl.LOCK_EX)
            while not os.path.samestat(os.fstat(file.fileno()), path.stat()):  # replaced while we waited
                file = opened.enter_context(path.open("a"))
                fcntl.flock(file, fcntl.LOCK_EX)
        yield


def put(path: Path, text: str) -> None:
    """Whole or not at all: a program that starts meanwhile follows the plan that was there."""
    path = path.resolve()
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        if not path.is_file():
            raise OSError
        fresh.write_text(text, encoding="utf-8")
        shutil.copymode(path, fresh)
        fresh.replace(path)
    except OSError:  # a folder that takes no new file, or something that is no file
        fresh.unlink(missing_ok=True)
        formats.write(path, text)
