"""The storage shape graph as people see it, and plans as programs follow them. If this failed, what was merged could not be checked by eye,
or a plan would name other allocation contexts than the run it was made from."""

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from playwright.sync_api import expect

from mortise import affinity_plans, shape, shape_page, symbols
from mortise.chains import documents, name_places, show
from mortise.errors import WrongUse

from cli.test_page import browser  # noqa: F401

ID = "9f3ac2"


def place(offset, symbol):
    return {"address": 0x400000 + offset, "module": "/bin/prog", "offset": offset, "symbol": symbol, "source": None}


def node(number, pool, symbol, **more):
    return {"id": number, "bytes": 32, "counted": 100 * number, "pool": pool, "root": number, "own_pool": True, "why": "",
            "chain": [place(16 * number, symbol), place(8, "main")]} | more


@pytest.fixture
def process():
    """Three contexts of a tree, merged, and a list beside them; a global points to the root."""
    return {
        "run": {"pid": 1},
        "modules": [{"id": 1, "first": 0x400000, "last": 0x500000, "bias": 0x400000, "loaded": True, "path": "/bin/prog", "build_id": ID}],
        "callers": [],
        "nodes": [node(1, 1, "make_tree"), node(2, 1, "make_left<int>(long)"), node(3, 1, "make_right"), node(4, 2, "push")],
        "shape": [{"node": n, "bytes": 24, "runs": 3, "steps": 90, "stop": "pointer gone", "has_edge": True, "group": 1 if n < 4 else 4}
                  for n in (1, 2, 3, 4)],
        "variable": [{"id": 65537, "type": "global", "place": 0x404010, "offset": 0},
                     {"id": 65538, "type": "stack", "place": 0x400020, "offset": 16}],
        "edge": [{"from": 1, "to": 2, "offset": 0, "count": 3, "seen": 3}, {"from": 1, "to": 3, "offset": 8, "count": 2, "seen": 1},
                 {"from": 4, "to": 4, "offset": 16, "count": 1, "seen": 2}, {"from": 65537, "to": 1, "offset": 0, "count": 1, "seen": 1},
                 {"from": 65538, "to": 4, "offset": 0, "count": 1, "seen": 1}],
        "merge": [{"a": 1, "b": 2, "why": "type I"}, {"a": 1, "b": 3, "why": "type I"}],
        "analysis": [{"first": 4, "first_with_edge": 3, "steps": 1080, "stops": {"pointer gone": 10, "returned": 2}}],
    }  # fmt: skip


def document(process):
    return {"schema": "mortise.affinity/1", "program": ["./prog", "a b"], "mode": "graph", "processes": [process]}


def test_the_page_shows_nodes_edges_merges_and_reasons(browser, process, tmp_path):  # noqa: F811
    path = tmp_path / "graph.html"
    path.write_text(shape_page.render(document(process)))
    page = browser.new_context(offline=True).new_page()
    said, asked = [], []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"file://{path}")
    assert said == [] and len(asked) == 1, "a page that says nothing and asks for nothing but itself"
    assert page.locator(".node").count() == 4 and page.locator(".variable").count() == 2
    assert page.locator("path.edge").count() == 5 and page.locator("path.merge").count() == 2
    offsets = {t for t in page.locator(".tie text").all_text_contents()}
    assert {"+0", "+8", "+16", "type I"} <= offsets
    fills = {page.locator(f'.node[data-id="{n}"] circle').get_attribute("fill") for n in (1, 2, 3)}
    alone = page.locator('.node[data-id="4"] circle').get_attribute("fill")
    assert len(fills) == 1 and alone not in fills, "merged nodes share a colour of their own"
    sizes = [float(page.locator(f'.node[data-id="{n}"] circle').get_attribute("r")) for n in (1, 2, 3, 4)]
    assert sizes == sorted(sizes) and sizes[0] < sizes[3], "more objects, a larger circle"
    assert page.locator(".stops td").all_text_contents() == ["pointer gone", "10", "returned", "2"]
    assert "make_left<int> < main" in page.locator(".contexts tbody").inner_text()
    assert "75 % gave an edge" in page.locator(".verdict").inner_text()
    page.locator('.node[data-id="1"]').dispatch_event("mouseenter")
    expect(page.locator('.node[data-id="4"]')).to_have_class(re.compile("faded"))
    expect(page.locator('.node[data-id="2"]')).not_to_have_class(re.compile("faded"))
    assert "make_tree < main" in page.locator(".detail").inner_text()
    page.locator(".show-merges").uncheck()
    expect(page.locator(".of-merge").first).to_be_hidden()


def test_a_run_in_which_nothing_was_found_has_a_page_too(process):
    empty = process | {k: [] for k in ("nodes", "shape", "variable", "edge", "merge", "analysis")}
    assert "0 allocation contexts" in shape_page.render(document(empty))
    assert "Nothing was found" in shape_page.render(document(process) | {"processes": []})


def test_dot_holds_the_same_graph(process):
    text = shape.dot(process)
    assert 'n1 -> n2 [label="+0"];' in text and "n65537 -> n1;" in text and 'style=dashed, label="type I"' in text
    assert text.count("fillcolor") == 6 and text.startswith("digraph")


def test_a_function_of_no_name_space_is_called_by_its_own(process):
    """What stands before the first parenthesis of "(anonymous namespace)::grow(int)" is nothing."""
    process["nodes"][0]["chain"][0]["symbol"] = "(anonymous namespace)::grow(int)"
    assert '[label="grow < main\\n24 B, 100 objects"' in shape.dot(process)
    assert "grow &lt; main" in shape_page.render(document(process))


def test_large_graphs_show_the_heaviest_and_say_how_many_are_left(process):
    many = process | {"nodes": [node(n, n % 7, f"f{n}") for n in range(1, 400)]}
    part = shape.shown(shape.graph(many))
    assert len(part["nodes"]) == shape.NODES_SHOWN and {n["pool"] for n in part["nodes"]} == {1, 2, 3, 4, 5, 6}
    places = shape.layout(part, rounds=20)
    assert all(0 <= x <= 1 and 0 <= y <= 1 for x, y in places.values())
    assert places == shape.layout(part, rounds=20), "the same picture each time"
    assert "279 contexts more" in shape_page.render(document(many))


def test_a_circle_goes_by_who_asks_and_larger_blocks_tie_nothing_together(process):
    """Of forty circles called xmalloc, drawn into each other, nobody learns anything."""
    wrapped = process | {"nodes": [n | {"chain": [place(64, "xmalloc"), place(16 * n["id"], f"asks_{n['id']}")]} for n in process["nodes"]]}
    drawn = shape_page.render(document(wrapped))
    assert {f">asks_{n}</text>" in drawn for n in range(1, 5)} == {True} and ">xmalloc</text>" not in drawn
    variable, edge = {"id": 65539, "type": "elsewhere", "place": 0, "offset": 0}, {"offset": 0, "count": 9, "seen": 1}
    tied = process | {"variable": process["variable"] + [variable], "edge": process["edge"] + [{"from": 65539, "to": n} | edge for n in range(1, 5)]}
    assert shape.shown(shape.graph(tied)) == shape.shown(shape.graph(process))


# -- plans


def test_a_plan_names_contexts_by_build_id_and_offset(process, tmp_path):
    plan = affinity_plans.update(tmp_path / "p.plan", [process])
    text = (tmp_path / "p.plan").read_text()
    assert text.splitlines()[:2] == ["mortise-affinity-plan 1", f"module 1 {ID} /bin/prog"]
    assert "node class=2 bytes=32 objects=100 heat=0 pool=1 chain=1+10,1+8" in text
    assert [n.pool for n in plan.nodes.values()] == [1, 1, 1, 2], "what was merged shares a pool"
    assert affinity_plans.read(tmp_path / "p.plan").text() == text


def test_what_either_run_put_together_stays_together(process, tmp_path):
    path = tmp_path / "p.plan"
    affinity_plans.update(path, [process])
    second = process | {"shape": [s | {"group": 3 if s["node"] >= 3 else s["node"]} for s in process["shape"]]}
    plan = affinity_plans.update(path, [second])
    assert [n.pool for n in plan.nodes.values()] == [1, 1, 1, 1]
    assert [n.objects for n in plan.nodes.values()] == [100, 200, 300, 400]


def test_another_build_of_a_module_replaces_what_was_known_of_it(process, tmp_path):
    path = tmp_path / "p.plan"
    affinity_plans.update(path, [process])
    rebuilt = process | {"modules": [process["modules"][0] | {"build_id": "0000"}], "nodes": process["nodes"][:2]}
    plan = affinity_plans.update(path, [rebuilt])
    assert len(plan.nodes) == 2 and list(plan.modules) == ["0000"]


def test_runs_that_bring_one_plan_up_to_date_at_once_lose_nothing(process, tmp_path):
    path = tmp_path / "p.plan"
    runs = [process | {"nodes": [node(n, n, "push")], "shape": []} for n in range(1, 41)]
    with ThreadPoolExecutor(8) as threads:
        for _ in threads.map(lambda run: affinity_plans.update(path, [run]), runs):
            assert affinity_plans.read(path).nodes, "a program that starts meanwhile finds a whole plan"
    assert sorted(n.objects for n in affinity_plans.read(path).nodes.values()) == [100 * n for n in range(1, 41)]
    assert list(tmp_path.iterdir()) == [path]


def test_a_plan_stays_the_file_that_it_was(process, tmp_path):
    (tmp_path / "link.plan").symlink_to(tmp_path / "real.plan")
    affinity_plans.update(tmp_path / "link.plan", [process])
    (tmp_path / "real.plan").chmod(0o640)
    affinity_plans.update(tmp_path / "link.plan", [process])
    assert (tmp_path / "link.plan").is_symlink() and (tmp_path / "real.plan").stat().st_mode & 0o777 == 0o640
    assert len(affinity_plans.read(tmp_path / "real.plan").nodes) == 4
    affinity_plans.update(Path("/dev/null"), [process])


def test_of_a_dump_that_was_cut_is_read_what_is_whole(process, tmp_path):
    (tmp_path / "dump.1").write_text('{"kind": "run", "pid": 1}\n{"kind": "node", "id": 1}\n{"kind": "node", "id"')
    (tmp_path / "dump.2").write_text('{"kind": "run", "pi')
    (tmp_path / "dump.3").write_text("")
    (tmp_path / "dump.4").write_text('{"kind": "run", "pid": 4}\n{"kind": "module", "path": "/a\u2028b"}\n')
    first, second = documents(tmp_path)
    assert (first["run"], first["nodes"]) == ({"pid": 1}, [{"id": 1}])
    assert second["modules"] == [{"path": "/a\u2028b"}], "a line ends at its end only"


def test_names_are_asked_for_at_once(monkeypatch):
    """Or naming what was found in a large program would take longer than its run."""
    asked, really = [], subprocess.run
    monkeypatch.setattr(symbols.subprocess, "run", lambda words, **more: asked.append(words) or really(words, **more))
    module = {"id": 1, "first": 0x1000, "last": 0x9000000, "bias": 0, "loaded": True, "path": sys.executable, "build_id": ID}
    document = {"modules": [module], "callers": [{"address": 0x200000 + n} for n in range(100)],
                "nodes": [{"why": 0, "chain": [0x300000 + n, 0x10]} for n in range(100)]}  # fmt: skip
    name_places(document)
    assert len(asked) == 1
    for where in [document["nodes"][7]["chain"][0], document["callers"][9]]:
        symbols.known.clear()
        assert symbols.named(where["module"], where["offset"]) == (where["symbol"], where["source"]), "the same as by itself"


def test_a_stripped_module_names_no_function_that_it_hides(tmp_path):
    """Or what allocates would go by the name of whatever is exported before it."""
    source, module = tmp_path / "m.c", tmp_path / "m.so"
    source.write_text("int first(int n) { return n + 1; }\n__attribute__((noinline, noclone)) static int hidden(int n) { return n * n + n / 3; }\n"
                      "int last(int n) { return hidden(n) + hidden(n + 1); }\n")  # fmt: skip
    subprocess.run(["gcc", "-O1", "-fno-toplevel-reorder", "-shared", "-fPIC", "-o", module, source], check=True)
    listed = subprocess.run(["nm", module], capture_output=True, text=True, check=True).stdout
    at = {line.split()[2]: int(line.split()[0], 16) for line in listed.splitlines() if len(line.split()) == 3}
    assert [symbols.named(str(module), at[name] + 3)[0] for name in ("first", "hidden", "last")] == ["first", "hidden", "last"]
    subprocess.run(["strip", module], check=True)
    symbols.known.clear()
    symbols.exported.cache_clear()
    assert [symbols.named(str(module), at[name] + 3)[0] for name in ("first", "hidden", "last")] == ["first", None, "last"]


def test_calls_of_one_function_are_told_apart_by_their_lines(process, capsys):
    """Or ten pools of one function would be ten rows that say the same."""
    for n, line in zip(process["nodes"], (7, 8, 9, None), strict=True):
        n["chain"] = [place(16 * line if line else 4, "work") | {"source": f"/src/prog.c:{line}" if line else None}, place(8, "main")]
    show(document(process | {"run": process["run"] | {"judged": 0, "frame_rules_unknown": 0}}))
    said = capsys.readouterr().err
    assert all(f"work prog.c:{line} < main" in said for line in (7, 8, 9)) and re.search(r" work < main", said)


def test_processes_without_nodes_are_told_of_in_one_line(process, capsys):
    short = process | {"nodes": [], "run": process["run"] | {"judged": 0, "frame_rules_unknown": 0}}
    long = process | {"run": short["run"], "callers": []}
    show(document(process) | {"processes": [long, short, short]})
    said = capsys.readouterr().err
    assert "4 nodes, 4 of them pooled in 2 pools" in said and "2 processes: no nodes" in said and "affinity_misses" not in said
    show(document(process) | {"processes": [short]})
    assert "process 1: no nodes" in (said := capsys.readouterr().err) and "affinity_misses=1" in said


def test_a_plan_holds_no_more_than_the_library_takes():
    """Or it would be refused as none, and made again in vain."""
    modules = {f"{n:04x}": f"/lib/{n}.so" for n in range(300)}
    nodes = {(2, ((f"{n % 300:04x}", n), ("0001", 8))): affinity_plans.PlannedNode(32, pool=n + 1) for n in range(45_000)}
    lines = affinity_plans.AffinityPlan(modules, nodes).text().splitlines()
    kept = [line.split() for line in lines if line.startswith("node ")]
    assert sum(line.startswith("module ") for line in lines) == 255 and len(kept) == 32767
    assert sorted(int(line[5].split("=")[1]) for line in kept) == list(range(1, 32768))
    assert {line[-1].split("=")[1].split("+")[0] for line in kept} <= {str(n) for n in range(1, 256)}


def test_cold_pools_go_back_to_the_size_class(process, tmp_path):
    hot = process | {"heat": [{"node": 1, "samples": 5000}], "pair": [{"a": 1, "b": 2, "count": 7}]}
    plan = affinity_plans.update(tmp_path / "p.plan", [hot])
    assert [n.pool for n in plan.nodes.values()] == [1, 1, 1, 0]
    assert "pair 1 2 7" in (tmp_path / "p.plan").read_text()
    barely = process | {"heat": [{"node": 1, "samples": 20}]}
    assert [n.pool for n in affinity_plans.update(tmp_path / "q.plan", [barely]).nodes.values()] == [1, 1, 1, 2], "too few to tell"


@pytest.mark.parametrize("text", ["", "something else\n", "mortise-affinity-plan 1\nnode class=1\n",
                                  "mortise-affinity-plan 1\nnode class=2 bytes=24 objects=5 heat=0 pool=1 chain=1+10\n"])  # fmt: skip
def test_what_is_no_plan_is_refused_in_one_line(text, tmp_path):
    path = tmp_path / "p.plan"
    path.write_text(text)
    with pytest.raises(WrongUse) as refused:
        affinity_plans.read(path)
    assert "\n" not in str(refused.value) and str(path) in str(refused.value)


chains = st.lists(st.tuples(st.sampled_from(["aa", "bb"]), st.integers(0, 2**40)), min_size=1, max_size=8).map(tuple)
keys = st.tuples(st.integers(1, 8), chains)
nodes = st.builds(affinity_plans.PlannedNode, st.integers(1, 128), st.integers(0, 2**40), st.integers(0, 2**30), st.integers(0, 5))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])  # how long an example takes is the machine's
@given(st.dictionaries(keys, nodes, max_size=12), st.dictionaries(keys, nodes, max_size=12))
def test_merging_loses_no_node_and_parts_no_pool(first, second):
    modules = {"aa": "/a", "bb": "/b"}
    old, new = (affinity_plans.AffinityPlan(dict(modules), dict(n)) for n in (first, second))
    before = {id(p): {k: n.pool for k, n in p.nodes.items()} for p in (old, new)}
    plan = affinity_plans.merged(old, new)
    assert set(plan.nodes) == set(first) | set(second)
    for pools in before.values():
        for a in pools:
            for b in pools:
                if pools[a] and pools[a] == pools[b]:
                    assert plan.nodes[a].pool == plan.nodes[b].pool != 0
    assert affinity_plans.merged(plan, affinity_plans.AffinityPlan()).text() == plan.text()


@pytest.mark.parametrize("line", ("pair 0 0 5", "pair 1 0 5", "pair 1 2 5", "pair ١ ١ 5", "module ١ abcd /lib", "node class=2 bytes=24 objects=1 heat=0 pool=0 chain=1+-5",
                                  "node class=2 bytes=24 objects=1 heat=0 pool=0 chain=1+1_0", "node class=2 bytes=24 objects=1 heat=0 pool=0 chain=2+5", "nonsense"))  # fmt: skip
def test_a_line_that_no_plan_has_is_refused(tmp_path, line):
    path = tmp_path / "p.plan"
    path.write_text("mortise-affinity-plan 1\nmodule 1 ab12 /bin/true\nnode class=2 bytes=24 objects=1 heat=0 pool=0 chain=1+5\n" + line + "\n")
    with pytest.raises(WrongUse, match=r"p.plan' line 4 is not of a plan: "):
        affinity_plans.read(path)
