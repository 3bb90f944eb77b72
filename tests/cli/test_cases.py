"""The cases of docs/compare.md that do their own arithmetic: if it were wrong, the guide's figures would be."""

import importlib.util
import json
import math
import os
import re
import subprocess
import sys

import pytest

from cli.conftest import ROOT, compile_c


def case(name: str):
    spec = importlib.util.spec_from_file_location(name, ROOT / f"cli/cases/{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def top_heap():
    return case("top_heap")


def test_growth_starts_from_a_common_left_end(top_heap):
    mib = 1 << 20
    found = {"next-fit": {"rss": [50 * mib, 80 * mib], "top_heap": [40 * mib, 90 * mib]}}
    assert top_heap.shifted([50, 80]) == [0, 30]
    said = top_heap.lines([10, 20], found)
    assert "RSS grew by 30.0 MiB, top_heap by 50.0 (+20.0)" in said[-1]
    figure = top_heap.figure([10, 20], found)
    assert [list(curve.y) for curve in figure.data] == [[0.0, 30.0], [0.0, 50.0]]


def test_the_runtimes_own_number_is_read_or_missed(top_heap):
    assert top_heap.top_heap_bytes("minor_words: 3\ntop_heap_words: 1000\n") == 8000
    with pytest.raises(SystemExit, match="no top_heap_words"):
        top_heap.top_heap_bytes("nothing of the kind")


def test_both_numbers_come_from_real_runs(top_heap, tmp_path):
    """A program that holds 32 MiB for each count, and says 28 of them of itself."""
    (tmp_path / "holds.c").write_text(
        "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"
        "int main(int c, char** v) { long n = c > 1 ? atol(v[1]) : 0; char* p = malloc(n << 25); memset(p, 1, n << 25);\n"
        '  fprintf(stderr, "top_heap_words: %ld\\n", (28 * n << 20) / 8 + p[5] - 1); }\n'
    )
    program = compile_c(tmp_path / "holds.c", tmp_path / "holds", "-fno-builtin")
    found = top_heap.measure([str(program)], [1, 3])
    for name in ("next-fit", "best-fit"):
        assert top_heap.shifted(found[name]["rss"])[1] == pytest.approx(64 << 20, abs=2 << 20)
        assert top_heap.shifted(found[name]["top_heap"])[1] == 56 << 20


def test_the_guides_pictures_are_drawn_from_what_was_measured(cli, tmp_path):
    measured, docs = tmp_path / "measured", tmp_path / "docs"
    measured.mkdir()
    options = ["--arms", "mine=env:A=1,other=env:A=2", "--sweep", "KNOB={3,4}", "--rounds", "2", "--warmup", "0"]
    cli("compare", *options, "--json", str(measured / "case.json"), "--", "sleep", "0.01")
    (measured / "ocaml_top_heap.json").write_text(
        json.dumps({"counts": [1, 2], "bytes": {"next-fit": {"rss": [1, 5 << 20], "top_heap": [1, 7 << 20]}}})
    )
    command = [sys.executable, str(ROOT / "cli/cases/pictures.py")]
    done = subprocess.run([*command, str(measured), str(docs)], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == [str(docs / "case.svg"), str(docs / "ocaml_top_heap.svg")], done.stderr
    case_drawn, heap_drawn = ((docs / name).read_text() for name in ("case.svg", "ocaml_top_heap.svg"))
    for word in ("mine", "other by default", "unset", "CPU time, s"):
        assert word in case_drawn, word
    assert "next-fit: RSS, says the OS" in heap_drawn
    subprocess.run([*command, str(measured), str(docs)], capture_output=True, check=True)
    assert (docs / "case.svg").read_text() == case_drawn, "what did not change is drawn the same"
    done = subprocess.run([*command, str(docs), str(docs)], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "run the cases first" in done.stderr


def test_the_guides_pictures_are_pictures():
    names = re.findall(r"\]\(figures/(\w+)\.svg\)", (ROOT / "docs/compare.md").read_text())
    assert {"ocaml_churn", "ocaml_coqc", "ocaml_top_heap", "go_gogc", "java_xmx", "node_semi_space", "jemalloc_decay"} <= set(names)
    for name in names:
        assert (ROOT / f"docs/figures/{name}.svg").read_text().startswith("<svg"), name


def test_a_case_that_does_not_exist_is_said_to_be_none():
    done = subprocess.run(["bash", str(ROOT / "cli/cases/run.sh"), "nothing"], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "no case 'nothing'" in done.stderr and "ocaml_churn" in done.stderr


def test_bars_are_measured_from_real_runs_in_slices(tmp_path, capsys, monkeypatch):
    bars = case("bars")
    for name, few in (("SESSIONS", 1), ("QUADS", 6), ("LAYER", {1: 2, 64: 6})):
        monkeypatch.setattr(bars, name, few)
    server = compile_c(ROOT / "cli/cases/server.c", tmp_path / "server")
    touch = compile_c(ROOT / "cli/cases/touch.c", tmp_path / "touch")
    programs = [f"{server} 1 2000 5 1000", f"{touch} 1"]
    bars.main([str(tmp_path), "3600", *programs])
    said = capsys.readouterr().out
    kept = json.loads((tmp_path / "bars.json").read_text())
    false = kept["itself"]["itself"]["endings"][0] in ("faster", "slower")  # once in a hundred sessions: that it is counted is tested here
    for part in ("touch: ratio", "duty_at_most", "one in 64: ns_per_call", f"false_verdicts {false:d}", "still_to_do 0"):
        assert part in said, part
    monkeypatch.setattr(bars, "QUADS", 8)
    bars.main([str(tmp_path), "3600", *programs, "sampling"])
    quads = json.loads((tmp_path / "bars.json").read_text())["sampling"]["server"]["quads"]
    assert quads[:6] == kept["sampling"]["server"]["quads"] and len(quads) == 8, "the next slice adds to the last"


def test_the_programs_of_collectors_print_the_same_whatever_the_knob(tmp_path):
    """A comparison checks that outputs agree; a program whose output moved with the knob would be refused for that."""
    subprocess.run(["javac", "-d", str(tmp_path), str(ROOT / "cli/cases/Churn.java")], check=True)
    programs = {"JAVA_TOOL_OPTIONS": (["java", "-cp", str(tmp_path), "Churn"], ("-Xmx64m", "-Xmx256m")),
                "NODE_OPTIONS": (["node", str(ROOT / "cli/cases/churn.js")], ("--max-semi-space-size=1", "--max-semi-space-size=32"))}  # fmt: skip
    for variable, (argv, values) in programs.items():
        said = set()
        for value in values:
            environment = os.environ | {variable: value}
            done = subprocess.run([*argv, "20000", "1000"], env=environment, capture_output=True, text=True, check=True)
            said.add(done.stdout)
        assert len(said) == 1 and len(said.pop().split()) == 3


def test_a_quad_cancels_what_drifts():
    """A machine that gets slower by the run, and a program that sampling costs 10 %: the quad says 10 %."""
    bars, number = case("bars"), 0

    def drifting(watched):
        nonlocal number
        number += 1
        return {"cpu_s": math.exp(0.05 * number) * (1.1 if watched else 1.0)}

    found = [bars.quad(drifting) for _ in range(8)]
    assert found == pytest.approx([math.log(1.1)] * 8)


def test_a_case_is_measured_in_slices(tmp_path):
    """What one slice measured is kept by the next; another command begins anew."""
    tree = tmp_path / "tree"
    (tree / "build/bin").mkdir(parents=True)
    (tree / "cli").symlink_to(ROOT / "cli")
    (tree / "cli2").mkdir()
    cases = tree / "cli2/cases"
    cases.mkdir()
    text = (ROOT / "cli/cases/run.sh").read_text()
    text = text.replace("known=$(", 'short() {\n  compare short 3 1 --arms "a=env:X=1,b=env:X=2" -- sleep "$LENGTH"\n}\nknown=$(')
    (cases / "run.sh").write_text(text)
    (tree / "build/bin/mortise").write_text(f'#!/bin/sh\nexec {sys.executable} {ROOT}/cli "$@"\n')
    (tree / "build/bin/mortise").chmod(0o755)

    def slice_of(seconds: int, length: str = "0.01") -> list[float]:
        environment = os.environ | {"CASE_BUDGET": f"{seconds}s", "LENGTH": length}
        done = subprocess.run(["bash", str(cases / "run.sh"), "short"], env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        said.append(done.stdout + done.stderr)
        cells = sorted((tree / "build/bench/compare/short").glob("cell-*.json"))
        return [json.loads(cell.read_text())["measured"]["created"] for cell in cells]

    said: list[str] = []
    assert slice_of(0) == [] and "nothing measured in 0s" in said[-1]
    (tree / "build/bench/compare/short").mkdir(parents=True, exist_ok=True)
    first = slice_of(3600)
    assert len(first) == 3 and "still to be measured" not in said[-1]
    for path in (tree / "build/bench/compare/short").glob("cell-00002.json"):
        path.unlink()
    assert slice_of(0)[:2] == first[:2] and "1 of 3 cells are still to be measured" in said[-1]
    assert slice_of(3600)[:2] == first[:2]
    assert json.loads((tree / "build/bench/compare/short.json").read_text())["control"]["time"]["rounds"] == 3
    assert slice_of(0, "0.02") == []
