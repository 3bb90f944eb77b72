"""Proof that a preloaded library was in every process of a run, read from what the dynamic loader itself writes.

With `LD_DEBUG=files` and `LD_DEBUG_OUTPUT=PREFIX` the loader of glibc writes `PREFIX.PID` in every dynamically linked
process it starts, with one line for each object it maps. The proof therefore needs no help from the library (it serves
any allocator) nor from the program (it may live for a millisecond, fork, or start others), and it names the file that
was mapped, which an environment variable does not: the loader goes on with a mere warning when it cannot preload.
"""

import re
from pathlib import Path

MAPPED = re.compile(r"file=(\S+) \[0\];\s+generating link map")
BOUND = re.compile(r"binding file \S+ \[0\] to (\S+) \[0\]: \w+ symbol `(\w+)'")
STARTED = re.compile(r"initialize program: (\S+)")


class Proof:
    """The traces that the loader leaves in `folder`; `environment` makes it write them."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.detail = "files"
        # Servers write here under another user, so everyone may.
        folder.mkdir()
        folder.chmod(0o777)

    @property
    def environment(self) -> dict[str, str]:
        return {"LD_DEBUG": self.detail, "LD_DEBUG_OUTPUT": str(self.folder / "trace")}

    def bindings(self) -> dict[str, set[str]]:
        """Which files serve each symbol, over all traces; only with `detail` "files,bindings"."""
        served: dict[str, set[str]] = {}
        for path in self.folder.glob("trace.*"):
            for file, symbol in BOUND.findall(path.read_text(errors="replace")):
                served.setdefault(symbol, set()).add(file)
        return served

    def missing(self, library: Path, pids: list[int]) -> list[str]:
        """Says, a line a process, which process ran without `library`. `pids` are those that must have left a trace."""
        traces = {int(path.suffix[1:]): path.read_text(errors="replace") for path in self.folder.glob("trace.*")}
        complaints = [f"process {pid} left no trace of the loader (static, set-uid, or it never started)"
                      for pid in pids if pid not in traces]
        for pid, trace in sorted(traces.items()):
            if str(library) not in MAPPED.findall(trace):
                names = STARTED.findall(trace) or ["a program that did not reach its start"]
                complaints.append(f"process {pid} ({', '.join(names)}) did not map {library}")
        return complaints


def maps_library(pid: int, library: Path) -> bool:
    """True when the running process `pid` has `library` mapped."""
    return any(line.rstrip().endswith(str(library)) for line in open(f"/proc/{pid}/maps", errors="replace"))
