"""Interpreters and run-times."""

from pathlib import Path

from programs.registry import program
from programs.stage import Stage

SCRIPTS = Path(__file__).parent / "scripts"


@program("nodejs")
def nodejs(stage: Stage) -> None:
    """A big C++ program with its own collector: buffers outside it, worker threads that come and go, a thread pool."""
    stage.run("node", SCRIPTS / "buffers.js")


@program("python3")
def python3(stage: Stage) -> None:
    """With its own small-object pools off, every object is a malloc; two threads; extensions opened by dlopen."""
    stage.run("python3", SCRIPTS / "documents.py", env={"PYTHONMALLOC": "malloc"})


@program("ruby")
def ruby(stage: Stage) -> None:
    """Frees come in sweeps of the collector, on whichever thread triggers it; asks malloc_usable_size."""
    stage.run("ruby", "-rjson", SCRIPTS / "documents.rb")


@program("java")
def java(stage: Stage) -> None:
    """A JVM: arenas of the compiler threads, native buffers freed by another thread, many mappings and signals."""
    classes = stage.shelved("java", lambda path: stage.aside("javac", "-d", path, SCRIPTS / "Deflate.java"))
    stage.run("java", "-XX:+UseSerialGC", "-Xmx256m", "-cp", classes, "Deflate")


@program("php")
def php(stage: Stage) -> None:
    """Opens its extensions with RTLD_DEEPBIND: who does not see to it gets glibc's free for its own blocks."""
    stage.run("php", SCRIPTS / "strings.php", env={"USE_ZEND_ALLOC": "0"})
    stage.run("php", "-r", "echo array_sum(range(1, 100000)), PHP_EOL;")


@program("perl")
def perl(stage: Stage) -> None:
    """Many small blocks of few sizes, freed all at once; realloc of growing strings; fork without exec."""
    stage.run("perl", SCRIPTS / "hashes.pl")


@program("lua")
def lua(stage: Stage) -> None:
    """One realloc function for everything: tiny blocks, arrays that double, an incremental collector."""
    stage.run("lua5.4", SCRIPTS / "tables.lua")


@program("gawk")
def gawk(stage: Stage) -> None:
    """A stream of reallocs to slightly larger sizes."""
    numbers = "".join(f"{i}\n" for i in range(1, 600001))
    stage.run("gawk", "-f", SCRIPTS / "strings.awk", stdin=numbers.encode())


@program("rust")
def rust(stage: Stage) -> None:
    """A program of Rust's standard library: exact sizes, aligned requests, vectors freed by their receiver."""
    built = stage.shelved("rust", lambda path: stage.aside("rustc", "-O", "-o", path / "table", SCRIPTS / "table.rs"))
    stage.run(built / "table")
