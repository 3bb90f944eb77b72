"""Tools that run once and end: compilers, converters, solvers."""

import hashlib
import re
from pathlib import Path

from programs import inputs
from programs.registry import program
from programs.stage import Stage

SCRIPTS = Path(__file__).parent / "scripts"


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@program("sqlite3")
def sqlite3(stage: Stage) -> None:
    """A page cache of equal blocks beside strings that grow and move."""
    stage.run("sqlite3", ":memory:", f".read {SCRIPTS / 'tables.sql'}")


@program("clang")
def clang(stage: Stage) -> None:
    """Arenas of pages in a process of 150 MB, freed never or all at once; then a linker with a thread a core."""
    stage.run("clang-16", "--driver-mode=g++", "-O2", "-c", SCRIPTS / "words.cpp", "-o", "words.o")
    stage.run("ld.lld-16", "-r", "words.o", "-o", "all.o")
    stage.note("objects", output=digest(stage.room / "words.o") + "\n" + digest(stage.room / "all.o"))


@program("gcc")
def gcc(stage: Stage) -> None:
    """The driver starts compiler, assembler and linker, each a new process that must find the library again."""
    stage.run("g++", "-O2", "-pthread", SCRIPTS / "words.cpp", "-o", "words")
    stage.note("program", output=digest(stage.room / "words"))
    stage.run(stage.room / "words")


@program("git")
def git(stage: Stage) -> None:
    """Two threads search deltas with large windows of objects; many short processes; mapped packs."""
    def history(path: Path) -> None:
        stage.aside("git", "init", "-q", "--bare", "-b", "main", path)
        stage.aside("git", "-C", path, "fast-import", "--quiet", "--done", stdin=inputs.git_history(400, 200))

    source = stage.shelved("git", history)
    owned = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
    stage.run("git", "clone", "-q", "--bare", "--no-local", source, "copy", env=owned)
    stage.run("git", "-C", "copy", "-c", "pack.threads=2", "repack", "-adfq", "--depth=20", env=owned)
    stage.run("git", "-C", "copy", "log", "--stat", "-n", "150", env=owned)
    stage.run("git", "-C", "copy", "fsck", "--no-progress", env=owned)


@program("ffmpeg")
def ffmpeg(stage: Stage) -> None:
    """Frames of the same large size, aligned to 64, passed between threads; a hundred shared libraries."""
    video = "testsrc2=size=640x360:rate=30:duration=4"
    quiet = ("-nostdin", "-v", "error", "-bitexact", "-f", "lavfi")
    stage.run("ffmpeg", *quiet, "-i", video, "-c:v", "libx264", "-preset", "veryfast", "-threads", "2",
              "-f", "framemd5", "-")
    stage.run("ffmpeg", *quiet, "-i", "sine=duration=10", "-c:a", "libopus", "-f", "framemd5", "-")


def queens_placed(answer: str) -> str:
    """Which solution z3 finds hangs on the addresses of its nodes; that it is one does not."""
    if not answer.startswith("sat"):
        return answer
    rows = {int(queen): int(row) for queen, row in re.findall(r"define-fun q(\d+) \(\) Int\s+(\d+)", answer)}
    apart = all(rows[i] != rows[j] and abs(rows[i] - rows[j]) != i - j for i in rows for j in rows if j < i)
    return f"{answer.split()[0]}, {len(rows)} queens {'apart' if apart else 'in conflict'}"


@program("z3")
def z3(stage: Stage) -> None:
    """Millions of tiny nodes through its own counting wrapper."""
    stage.run("z3", stage.file("queens.smt2", inputs.queens(26)), keep=queens_placed)


@program("povray")
def povray(stage: Stage) -> None:
    """Scene trees shared by render threads; boost behind new and delete."""
    stage.file("scene.pov", inputs.spheres(3000))
    stage.run("povray", "+W240", "+H180", "+WT2", "-D", "-GA", "+FP", "+Iscene.pov", "+Oscene.ppm",
              keep=lambda text: "")
    pixels = (stage.room / "scene.ppm").read_bytes()[-240 * 180 * 3:]  # what is before them holds the time
    stage.note("picture", output=hashlib.sha256(pixels).hexdigest())


@program("imagemagick")
def imagemagick(stage: Stage) -> None:
    """Pixel caches of tens of megabytes by posix_memalign, OpenMP threads; its modules come by dlopen."""
    stage.run("convert", "-seed", "7", "-size", "900x900", "plasma:fractal", "-blur", "0x3", "-resize", "50%",
              "-rotate", "13", "-format", "%#", "info:")


@program("graphviz")
def graphviz(stage: Stage) -> None:
    """Small linked structures with long lives; plug-ins by dlopen, each with libraries of its own."""
    graph = stage.file("graph.dot", inputs.digraph(150, 250))
    stage.run("dot", "-Tsvg", graph)


@program("compressors")
def compressors(stage: Stage) -> None:
    """A few blocks of megabytes to a thread, made and dropped with each chunk of the input."""
    stage.file("input", inputs.text(120000))
    stage.run("xz", "-T2", "-1", "--block-size=1MiB", "-k", "input")
    stage.run("zstd", "-q", "-T2", "-9", "input", "-o", "input.zst")
    stage.run("pigz", "-p2", "-n", "-k", "input")
    stage.note("files", output="\n".join(digest(stage.room / f"input.{kind}") for kind in ("xz", "zst", "gz")))
    stage.run("xz", "-T2", "-d", "-c", "input.xz", keep=lambda text: hashlib.sha256(text.encode()).hexdigest())
    stage.run("zstd", "-q", "-T2", "-d", "-c", "input.zst", keep=lambda text: hashlib.sha256(text.encode()).hexdigest())
