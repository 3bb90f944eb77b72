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
                   capture_output=True, timeout=300)
    return int(re.search(r"^(?:summary|totals): (\d+)", out.read_text(), re.M)[1])


def test_destroy_is_a_twentieth_of_freeing_at_most(tmp_path):
    at_once, one_by_one = instructions("destroy", tmp_path), instructions("free", tmp_path)
    assert one_by_one > 20 * BLOCKS, "the count itself works"
    assert at_once * 20 <= one_by_one, f"destroy {at_once}, free {one_by_one} instructions"


def test_heaps_are_seen_by_name_from_outside():
    held = subprocess.Popen([program("heaps", "held"), "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            env=environment(None), text=True)
    assert held.stdout.readline() == "ready\n"
    env = {**environment(None), "MORTISE_HOME": str(BUILD), "PYTHONPATH": str(ROOT / "cli")}
    command = [sys.executable, "-m", "mortise", "stats", str(held.pid)]
    said = subprocess.run([*command, "--json"], env=env, capture_output=True, text=True, check=True)
    table = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    held.communicate("\n", timeout=60)
    document = json.loads(said.stdout)
    jsonschema.validate(document, json.loads((ROOT / "docs/schemas/process.json").read_text()))
    library, = document["libraries"]
    heaps = {h["name"]: h for h in library["heaps"]}
    assert heaps["inner"]["parent"] == heaps["outer"]["address"] and heaps["outer"]["limit_bytes"] == 100_000_000
    block, = (k for k in heaps["inner"]["classes"] if k["block_bytes"] == 112)
    assert block["live_blocks"] == 1000 and heaps["inner"]["live_bytes"] == 112_000
    assert "heap 'inner'" in table.stdout
