"""Turning a knob: the grammar that users type, and what comes of it. Without the unset point a sweep compares settings
with each other and never with what the user has today.
"""

import json
import os
import re

import jsonschema
import pytest
from mortise import sweeps
from mortise.arms import Arm
from mortise.errors import WrongUse

from cli.conftest import compile_c
from cli.test_commands import schema

ARMS = {"glibc", "jemalloc", "best"}


@pytest.mark.parametrize(
    "text, arm, name, values",
    (
        ("GOGC={25,50,100}", None, "GOGC", ("unset", "25", "50", "100")),
        ("OCAMLRUNPARAM=o={20..320*2}", None, "OCAMLRUNPARAM", ("unset", "20", "40", "80", "160", "320")),
        ("best:OCAMLRUNPARAM=a=2,o={20,40}", "best", "OCAMLRUNPARAM", ("unset", "20", "40")),
        (
            "jemalloc:MALLOC_CONF=dirty:{unset,0,10},muzzy:0",
            "jemalloc",
            "MALLOC_CONF",
            ("unset", "0", "10"),
        ),
        ("@heap={1..9+4}", None, "@heap", ("unset", "1", "5", "9")),
        ("X={5,5,unset,5}", None, "X", ("unset", "5")),
    ),
)
def test_the_grammar_always_adds_unset(text, arm, name, values):
    sweep = sweeps.parse(text, ARMS)
    assert (sweep.arm, sweep.name, sweep.values) == (arm, name, values)


@pytest.mark.parametrize("preset", sweeps.PRESETS)
def test_every_preset_is_a_sweep_of_at_least_five_values(preset):
    for text in sweeps.PRESETS[preset]:
        head = text.split(":")[0]
        assert len(sweeps.parse(text, {head} | ARMS).values) >= 6


@pytest.mark.parametrize(
    "texts, arms",
    (
        (["ocaml"], ["as-shipped"]), (["java"], ["as-shipped"]), (["jemalloc"], ["glibc", "jemalloc"]), (["mortise"], ["glibc", "hslab"]),
        (["glibc"], ["glibc"]), (["jemalloc", "mimalloc"], ["glibc", "jemalloc", "mimalloc"]), (["GOGC={1,2}"], []), ([], []),
    ),
)  # fmt: skip
def test_a_preset_knows_whom_it_is_about(texts, arms):
    """Else who types `--sweep go` on a static program is refused, and `--sweep ocaml` measures every allocator at every value."""
    assert sweeps.arms_for(texts, "glibc") == arms


def test_a_knob_that_the_peak_does_not_show_is_said_to_be_one():
    (said,) = sweeps.unseen(["jemalloc", "ocaml", "K={1,2}"], "peak")
    assert said.startswith("--sweep jemalloc: ") and said.endswith("--mem avg")
    assert sweeps.unseen(["jemalloc"], "avg") == []


def test_a_preset_needs_no_arms(cli, static_program):
    done = cli("compare", "--sweep", "go", "--rounds", "1", "--warmup", "0", "--", str(static_program))
    assert done.returncode in (0, 3) and "as-shipped" in done.stdout, done.stderr


@pytest.mark.parametrize(
    "text, said",
    (
        ("GOGC=100", "exactly one pair of braces"), ("A={1}{2}", "exactly one pair of braces"), ("A={}", "got 0"),
        ("gogo", "did you mean 'go'"), ("jemaloc:A={1}", "did you mean 'jemalloc'"), ("A={9..1*2}", "never reaches"),
        ("A={1..9*1}", "never reaches"), ("A={1..2..3}", ""), ("A={0..100000+1}", "1 to 64"),
        ("@heap={1,2}", "no '{heap}'"),
    ),
)  # fmt: skip
def test_wrong_sweeps_are_refused_in_one_line(cli, text, said):
    if not said:
        assert sweeps.parse(text, ARMS).values == ("unset", "1..2..3")
        return
    assert said in cli.refused(2, "compare", "--arms", "glibc,jemalloc=env:X=1", "--sweep", text, "--", "true")


def test_one_knob_an_arm(cli):
    line = cli.refused(
        2, "compare", "--arms", "glibc,toy", "--sweep", "A={1,2}", "--sweep", "toy:B={1,2}", "--", "true"
    )
    assert "two sweeps" in line


def test_what_a_point_sets():
    arm = Arm("best", "environment", env={"OCAMLRUNPARAM": "a=2"})
    sweep = sweeps.parse("OCAMLRUNPARAM=o={20}", ARMS)
    assert sweeps.applied(sweep, "20", arm, ["p"]) == ({"OCAMLRUNPARAM": "a=2,o=20"}, ["p"])
    assert sweeps.applied(sweep, "unset", arm, ["p"]) == ({}, ["p"])
    inside = sweeps.parse("@heap={20}", ARMS)
    assert sweeps.applied(inside, "20", arm, ["p", "--heap={heap}m"]) == ({}, ["p", "--heap=20m"])
    assert sweeps.applied(inside, "unset", arm, ["p", "--heap={heap}m"]) == ({}, ["p"])


KNOB = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* Keeps to mem = c + b / (time - a): KNOB is the memory given, work is what that memory saves. SCALE scales both, so that
   less of it is better everywhere by a factor that no other program beside can undo. */
int main(void) {
  const char* knob = getenv("KNOB");
  double megabytes = knob ? atof(knob) : 16, scale = getenv("SCALE") ? atof(getenv("SCALE")) : 1;
  if (megabytes < 2) { fprintf(stderr, "heap too small\\n"); return 3; }
  size_t bytes = (size_t)((megabytes + 8) * scale * 1048576);
  char* block = malloc(bytes);
  if (block == NULL) return 1;
  memset(block, 1, bytes);
  volatile unsigned long sum = 0;
  for (long i = 0; i < (long)((2e7 + 6.4e8 / megabytes) * scale); i++) sum += (unsigned long)block[i & 4095];
  puts(sum ? "done" : "nothing");
  return 0;
}
"""


@pytest.fixture(scope="session")
def knob(tmp_path_factory):
    folder = tmp_path_factory.mktemp("knob")
    (folder / "knob.c").write_text(KNOB)
    return compile_c(folder / "knob.c", folder / "knob")


def trusted(cli, out, *words):
    """A comparison whose control saw no ghost. One in some hundred does by chance, and then there is no verdict: it is made once more."""
    for _ in range(4):
        done = cli("compare", "--json", str(out), *words)
        if json.loads(out.read_text())["conclusion"]["control_trusted"]:
            break
    return done


def test_a_sweep_on_real_runs(cli, knob, tmp_path):
    out, page = tmp_path / "out.json", tmp_path / "out.html"
    arms = ["--arms", "plain=env:SCALE=1,lean=env:SCALE=0.4", "--sweep", "KNOB={1,4,8,16,32,64,128}", "--rounds", "8", "--budget", "1h"]
    done = trusted(cli, out, *arms, "--html", str(page), "--seed", "2", "--", str(knob))
    document = json.loads(out.read_text())
    jsonschema.validate(document, schema("compare"))
    for name in ("plain", "lean"):
        curve = document["curves"][name]
        assert [p["knob"] for p in curve["points"]] == ["unset", "4", "8", "16", "32", "64", "128"]
        assert "exit status 3" in curve["died"]["1"], "a value at which the program dies is a result"
        assert document["arms"][name]["died"]["1"]["deaths"] == 3 and document["arms"][name]["failure"] is None
    assert document["dominance"]["lean"]["verdict"] == "dominates", document["dominance"]
    assert "curves: lean dominates plain" in done.stdout and done.returncode == 0
    assert "by default" in page.read_text()
    row = next(line for line in done.stdout.splitlines() if line.split()[:1] == ["64"])
    assert len(re.findall(r"[\d.]+ (?:ms|s), [\d.]+ MiB", row)) == 2, "every point of both curves is in the table"
    assert re.search(r"^ 1 +fails +fails", done.stdout, re.M) and "| 1 | fails | fails |" in cli(
        "compare", "--replay", str(out), "--markdown", "-"
    ).stdout  # fmt: skip
    again = cli("compare", "--replay", str(out), "--json", str(tmp_path / "again.json"))
    assert again.stdout == done.stdout
    assert (tmp_path / "again.json").read_bytes() == out.read_bytes()


def test_a_knob_of_the_arguments_and_a_single_arm(cli, tmp_path):
    out = tmp_path / "out.json"
    options = ["--sweep", "@n={1,2}", "--check", "exit", "--rounds", "2", "--json", str(out)]
    done = cli("compare", "--arms", "glibc", *options, "--", "sh", "-c", "echo $0 $#", "a", "-n{n}")
    document = json.loads(out.read_text())
    assert done.returncode == 3 and "control" not in document
    assert [p["knob"] for p in document["curves"]["glibc"]["points"]] == ["unset", "1", "2"]
    assert "distinct points" in document["curves"]["glibc"]["why_not"]


def test_too_few_values_for_a_law_are_said_before_measuring(cli, churn):
    """A sweep may take minutes: that its values are too few is known before the first of them."""
    short = "--sweep A: 3 values and unset are 4 points, and a law needs 5: the values are compared with unset, no law is fitted"
    command = ["compare", "--rounds", "1", "--arms", "glibc"]
    said = cli(*command, "--sweep", "A={1,2,3}", "--", str(churn)).stderr
    assert short in said and said.index(short) < said.index("running ")
    assert "a law needs" not in cli(*command, "--sweep", "A={1,2,3,4}", "--", str(churn)).stderr


def test_a_value_that_is_named_twice_is_measured_once_and_said_to_be(cli, churn):
    words = ("compare", "--arms", "glibc,toy", "--rounds", "1", "--check", "exit")
    said = cli(*words, "--sweep", "X={2,1..3+1,3,7}", "--", str(churn), "2000")
    assert "--sweep X: 2, 3 stand there more than once and are measured once" in said.stderr and "unset are 5 points" not in said.stderr
    said = cli(*words, "--sweep", "X={1,1}", "--", str(churn), "2000")
    assert "--sweep X: 1 stands there more than once and is measured once" in said.stderr
    assert "once and" not in cli(*words, "--sweep", "X={1,2,unset}", "--", str(churn), "2000").stderr


def test_gates(cli, churn, tmp_path):
    words = [
        "--check",
        "exit",
        "--rounds",
        "12",
        "--arms",
        f"few=cmd:{churn} 1000 4",
        "--arms",
        f"many=cmd:{churn} 900000 8",
    ]
    for gate, status in (
        ("many slower 50%", 4),
        ("many larger 10%", 4),
        ("many slower 100000%", 0),
        ("many faster 5%", 0),
        ("many smaller 5%", 0),
    ):
        done = trusted(cli, tmp_path / "o.json", *words, "--fail-if", gate, "--", str(churn))
        assert done.returncode == status, (gate, done.stdout)
        assert f"gate '{gate}': {'hit' if status else 'clear'}" in done.stdout
        jsonschema.validate(json.loads((tmp_path / "o.json").read_text()), schema("compare"))
    assert "did you mean 'many'" in cli.refused(2, "compare", *words, "--fail-if", "mny slower 1%", "--", str(churn))
    assert "expected for example" in cli.refused(2, "compare", *words, "--fail-if", "many bad", "--", str(churn))


def test_parse_all_needs_arms_that_exist():
    with pytest.raises(WrongUse):
        sweeps.parse_all(["nobody:X={1}"], [Arm("a", "shipped")], ["p"])
    assert os.environ.get("KNOB") is None


def test_few_rounds_of_a_point_carry_no_verdict_on_curves():
    """One run a point resamples to itself: an interval without width would name a winner."""
    import numpy as np
    from mortise import curve_report, curves

    def shape(scale, rounds):
        return [curves.Point(str(k), np.full(rounds, scale * (1 + 8 / k)), np.full(rounds, scale * (20.0 + k))) for k in (2, 4, 8, 16, 32)]

    few = curve_report.comparison(shape(0.7, 1), shape(1.0, 1), 1)
    enough = curve_report.comparison(shape(0.7, 5), shape(1.0, 5), 1)
    assert few["verdict"] == "cannot tell" and enough["verdict"] == "dominates"
    assert few["reach"] == "" and enough["reach"]


@pytest.mark.parametrize("rounds", (3, 5))
def test_few_rounds_of_a_point_carry_no_law(rounds):
    import numpy as np
    from mortise import curve_report, curves

    random = np.random.default_rng(1)
    shape = [curves.Point(str(u), 0.5 * (1 + u) * random.normal(1, 0.002, rounds), 2e7 * (1 + 1 / u) * random.normal(1, 0.002, rounds))
             for u in (0.1, 0.2, 0.4, 0.7, 1, 2, 4)]  # fmt: skip
    report = curve_report.curve({"died": {}}, shape, 1)
    assert (report["law"] is None) == (rounds == 3)
    assert report["why_not"] == ("no law from 3 rounds of every point: 5 are needed" if rounds == 3 else "")


@pytest.mark.parametrize("values", ("4,8,32,64,128", "16"))
def test_a_sweep_of_two_rounds_cannot_tell(cli, knob, values):
    """Whatever the knob did to two runs, and where it did nothing: no value is called better, and none not better."""
    done = cli("compare", "--arms", "glibc", "--sweep", f"KNOB={{{values}}}", "--rounds", "2", "--", str(knob))
    verdict = next(line for line in done.stdout.splitlines() if line.startswith("verdict: "))
    assert done.returncode == 3 and verdict.startswith("verdict: can't tell: glibc"), done.stdout
    assert "no value was" not in done.stdout and "memory = c + b" not in done.stdout
