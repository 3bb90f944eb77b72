"""Affinity pools end to end, on programs as they are. If one of these failed, what is visited together would lie apart, what is not would
be mixed, or a program would not run as it does without."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import jsonschema
import pytest

from mortise import affinity_plans, chains, shape
from support.allocators import BUILD, ROOT, program, run

NAME = "hslab+affinity"
SCHEMA = json.loads((ROOT / "docs/schemas/affinity.json").read_text())


@pytest.fixture
def watch(tmp_path):
    """Runs a command on affinity pools, looked at from its first object on, and gives what it did and the dump of its largest process."""

    def watched(*command, conf="", **more):
        for old in tmp_path.glob("dump.*"):
            old.unlink()
        env = {"MORTISE_CONF": f"affinity_dump={tmp_path}/dump.%p,affinity_misses=1,{conf}".rstrip(",")} | more.pop("env", {})
        done = run(command, NAME, env=env, **more)
        return done, chains.documents(tmp_path)[0]

    return watched


def pools(found):
    """Contexts by pool: what lies together."""
    together = {}
    for n in found["nodes"]:
        if n["pool"]:
            together.setdefault(n["pool"], []).append(n)
    return sorted(together.values(), key=lambda nodes: (-len(nodes), nodes[0]["bytes"]))


def analysis(found):
    return found["analysis"][0]


def test_an_unrolled_tree_is_one_pool_and_lists_behind_a_wrapper_are_two(watch):
    done, found = watch(program("affinity", "unrolled"))
    assert done.ok().out == run([program("affinity", "unrolled")]).out
    assert len({n["chain"][0] for n in found["nodes"] if n["bytes"] == 32}) > 8, "the compiler made one allocation many"
    tree, *lists = pools(found)
    assert {n["bytes"] for n in tree} == {32} and len(tree) > 8, "every copy of the allocation feeds one pool"
    assert sorted(len(nodes) for nodes in lists) == [1, 1], "two lists of one size behind one wrapper stay apart"
    assert {len(n["chain"]) for nodes in lists for n in nodes} == {2}, "the chain goes through the wrapper to who called it"
    assert {m["why"] for m in found["merge"]} == {"type I"}
    assert len(pools(watch(program("affinity", "unrolled"), conf="affinity_mode=chain")[1])) > 8, "it is the graph that joins them"


def test_callers_are_looked_for_on_a_coroutines_stack_and_not_behind_it():
    for _ in range(3):
        assert run([program("affinity", "coroutines")], NAME).ok().out == "back\n"


def test_a_short_program_is_not_looked_at_and_a_long_one_is(watch):
    objects = "local t = {{}} for i = 1, {} do t[i] = {{}} end"
    done, found = watch("lua", "-e", objects.format(100), conf="affinity_misses=33")
    assert done.ok().err == "" and not found["nodes"] and found["run"]["misses"] == 0
    done, found = watch("lua", "-e", objects.format(100000), conf="affinity_misses=33")
    assert done.ok().err == "" and pools(found)
    assert watch("lua", "-e", objects.format(100))[1]["nodes"], "one that is looked at from the first miss on"


def test_pairs_allocated_in_turn_and_linked_share_lines(watch):
    done, found = watch(program("affinity", "pairs"))
    done.ok()
    assert [m["why"] for m in found["merge"]] == ["co-allocated"]
    assert len(pools(found)) == 1
    cell, patient = sorted(n["id"] for n in found["nodes"] if n["pool"])
    offsets = {(e["from"], e["to"]): e["offset"] for e in found["edge"]}
    assert offsets[cell, patient] == 8, "the field that points to the patient"
    chains.name_places(found)
    names = {v["name"] for v in shape.graph(found)["variables"] if v["type"] == "global"}
    assert "head" in names, "the head of the list is a global, and has its name"


def test_nodes_of_one_size_that_lead_to_each_other_through_a_third_share_a_pool_and_two_lists_of_one_owner_do_not(watch):
    done, found = watch(program("affinity", "branches"))
    assert done.ok().out == run([program("affinity", "branches")]).out
    assert [m["why"] for m in found["merge"]] == ["one structure"]
    both, *others = pools(found)
    assert {n["bytes"] for n in both} == {48} and len(both) == 2, "elements and texts, in the order of the document"
    assert sorted((len(nodes), nodes[0]["bytes"]) for nodes in others) == [(1, 80), (1, 96), (1, 96)]


def test_an_object_and_the_one_part_it_gets_much_later_share_a_pool_and_tables_of_parts_and_an_index_of_older_ones_do_not(watch):
    for what, merges, pooled in [("nodes", ["own part"], 1), ("tables", [], 2), ("index", [], 2)]:
        done, found = watch(program("affinity", "late_parts"), what)
        assert done.ok().out == run([program("affinity", "late_parts"), what]).out
        assert [m["why"] for m in found.get("merge", [])] == merges
        assert len(pools(found)) == pooled


@pytest.mark.parametrize("mixing", ["off", "parts", "chains"])
def test_an_object_and_its_part_of_another_size_share_a_pool_where_that_is_asked_for(watch, mixing):
    done, found = watch(program("affinity", "parts"), conf=f"affinity_mixing={mixing}")
    assert done.ok().out == run([program("affinity", "parts")]).out
    sizes = sorted(sorted({n["bytes"] for n in nodes}) for nodes in pools(found))
    assert sizes == {"off": [[32], [48], [64], [96]], "parts": [[32, 48], [64], [96]], "chains": [[32, 48], [64, 96]]}[mixing]
    mixed = {m["why"] for m in found.get("merge", [])} - {"type I", "type II"}
    assert mixed == {"off": set(), "parts": {"part"}, "chains": {"part", "same chain"}}[mixing]


def test_a_half_empty_pool_is_given_up_and_full_ones_are_not(watch):
    done, found = watch(program("affinity", "sparse"))
    assert done.ok().out == run([program("affinity", "sparse")]).out
    assert analysis(found)["folded_back"] == 1
    by_pool = [n for n in found["nodes"] if n["pool"]]
    given_up = [n for n in by_pool if not n["own_pool"]]
    assert len(by_pool) == 24 and [n["id"] for n in given_up] == [1], "the kind of which one in fifty is left, and no other"


@pytest.mark.parametrize("conf", ["", "affinity_overhead=1"], ids=["pools", "overhead"])
def test_a_size_that_one_group_has_for_itself_is_not_looked_up_until_another_comes(watch, conf):
    """Or programs whose objects are all of one kind would pay for nothing, or kinds that come later would lie mixed."""
    alone, together = (watch(program("affinity", "phases"), *counts, conf=conf) for counts in (("400000", "0"), ("200000", "900000")))
    for done, counts in ((alone[0], ("400000", "0")), (together[0], ("200000", "900000"))):
        assert done.ok().out == run([program("affinity", "phases"), *counts]).out
    assert (alone[1]["run"]["classes_closed"], alone[1]["run"]["classes_opened"]) == (1, 0)
    assert alone[1]["run"]["misses"] < 2000
    assert together[1]["run"]["classes_opened"] == together[1]["run"]["classes_closed"] >= 1, "it stays open"
    assert sorted(n["own_pool"] for n in together[1]["nodes"] if n["bytes"] == 48 and n["pool"]) == [True, True]


@pytest.mark.parametrize("items", [50000, 80000, 100000, 150000, 200000, 400000])
def test_a_group_that_finds_room_in_its_pool_does_not_come_and_go(watch, items):
    """Wherever in a round it is looked at. Or its objects would take the memory of two pools, and a size that it has for itself would be
    looked up for good."""
    done, found = watch(program("affinity", "rounds"), "30", str(items))
    assert done.ok().out == run([program("affinity", "rounds"), "30", str(items)]).out
    assert found["run"]["classes_opened"] >= 1
    assert found["run"]["classes_closed"] == found["run"]["classes_opened"] + 1
    assert found["run"]["contexts_passing"] == 0


def test_what_comes_and_goes_shares_a_pool_until_it_stays(watch):
    """Or each kind of short-lived objects would keep a line of its own warm; or what stays later would lie mixed."""
    for counts, own, apart, sampled in ((("100000", "0"), [False] * 4 + [True], 2, 1), (("100000", "60000"), [True] * 3, 3, 3)):
        done, found = watch(program("affinity", "passing"), *counts)
        assert done.ok().out == run([program("affinity", "passing"), *counts]).out
        contexts = [n for n in found["nodes"] if n["bytes"] == 64 and n["pool"]]
        assert sorted(n["own_pool"] for n in contexts) == own, "the two that do not allocate again have none"
        assert len({n["pool"] for n in contexts}) == apart
        assert found["run"]["contexts_passing"] >= 4
        assert found["run"]["contexts_staying"] == (4 if all(own) else 0)
        assert analysis(found)["first"] == sampled, "what comes and goes is not looked at before it stays"


PROGRAMS = {
    "lua": ["lua5.4", "-e", "local function t(d) return d>0 and {t(d-1),t(d-1),k=d} or {} end local r=t(11) print(#r)"],
    "perl": ["perl", "-e", "my %h; for my $i (1..20000){ push @{$h{$i%997}}, {k=>$i, n=>qq(name$i)}; } print scalar(keys %h), qq(\\n)"],
    "python": ["python3", "-c", "d=[{'k':i,'s':str(i)*3,'l':[i,(i,)]} for i in range(20000)]; print(len(d))"],
    "sqlite": ["sqlite3", ":memory:", "create table t(a,b); with recursive c(i) as (select 1 union all select i+1 from c where i<20000) "
               "insert into t select i, 'row'||i from c; create index x on t(b); select count(*) from t where b>'row5';"],
    "gawk": ["gawk", "BEGIN { for (i=0;i<30000;i++) a[i%999, i%7] = a[i%999, i%7] i; n=0; for (k in a) n++; print n }"],
    "dot": ["dot", "-Tplain", "-o/dev/null", "{folder}/graph.dot"],
    "g++": ["g++", "-O1", "-std=c++20", "-S", "-o", "/dev/null", "{folder}/unit.cpp"],
}  # fmt: skip


def test_two_thirds_of_first_allocations_give_an_edge(watch, tmp_path, capsys):
    """Over the program set; a first allocation is the first of a context that is analysed."""
    (tmp_path / "graph.dot").write_text("digraph {" + "".join(f"a{i} -> a{i * 7 % 60}; a{i} -> a{(i + 1) % 60};" for i in range(60)) + "}")
    (tmp_path / "unit.cpp").write_text("#include <map>\n#include <string>\n#include <vector>\nstd::map<std::string, std::vector<int>> m;\n"
                                       "int main() { m[\"a\"].push_back(1); return m.size(); }\n")
    first = edges = 0
    lines = []
    for name, command in PROGRAMS.items():
        assert shutil.which(command[0]), f"{command[0]} is missing: run packaging/setup.sh programs"
        words = [word.format(folder=tmp_path) if "{folder}" in word else word for word in command]
        env = {"PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0"}
        done, found = watch(*words, env=env)
        plain = run(words, env=env)
        assert (done.status, done.out) == (plain.status, plain.out), name
        a = analysis(found)
        first, edges = first + a["first"], edges + a["first_with_edge"]
        lines.append(f"{name}: {a['first_with_edge']} of {a['first']}, {a['steps']} steps")
    with capsys.disabled():
        print(f"\nfirst allocations with an edge: {edges} of {first} = {100 * edges / first:.1f} % ({'; '.join(lines)})")
    assert first > 100 and edges >= 0.65 * first


def test_what_the_analysis_costs_is_bounded_and_counted(watch):
    _, found = watch(program("affinity", "unrolled"))
    a = analysis(found)
    nodes = [s for s in found["shape"] if s["runs"]]
    assert a["runs"] == sum(s["runs"] for s in nodes) == sum(a["stops"].values()) and max(s["runs"] for s in nodes) <= 2
    assert 0 < a["steps"] <= 200 * a["runs"] and 0 <= a["decoded"] <= a["steps"] + a["flow_instructions"]
    assert watch(program("affinity", "unrolled"), conf="affinity_mode=chain")[1]["analysis"][0]["runs"] == 0


# -- plans


def test_a_plan_pools_from_the_first_object_without_analysis(watch, tmp_path):
    command = program("affinity", "unrolled")
    _, found = watch(command)
    plan = tmp_path / "p.plan"
    affinity_plans.update(plan, [found])
    again, planned = watch(command, conf=f"affinity_plan={plan}")
    assert again.ok().err == ""
    assert (analysis(planned)["runs"], analysis(planned)["steps"], analysis(planned)["first"]) == (0, 0, 0)
    assert [len(p) for p in pools(planned)] == [len(p) for p in pools(found)], "the same contexts share the same pools"
    assert max(n["counted"] for n in planned["nodes"] if n["own_pool"]) <= 1, "no object went elsewhere before"
    before = plan.read_text()
    affinity_plans.update(plan, [planned])
    names = [line.split("chain=")[1] for line in before.splitlines() if "chain=" in line]
    assert [line.split("chain=")[1] for line in plan.read_text().splitlines() if "chain=" in line] == names


def test_a_plan_is_found_where_the_program_was_started(watch, tmp_path):
    """It was looked for when it was first needed, by then perhaps from another folder."""
    affinity_plans.update(tmp_path / "p.plan", [watch(program("affinity", "elsewhere"))[1]])
    done, planned = watch(program("affinity", "elsewhere"), conf="affinity_plan=p.plan", cwd=tmp_path)
    assert done.ok().err == "" and analysis(planned)["runs"] == 0 and planned["nodes"]


def test_a_plan_for_another_build_is_refused_and_the_program_runs(watch, tmp_path):
    plan = tmp_path / "p.plan"
    _, found = watch(program("affinity", "unrolled"))
    for m in found["modules"]:
        m["build_id"] = m["build_id"][::-1]
    affinity_plans.update(plan, [found])
    done, fresh = watch(program("affinity", "unrolled"), conf=f"affinity_plan={plan}")
    assert done.ok().err == (f"mortise: affinity_plan={plan}: made for another build of unrolled; make it again with mortise affinity "
                             "--plan; running without it\n")
    assert analysis(fresh)["runs"] > 0, "it is analysed as if there were no plan"


# -- profile


def test_a_profile_finds_the_list_that_is_walked(watch):
    done, found = watch(program("affinity", "unrolled"), "12", "8000", conf="affinity_profile=2000")
    done.ok()
    heat = {h["node"]: h["samples"] for h in found["heat"]}
    hottest = max(heat, key=lambda n: heat[n])
    chain = next(n for n in found["nodes"] if n["id"] == hottest)
    assert chain["bytes"] == 48 and heat[hottest] >= 0.8 * sum(heat.values()), "the tree and the other list are visited once"
    assert found["profile"][0]["samples"] >= found["profile"][0]["in_nodes"] >= sum(heat.values()) > 0


def test_children_of_a_program_that_is_sampled_end_and_tell_of_their_own_samples(tmp_path):
    """A fork amid a sample left a child that waited for ever for its end; and its parent's samples were counted twice."""
    conf = f"affinity_dump={tmp_path}/dump.%p,affinity_misses=1,affinity_mode=chain,affinity_profile=2000"
    done = run([program("affinity", "forks")], NAME, env={"MORTISE_CONF": conf}, timeout=120)
    assert done.ok().out == "0 failed\n"
    parent, *children = sorted((chains.read(path) for path in tmp_path.glob("dump.*")), key=lambda d: d["run"]["pid"])
    samples = [child["profile"][0]["samples"] for child in children]
    assert len(samples) == 200 and sum(samples[:-1]) <= 199, "they end at once"
    assert samples[-1] > 10 and sum(h["samples"] for h in children[-1]["heat"]) > 0, "this one works, and is sampled as well"
    assert parent["profile"][0]["samples"] > 0


def test_what_others_release_of_a_thread_that_has_ended_goes_back_to_the_system():
    """Or the memory of a thread that built something, and ended, would stay for good when that is thrown away."""
    built, trimmed = map(int, run([program("affinity", "heirs")], NAME, env={"MORTISE_CONF": "purge_ms=-1"}).ok().out.split())
    assert built > 30000 and trimmed < built / 2


def test_modules_that_libc_has_unloaded_by_itself_are_not_asked_for_their_names(watch):
    """Their names are gone with them: what lay there since was written into the dump."""
    done, found = watch(program("affinity", "charsets"), conf="affinity_objects=1")
    done.ok()
    assert any(not m["loaded"] for m in found["modules"]), "converters that allocate have come and gone"
    assert all(Path(m["path"]).is_file() for m in found["modules"] if m["loaded"])


def test_a_program_that_shuts_itself_in_is_not_looked_at_and_has_its_pools(watch):
    """Its filter knows nothing of what we ask of the kernel: it was ended within malloc."""
    done, found = watch(program("affinity", "shut_in"), conf="affinity_misses=1,affinity_sites=1")
    done.ok()
    assert max(n["counted"] for n in found["nodes"] if n["pool"]) >= 33 and not found["run"]["sites_patched"]


def test_a_dump_that_cannot_be_written_is_told_of(tmp_path):
    done = run(["/bin/true"], NAME, env={"MORTISE_AFFINITY_DUMP": tmp_path / "none" / "dump"}).ok()
    assert done.err.startswith(f"mortise[{NAME}] warning: cannot write {tmp_path}/none/dump") and done.err.count("\n") == 1
    done = run(["/bin/true"], NAME, env={"MORTISE_AFFINITY_DUMP": "/dev/full"}).ok()
    assert done.err.startswith(f"mortise[{NAME}] warning: cannot write /dev/full: it did not take all") and done.err.count("\n") == 1


def test_a_program_that_takes_the_signal_for_itself_lives_on(watch):
    text = "import signal; n=0\ndef f(*a):\n global n; n+=1\nsignal.signal(signal.SIGURG, f); x=[[i] for i in range(900000)]; print('done', n > 0)"
    done, _ = watch("python3", "-c", text, conf="affinity_profile=997", env={"PYTHONMALLOC": "malloc"})
    assert done.ok().out == "done True\n", "it gets signals that mean nothing, and may put the default back at its end"


# -- the command


def mortise(*words):
    python = BUILD / "venv/bin/python"
    return subprocess.run([str(python), "-m", "mortise", "affinity", *map(str, words)], capture_output=True, text=True, check=False,
                          env=os.environ | {"PYTHONPATH": str(ROOT / "cli"), "MORTISE_BUILD": str(BUILD)})  # fmt: skip


def test_the_command_draws_keeps_and_follows(tmp_path):
    page, picture, data, plan = (tmp_path / n for n in ("g.html", "g.dot", "g.json", "g.plan"))
    words = ("--", program("affinity", "unrolled"))
    done = mortise("--graph", page, "--json", data, "--plan", plan, *words)
    assert done.returncode == 0, done.stderr
    assert done.stdout == run([program("affinity", "unrolled")]).out, "standard output is the program's"
    document = json.loads(data.read_text())
    jsonschema.validate(document, SCHEMA)
    assert "type I" in page.read_text() and "build" in page.read_text(), "function names on the page"
    assert plan.read_text().startswith("mortise-affinity-plan 1\nmodule 1 ")
    assert mortise("--graph", picture, "--plan", plan, "--json", data, *words).returncode == 0
    assert json.loads(data.read_text())["processes"][0]["analysis"][0]["runs"] == 0, "the second run follows the plan"
    assert picture.read_text().startswith("digraph")


def test_a_plan_is_followed_whatever_its_name_and_refused_where_it_is_too_long(tmp_path):
    plan, data = tmp_path / "a,b=c ü.plan", tmp_path / "g.json"
    for _ in range(2):
        done = mortise("--quiet", "--plan", plan, "--json", data, "--", program("affinity", "unrolled"))
        assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(data.read_text())["processes"][0]["analysis"][0]["runs"] == 0, "the second run follows the plan"
    long = tmp_path / ("d" * 200)
    assert "at most 200 characters" in mortise("--plan", long, "--", "true").stderr and not long.exists()


def test_the_command_says_how_to_look_at_a_short_program():
    """Or one would take it for one that has no contexts."""
    assert "--conf affinity_misses=1" in mortise("--", "true").stderr
    assert "affinity_misses" not in mortise("--conf", "affinity_misses=1", "--", "python3", "-c", "pass").stderr


def test_the_command_refuses_in_one_line(tmp_path):
    broken = tmp_path / "no.plan"
    broken.write_text("not a plan\n")
    for words, said in (((("--plan", broken)), "is no plan"), ((("--graph", tmp_path / "g.png")), ".html, .dot, .json")):
        done = mortise(*words, "--", "true")
        assert done.returncode == 2 and said in done.stderr and len(done.stderr.strip().splitlines()) == 1, done.stderr
