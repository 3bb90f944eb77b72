"""The cases of docs/compare.md that do their own arithmetic: if it were wrong, the guide's figures would be."""

import importlib.util
import subprocess

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
    """A program that holds 8 MiB for each count, and says 7 of them of itself."""
    (tmp_path / "holds.c").write_text(
        "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"
        "int main(int c, char** v) { long n = c > 1 ? atol(v[1]) : 0; char* p = malloc(n << 23); memset(p, 1, n << 23);\n"
        '  fprintf(stderr, "top_heap_words: %ld\\n", (7 * n << 20) / 8 + p[5] - 1); }\n'
    )
    program = compile_c(tmp_path / "holds.c", tmp_path / "holds", "-fno-builtin")
    found = top_heap.measure([str(program)], [1, 3])
    for name in ("next-fit", "best-fit"):
        assert top_heap.shifted(found[name]["rss"])[1] == pytest.approx(16 << 20, abs=1 << 19)
        assert top_heap.shifted(found[name]["top_heap"])[1] == 14 << 20


def test_a_case_that_does_not_exist_is_said_to_be_none():
    done = subprocess.run(["bash", str(ROOT / "cli/cases/run.sh"), "nothing"], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "no case 'nothing'" in done.stderr and "ocaml_churn" in done.stderr


def test_bars_are_measured_from_real_runs(tmp_path, capsys, monkeypatch):
    bars = case("bars")
    monkeypatch.setattr(bars, "PAIRS", 6)
    monkeypatch.setattr(bars, "SESSIONS", 1)
    server = compile_c(ROOT / "cli/cases/server.c", tmp_path / "server")
    touch = compile_c(ROOT / "cli/cases/touch.c", tmp_path / "touch")
    bars.main([str(tmp_path), f"{server} 1 2000 5 1000", f"{touch} 1"])
    said = capsys.readouterr().out
    for part in ("touch: ratio", "duty_at_most", "one in 64: ns_per_call", "false_verdicts 0"):
        assert part in said, part
