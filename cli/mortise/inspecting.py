"""Statistics of a running process, read from outside: no signal, no thread and no page of its own is needed for it."""

import json
import os
import subprocess
from dataclasses import dataclass
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

from mortise import formats, home
from mortise.errors import CannotWork, WrongUse

NO_RIGHT, TRY_AGAIN, OTHER_FILE, NO_PROFILE = 3, 4, 5, 6  # mortise-peek's exit statuses
TRIES = 5
RIGHTS = (
    "be its user where kernel.yama.ptrace_scope is 0, or root, or start it with MORTISE_CONF=inspect=1 "
    "(in a container: run this inside it, or from the host as root)"
)


@dataclass(frozen=True)
class Mapping:
    """A library of ours in a process: its file, where that starts, and the piece it was found by."""

    path: str
    base: str
    piece: str


def process(pid: int) -> dict[str, Any]:
    """Everything that the mortise libraries in process `pid` say of themselves (schema mortise.process/1)."""
    libraries = [read(pid, mapping) for mapping in mappings(pid)]
    if not libraries:
        raise CannotWork(
            f"process {pid} ({program(pid)}) does not run on a mortise allocator that can be read: "
            "start it with 'mortise run -- PROG', then ask again; one that is linked in prints its own (MORTISE_STATS=exit)"
        )
    return {"schema": formats.PROCESS, "pid": pid, "program": program(pid), "libraries": libraries}


def program(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return "?"
    return words[0].decode(errors="replace") or "?"


def mappings(pid: int) -> list[Mapping]:
    """Libraries that export a descriptor of a heap, whatever a user has called them. O(bytes of the libraries)."""
    try:
        lines = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="replace").splitlines()
    except (FileNotFoundError, ProcessLookupError):
        raise WrongUse(f"there is no process {pid}: 'pgrep -a NAME' finds the number of a program") from None
    except PermissionError:
        raise CannotWork(f"no right to look into process {pid}: {RIGHTS}") from None
    found: dict[str, Mapping] = {}
    for line in lines:
        parts = line.split(maxsplit=5)
        if len(parts) < 6 or int(parts[2], 16) != 0:
            continue
        path = parts[5].removesuffix(" (deleted)")
        if ".so" in Path(path).name and path not in found:
            found[path] = Mapping(parts[5], parts[0].split("-")[0], parts[0])
    return [mapping for mapping in found.values() if describes_a_heap(pid, mapping)]


def file_of(pid: int, mapping: Mapping) -> Path:
    """The file as this process can open it: it may lie in another mount namespace, or have been replaced since."""
    inside = Path(f"/proc/{pid}/root") / mapping.path.lstrip("/")
    if not mapping.path.endswith(" (deleted)") and inside.is_file():
        return inside
    return Path(f"/proc/{pid}/map_files") / mapping.piece


def describes_a_heap(pid: int, mapping: Mapping) -> bool:
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    try:
        with file_of(pid, mapping).open("rb") as file:
            with mmap(file.fileno(), 0, access=ACCESS_READ) as text:
                if text.find(b"mortise_descriptor") < 0:  # as for nearly all: reading symbols takes long
                    return False
            table = ELFFile(file).get_section_by_name(".dynsym")
            return table is not None and bool(table.get_symbol_by_name("mortise_descriptor"))
    except (ELFError, ValueError):  # an empty file cannot be mapped
        return False
    except OSError as e:
        if not Path(mapping.path).name.startswith("libmortise"):
            return False
        raise CannotWork(
            f"cannot open {mapping.path} of process {pid}: {e.strerror}; where the file was replaced, be root"
        ) from None


def read(pid: int, mapping: Mapping) -> dict[str, Any]:
    """What one library says."""
    said: dict[str, Any] = json.loads(peek(pid, mapping))
    said["library"] = mapping.path
    said["resident_bytes"] = resident(pid, said["window_start"], said["window_bytes"])
    return said


def profile_text(pid: int) -> str:
    """The heap profile of a process whose allocator keeps one, as the library writes it."""
    for mapping in mappings(pid):
        if text := peek(pid, mapping, "profile"):
            return text
    raise CannotWork(
        f"process {pid} ({program(pid)}) keeps no heap profile: start it with 'mortise run --alloc hslab_profiled -- PROG'"
    )


def peek(pid: int, mapping: Mapping, *what: str) -> str:
    """What mortise-peek prints; nothing where the allocator keeps no such thing. A heap that changes much while it is read is read again."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("MORTISE_", "LD_"))}
    command = [str(home.helper("mortise-peek")), str(pid), str(file_of(pid, mapping)), mapping.base, *what]
    for _ in range(TRIES):
        done = subprocess.run(command, env=clean, capture_output=True, text=True, errors="surrogateescape", check=False)
        if done.returncode == 0:
            return done.stdout
        if done.returncode == NO_PROFILE:
            return ""
        if done.returncode == NO_RIGHT:
            raise CannotWork(f"no right to read the memory of process {pid}: {RIGHTS}")
        if done.returncode == OTHER_FILE:
            reason = " ".join(done.stderr.split())
            raise CannotWork(f"cannot read {mapping.path} of process {pid}: {reason}; restart it, then ask again")
    raise CannotWork(f"the heap of process {pid} changed too much in each of {TRIES} readings: try again")


def resident(pid: int, start: int, length: int) -> int | None:
    """Bytes between `start` and `start + length` that are in memory."""
    total, ours = 0, False
    try:
        with Path(f"/proc/{pid}/smaps").open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                first = line.split(maxsplit=1)[0]
                if "-" in first and not first.endswith(":"):
                    ours = start <= int(first.split("-")[0], 16) < start + length
                elif ours and first == "Rss:":
                    total += int(line.split()[1]) * 1024
    except OSError:
        return None
    return total


def fragmentation(said: dict[str, Any]) -> float | None:
    """The share of resident memory that holds no live block."""
    held = said["resident_bytes"]
    return None if not held else max(0.0, 1 - said["live_bytes"] / held)
