"""Should destroying a heap look at its blocks, a program that ends a large one would stall; and a heap must be seen by name."""

import json
import re
import subprocess
import sys

import jsonschema

from support.allocators import BUILD, ROOT, environment, program

BLOCKS = 1_000_000


def instructions(how, tmp_path):
    """What `end_at_once` or `end_one_by_one` executes, all it calls included: counted by callgrind, not timed."""
    function = "end_at_once" if how == "destroy" else "end_one_by_one"
    out = tmp_path / f"{how}.out"
    subprocess.run(["valgrind", "--tool=callgrind", f"--toggle-collect={function}", f"--callgrind-out-file={out}",
                    str(program("heaps", "held")), how, str(BLOCKS)], env=environment(None), check=True,
                   capture_output=True, timeout=600)
    return int(re.search(r"^(?:summary|totals): (\d+)", out.read_text(), re.M)[1])


def test_destroy_is_a_twentieth_of_freeing_at_most(tmp_path):
    at_once, one_by_one = instructions("destroy", tmp_path), instructions("free", tmp_path)
    assert one_by_one > 20 * BLOCKS, "the count itself works"
    assert at_once * 20 <= one_by_one, f"destroy {at_once}, free {one_by_one} instructions"


def seen(*words):
    """What `mortise stats` says, as JSON and on the screen, of a program that rests."""
    held = subprocess.Popen([program("heaps", "held"), *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            env=environment(None), text=True)
    assert held.stdout.readline() == "ready\n"
    env = {**environment(None), "MORTISE_HOME": str(BUILD), "PYTHONPATH": str(ROOT / "cli")}
    command = [sys.executable, "-m", "mortise", "stats", str(held.pid)]
    said = subprocess.run([*command, "--json"], env=env, capture_output=True, text=True)
    table = subprocess.run(command, env=env, capture_output=True, text=True)
    held.communicate("\n", timeout=600)
    assert said.returncode == table.returncode == 0, said.stderr + table.stderr
    document = json.loads(said.stdout)
    jsonschema.validate(document, json.loads((ROOT / "docs/schemas/process.json").read_text()))
    library, = document["libraries"]
    return library, table.stdout


def test_heaps_are_seen_by_name_from_outside():
    library, table = seen("wait")
    heaps = {h["name"]: h for h in library["heaps"]}
    assert heaps["inner"]["parent"] == heaps["outer"]["address"] and heaps["outer"]["limit_bytes"] == 100_000_000
    block, = (k for k in heaps["inner"]["classes"] if k["block_bytes"] == 112)
    assert block["live_blocks"] == 1000 and heaps["inner"]["live_bytes"] == 112_000
    assert "heap 'inner'" in table


def test_thousands_of_heaps_are_counted_to_the_byte():
    library, table = seen("many", "2000")
    assert [heap["live_bytes"] for heap in library["heaps"]] == [1120] * 2000
    assert "2000 heaps of the program's: 2.14 MiB live" in table and table.count("heap 'at ") == 10
    assert re.search(r"live +2\.14 MiB +in blocks", table)
