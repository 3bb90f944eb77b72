"""`mortise compare` as a whole, on real runs: what it promises in its JSON, its table and its exit status."""

import json
import re

import jsonschema
import pytest
from mortise import faults
from mortise.launching import Outcome
from mortise.session import Settings

from cli.conftest import compile_c
from cli.test_commands import schema


@pytest.fixture
def compare(cli, tmp_path):
    """Runs a short comparison and returns what the process said and the document it wrote."""

    def run(*words, budget="1h", rounds="10"):
        path = tmp_path / "out.json"
        done = cli("compare", "--budget", budget, "--rounds", rounds, "--seed", "1", "--json", str(path), *words)
        document = json.loads(path.read_text()) if path.exists() and path.stat().st_size else None
        if document is not None:
            jsonschema.validate(document, schema("compare"))
        return done, document

    return run


def test_everything_promised_is_in_the_document(compare, churn, toy):
    done, document = compare("--arms", "glibc,toy", "--", str(churn), "20000", "3")
    assert done.returncode in (0, 3), done.stderr
    assert document["reference"] == "glibc" and list(document["arms"]) == ["glibc", "toy"]
    for name, entry in document["arms"].items():
        assert entry["served"] == 1 and entry["failure"] is None
        kinds = [run["kind"] for run in entry["runs"]]
        assert kinds.count("time") == 10 and kinds.count("memory") >= 3 and kinds.count("warmup") == 1
        assert all(run["served"] == 1 for run in entry["runs"]), name
    versus = document["arms"]["toy"]["vs_reference"]
    assert versus["time"]["low"] <= versus["time"]["ratio"] <= versus["time"]["high"]
    assert versus["memory"]["ratio"] == pytest.approx(1, abs=0.2)
    assert document["arms"]["toy"]["malloc_from"] == [str(toy)]
    assert document["arms"]["toy"]["medians"]["peak_rss_bytes"] > 3 << 20
    assert document["control"]["time"]["rounds"] == 10
    for part in ("glibc", "toy", "100 %", "control:", "verdict:"):
        assert part in done.stdout


def test_rounds_are_shuffled_and_every_arm_takes_part_once(compare, churn):
    _, document = compare("--arms", "glibc,toy,other=env:X=1", "--", str(churn))
    orders = set()
    for number in range(1, 11):
        places = {
            name: run["position"]
            for name, entry in [*document["arms"].items(), ("control", document["control"])]
            for run in entry["runs"]
            if run["kind"] == "time" and run["round"] == number
        }
        assert sorted(places.values()) == [0, 1, 2, 3]
        orders.add(tuple(sorted(places, key=places.__getitem__)))
    assert len(orders) > 3


def test_padding_differs_from_run_to_run(compare, churn):
    """LD_PRELOAD changes the size of the environment, which shifts the stack: a bias unless every run is shifted at
    random.
    """
    _, document = compare("--arms", "glibc,toy", "--", str(churn))
    paddings = [run["padding"] for entry in document["arms"].values() for run in entry["runs"]]
    assert len(set(paddings)) > len(paddings) // 2 and max(paddings) < 4096


def test_another_output_is_a_row_with_the_reason(compare, tmp_path):
    done, document = compare("--arms", "one=env:WHAT=1,two=env:WHAT=2", "--", "sh", "-c", "echo $WHAT")
    assert done.returncode == 1
    assert [bool(entry["failure"]) for entry in document["arms"].values()].count(True) == 1
    assert "printed something else" in done.stdout
    done, _ = compare("--check", "exit", "--arms", "one=env:WHAT=1,two=env:WHAT=2", "--", "sh", "-c", "echo $WHAT")
    assert done.returncode in (0, 3)


def test_a_command_may_say_what_must_agree(compare, cli):
    """Programs print times and addresses too: a filter keeps what is the same in every run of a sound program."""
    arms = ["--arms", "one=env:WHAT=1,two=env:WHAT=2", "--", "sh", "-c", "echo took $WHAT s; echo the result"]
    done, document = compare("--check", "grep -v took", *arms, rounds="2")
    assert [entry["failure"] for entry in document["arms"].values()] == [None, None], done.stdout
    done, document = compare("--check", "grep took", *arms, rounds="2")
    assert done.returncode == 1 and "something else than the first run behind 'grep took'" in str(document["arms"])
    done, document = compare("--check", "grep nothing || { echo no result >&2; exit 3; }", *arms, rounds="2")
    assert done.returncode == 1 and "ended with status 3: no result" in document["arms"]["one"]["failure"]
    assert "expected stdout, exit, or a command" in cli.refused(2, "compare", "--check", "no-such-filter -x", *arms)


def test_the_sentence_says_what_a_user_with_no_time_needs(churn):
    """Faster and smaller, faster and larger, only smaller: each its words, and numbers only where the intervals carry them."""
    from cli.test_plans import node
    from mortise import analysis

    def said(time, *memory):
        cell = node("here", time, 1.0, 0)["measured"]
        for arm, megabytes in zip(cell["arms"].values(), memory, strict=True):
            arm["runs"] += [run | {"kind": "memory"} for run in arm["runs"]]
            for run in arm["runs"]:
                run["peak_rss_bytes"] = megabytes << 20
        return analysis.conclude(cell)["conclusion"]["sentence"]

    assert said(0.8, 100, 60) == "b takes 20 % less time than a (between 20 % and 20 %), and 40 % less memory"
    assert said(0.8, 100, 150).endswith(", and 50 % more memory")
    assert said(0.8, 100, 100).endswith(", and no more memory")
    assert said(1.2, 100, 60) == "nothing here is faster than a. b holds the least memory: 40 % less than a"
    assert said(1.2, 100, 100) == "nothing here is faster than a"
    assert said(1.2, 100, 150) == "nothing here is faster than a. a holds the least memory"
    assert said(1.001, 100, 100) == "nothing here is faster than a by more than 2.0 %"


def test_a_number_that_the_control_alone_fails_to_print_costs_the_control_only(compare, tmp_path):
    """The reference's second run prints nothing once: a row less to believe in, not a broken report."""
    script = f'n=$(cat {tmp_path}/n 2>/dev/null || echo 0); echo $((n + 1)) > {tmp_path}/n; [ $n -gt 3 ] || echo rate 5'
    done, document = compare("--metric-regex", r"rate (\d+)", "--check", "exit", "--arms", "a=env:X=1,b=env:X=2", "--", "sh", "-c", script)
    assert "Traceback" not in done.stderr and done.returncode == 1
    assert document["control"]["failure"] or any(entry["failure"] for entry in document["arms"].values())


def test_few_rounds_say_nothing_of_the_machine(compare, churn):
    """One pair has an interval without width: not a difference that this machine sees where there is none."""
    done, _ = compare("--arms", "glibc,toy", "--", str(churn), "1000", rounds="1")
    assert "over 1 round: too few to say what this machine can see" in done.stdout and "no interval from one round" in done.stdout
    assert "in one round, which gives no interval" in done.stdout and not re.search(r"itself x[\d.]+ \[", done.stdout)
    assert "outside the interval" not in done.stdout


def test_another_status_and_a_crash_are_rows_with_the_reason(compare):
    done, document = compare("--arms", "good=env:CODE=0,bad=env:CODE=5", "--", "sh", "-c", "exit $CODE")
    assert done.returncode == 1 and "exit status" in done.stdout
    assert document["arms"]["bad"]["failure"] in (None, "ended with exit status 5, where the first run ended with exit status 0")
    done, document = compare("--arms", "good=env:HOW=0,bad=env:HOW=SEGV", "--", "sh", "-c", "kill -$HOW $$")
    assert done.returncode == 1 and document["arms"]["bad"]["failure"].startswith("was ended by SIGSEGV")


@pytest.mark.parametrize("warmup", ("0", "1"))
def test_it_is_the_reference_that_all_others_must_do_as(cli, tmp_path, warmup):
    """Where another arm, or a value that the program dies of, came first by chance, the reference was called wrong, and everything failed."""
    path, program = tmp_path / "o.json", ["--", "sh", "-c", "[ $X != 2 ] || exit 3; [ \"$Y\" != 1 ] || exit 4"]
    for seed in range(4):
        words = ["compare", "--rounds", "1", "--warmup", warmup, "--seed", str(seed), "--json", str(path)]
        cli(*words, "--arms", "good=env:X=1,bad=env:X=2", *program)
        arms = json.loads(path.read_text())["arms"]
        assert arms["good"]["failure"] is None and arms["bad"]["failure"] == "ended with exit status 3, where the first run ended with exit status 0"
        cli(*words, "--arms", "good=env:X=1", "--sweep", "Y={1,2}", *program)
        arm = json.loads(path.read_text())["arms"]["good"]
        assert arm["failure"] is None and list(arm["died"]) == ["1"]


def test_what_ends_otherwise_is_told_with_what_the_first_run_did():
    """'Ended with exit status 0' alone is no reason that anybody would understand."""
    outcome = Outcome({"exit_status": 0}, b"", "", "", [], [], 0)
    assert faults.find(Settings(), faults.Expected(134), outcome) == "ended with exit status 0, where the first run was ended by SIGABRT"
    outcome.facts["exit_status"], outcome.stderr_tail = 134, "double free\n"
    assert faults.find(Settings(), faults.Expected(134), outcome) == "was ended by SIGABRT: double free"


def test_an_arm_that_serves_nothing_is_not_a_tie(compare, foreign_toy):
    """A library that the loader passes over changes nothing: three such arms would look like a tie."""
    done, document = compare("--arms", f"glibc,{foreign_toy}", "--", "ls", "/")
    assert done.returncode == 1 and "was not served" in document["arms"][str(foreign_toy)]["failure"]


def test_who_clears_the_environment_is_not_served(compare, churn, toy):
    """Such a wrapper is itself on every arm's malloc, and what does the work on none: a tie of nobody with nobody."""
    done, document = compare("--arms", "glibc,toy", "--", "env", "-i", churn, "400000")
    assert done.returncode == 1
    assert re.search(rf"was not served: \d+(\.\d)? % of the CPU time is that of {churn}, where LD_PRELOAD did not arrive", document["arms"]["toy"]["failure"])
    half = f"{churn} 400000 4; env -i {churn} 400000 40; exit 0"
    done, document = compare("--arms", "glibc,toy", "--", "sh", "-c", half, rounds="2")
    assert 0.1 < document["arms"]["toy"]["served"] < 0.9 and document["arms"]["toy"]["failure"] is None
    assert re.search(rf"warning: \d+ % of the CPU time had no arm's malloc, most of it that of {churn}, where", done.stdout), done.stdout
    assert re.search(rf"warning: 4\d(\.\d)? MiB were held without any arm's malloc by {churn}, where", done.stdout), done.stdout
    assert "served only" not in done.stdout


def test_a_program_that_fails_in_every_run_is_said_to(compare, churn):
    """All arms fail alike, so outputs agree: without the line a mistyped argument is a verdict on error messages."""
    warning = "warning: sh ended with status 7 in every run: what was compared is how it fails; check its arguments"
    fails = ["--arms", "a=env:X=1,b=env:X=2"], ["--", "sh", "-c", "exit 7"]
    assert warning in compare(*fails[0], *fails[1])[0].stdout
    assert "in every run" not in compare(*fails[0], "--check", "cat", *fails[1])[0].stdout
    assert "in every run" not in compare(*fails[0], "--", str(churn), "1000")[0].stdout


def test_without_its_reference_a_comparison_ends(compare, tmp_path):
    """Nothing pairs any more: it would go on for all of its budget, and ask for more."""
    often = f'test "$REFERENCE" || exit 0; echo x >> {tmp_path}/runs; test $(wc -l < {tmp_path}/runs) -lt 6'
    done, document = compare("--check", "exit", "--arms", "a=env:REFERENCE=1,b=env:OTHER=1", "--", "sh", "-c", often, rounds="60")
    assert done.returncode == 1 and document["arms"]["a"]["failure"].startswith("ended with exit status 1, where the first run")
    assert max(run["round"] for run in document["arms"]["b"]["runs"]) <= 3
    assert document["conclusion"]["sentence"].endswith("failed: a") and "more rounds" not in document["conclusion"]["sentence"]


def test_a_program_that_leaves_processes_is_said_to(compare, churn):
    """What is compared of a daemon is how it starts."""
    warning = "warning: 1 process went on when the program had ended, and no figure holds what that would have done: have it stay in the"
    arms = ["--arms", "a=env:X=1,b=env:X=2", "--"]
    assert warning in compare(*arms, "sh", "-c", "setsid sleep 600 & sleep 0.1")[0].stdout
    assert "went on" not in compare(*arms, "sh", "-c", "true & wait")[0].stdout


def test_a_static_program_compares_by_environment_only(compare, cli, static_program):
    assert "preloading cannot work" in cli.refused(3, "compare", "--arms", "glibc,toy", "--", str(static_program))
    done, document = compare("--arms", "one=env:X=1,two=env:X=2", "--", str(static_program))
    assert done.returncode in (0, 3) and document["arms"]["one"]["served"] is None


def test_other_programs_are_arms(compare, churn):
    done, document = compare(
        "--arms",
        f"few=cmd:{churn} 100",
        "--arms",
        f"many=cmd:{churn} 100",
        "--",
        "unused-because-every-arm-names-one",
    )
    assert done.returncode == 2
    done, document = compare(
        "--check", "exit", "--arms", "glibc", "--arms", f"many=cmd:{churn} 400000", "--", str(churn), "100"
    )
    assert document["arms"]["many"]["vs_reference"]["time"]["ratio"] > 1.5
    assert document["arms"]["many"]["vs_reference"]["time"]["verdict"] == "slower"


def test_the_programs_own_number(compare):
    done, document = compare(
        "--metric-regex",
        r"rate (\d+)",
        "--check",
        "exit",
        "--arms",
        "low=env:R=100,high=env:R=150",
        "--",
        "sh",
        "-c",
        "echo rate $R",
    )
    result = document["arms"]["high"]["vs_reference"]["time"]
    assert result["ratio"] == pytest.approx(100 / 150, rel=1e-4) and result["verdict"] == "faster"
    assert "x1.500 [1.500,1.500]" in done.stdout
    said = done.stdout.partition("verdict: ")[2]
    # What follows the comma is of memory: two arms of one shell may differ there by chance, though rarely.
    assert said.startswith("high has a number of its own that is 50 % more than low (between 50 % and 50 %), ")
    assert "less" not in said.partition("), ")[0] and said.count("\n") == 1
    _, document = compare("--metric-regex", r"(\S+) bytes", "--arms", "a=env:X=1,b=env:X=2", "--", "echo", "1,234,567.5 bytes", rounds="1")
    assert document["arms"]["a"]["runs"][0]["metric"] == 1234567.5
    done, document = compare(
        "--metric-regex", r"nothing (\d+)", "--arms", "low=env:R=1,high=env:R=1", "--", "sh", "-c", "echo rate $R"
    )
    assert done.returncode == 1 and "printed nothing that" in document["arms"]["low"]["failure"]


RATES = """
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
int main(int count, char** values) {
  int file = open(values[1], O_WRONLY | O_APPEND | O_CREAT, 0600);
  long number = write(file, ".", 1) == 1 ? lseek(file, 0, SEEK_END) : 0;
  printf("rate %ld of %d\\n", 100 * (number % 3 + 1), count);
  if (number % 2) puts("odd 5");
}
"""


def test_where_main_is_repeated_its_number_is_the_mean_of_all(compare, tmp_path):
    """100, 200 and 300 in turn: the first alone would be any of them."""
    (tmp_path / "rates.c").write_text(RATES)
    program = [str(compile_c(tmp_path / "rates.c", tmp_path / "rates")), str(tmp_path / "file")]
    words = ["--repeat-inside", "3", "--check", "exit", "--rounds", "4", "--arms", "a=env:X=1,b=env:X=2"]
    _, document = compare("--metric-regex", r"(?:rate|of) (\d+)", *words, "--", *program)
    found = {kind: {r["metric"] for r in document["arms"]["a"]["runs"] if r["kind"] == kind} for kind in ("time", "memory")}
    assert found["time"] == {200.0} and found["memory"] <= {100.0, 200.0, 300.0}
    done, document = compare("--metric-regex", r"odd (\d)", *words, "--", *program)
    assert done.returncode == 1
    assert re.search(r"printed [12] numbers that 'odd .* in 3 repetitions of main: expected equally many", document["arms"]["a"]["failure"])


def test_a_number_that_is_not_above_zero_is_none(compare):
    for said in ("rate 0", "rate -5", "rate nan", "rate 1,5", "rate 12,3456", "rate 0,125"):
        done, document = compare("--metric-regex", r"rate (\S+)", "--arms", "a=env:X=1,b=env:X=2", "--", "echo", said)
        assert done.returncode == 1 and "as a number above 0" in document["arms"]["a"]["failure"], said


def test_a_number_of_which_no_ratio_can_be_made_is_none(compare):
    """Ten of the first are too many for a mean, and one of the others is no number any more where less is better."""
    for said in ("rate 1e308", "rate 1e-320", "rate 1e101"):
        done, document = compare("--metric-regex", r"rate (\S+)", "--rounds", "10", "--arms", "a=env:X=1,b=env:X=2", "--", "echo", said)
        assert done.returncode == 1 and "Warning" not in done.stderr, done.stderr
        assert "expected a number from 1e-100 to 1e+100" in document["arms"]["a"]["failure"], said


def test_a_program_whose_name_has_two_lines_is_served(compare, churn, tmp_path):
    for name in ("two\nlines", "a\ttab", "a\u2028separator"):
        (tmp_path / name).write_bytes(churn.read_bytes())
        (tmp_path / name).chmod(0o755)
        _, document = compare("--rounds", "1", "--arms", "glibc,toy", "--", tmp_path / name)
        assert [(entry["failure"], entry["served"]) for entry in document["arms"].values()] == [(None, 1.0)] * 2, name


def test_a_memory_difference_is_found(compare, churn):
    done, document = compare(
        "--check",
        "exit",
        "--arms",
        f"small=cmd:{churn} 10 80",
        "--arms",
        f"large=cmd:{churn} 10 120",
        "--",
        str(churn),
    )
    memory = document["arms"]["large"]["vs_reference"]["memory"]
    assert memory["ratio"] == pytest.approx(1.5, rel=0.03) and memory["verdict"] == "slower"


def test_the_budget_is_kept(compare, cli, churn):
    """Counted in runs, each of which takes 0.3 seconds at least: on a busy machine they are fewer, never more."""
    done, document = compare("--arms", "one=env:X=1,two=env:X=2", "--", "sleep", "0.3", budget="6s", rounds="200")
    runs = [run for entry in (*document["arms"].values(), document["control"]) for run in entry["runs"]]
    assert 0.3 * len(runs) <= 6 * 1.1
    assert done.returncode == 3


def test_what_cannot_be_resolved_is_said_with_what_can(compare, cli, tmp_path):
    """A tenth of a percent from runs that differ by percents: no word, but how much these rounds would show, and how many are missing.
    Of times that were measured one comparison in a hundred would find a difference; these are given.
    """
    _, document = compare("--resolve", "0.1%", "--arms", "a=env:X=1,b=env:X=2", "--", "sleep", "0.05", rounds="10")
    for turn, entry in enumerate((*document["arms"].values(), document["control"])):
        for run in entry["runs"]:
            run["cpu_s"] = 0.001 * (1 + (7 * run["round"] + 4 * turn) % 10 / 200)
    (tmp_path / "given.json").write_text(json.dumps(document))
    done = cli("compare", "--replay", str(tmp_path / "given.json"), "--json", str(tmp_path / "again.json"))
    document = json.loads((tmp_path / "again.json").read_text())
    assert document["arms"]["b"]["vs_reference"]["time"]["verdict"] == "cannot tell" and done.returncode == 3
    assert re.search(r"0\.10? % cannot be resolved in these rounds, [\d.]+ % can", done.stdout), done.stdout
    assert re.search(r"about \d+ more rounds would be needed", done.stdout), done.stdout


def test_replay_says_the_same(compare, cli, churn, tmp_path):
    done, _ = compare("--arms", "glibc,toy", "--html", str(tmp_path / "a.html"), "--", str(churn), "5000")
    again = cli(
        "compare",
        "--replay",
        str(tmp_path / "out.json"),
        "--json",
        str(tmp_path / "b.json"),
        "--html",
        str(tmp_path / "b.html"),
    )
    assert again.stdout == done.stdout and again.returncode == done.returncode
    assert (tmp_path / "b.json").read_bytes() == (tmp_path / "out.json").read_bytes()
    assert (tmp_path / "b.html").read_bytes() == (tmp_path / "a.html").read_bytes()


def test_json_and_markdown_on_stdout_stand_alone(cli, churn):
    done = cli("compare", "--rounds", "2", "--arms", "glibc,toy", "--json", "-", "--", str(churn))
    jsonschema.validate(json.loads(done.stdout), schema("compare"))
    done = cli("compare", "--rounds", "2", "--arms", "glibc,toy", "--markdown", "-", "--", str(churn))
    assert done.stdout.startswith("**`mortise compare -- ") and "| toy | 100 % |" in done.stdout


def test_nothing_is_claimed_from_few_rounds(compare, churn):
    done, document = compare("--arms", "glibc,toy", "--", str(churn), "1000", rounds="3")
    assert document["arms"]["toy"]["vs_reference"]["time"]["verdict"] == "cannot tell"
    assert done.returncode == 3 and "can't tell" in done.stdout
