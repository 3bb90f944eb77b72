"""A heap profile as a flame graph: one HTML file that needs no network. Width is bytes; a click makes a frame the whole."""

import html
import json
from dataclasses import dataclass, field
from typing import Any

from mortise import formats
from mortise.heap_profile import Profile

SMALLEST = 1e-4  # of the whole: narrower frames would not be seen


@dataclass
class Node:
    name: str
    bytes: float = 0
    blocks: float = 0
    below: dict[str, "Node"] = field(default_factory=dict)

    def document(self, whole: float) -> dict[str, Any]:
        wide = [n for n in self.below.values() if n.bytes >= whole * SMALLEST]
        wide.sort(key=lambda n: n.name)
        return {"n": self.name, "b": round(self.bytes), "c": round(self.blocks), "d": [n.document(whole) for n in wide]}


def tree(profile: Profile, space: str, objects: str) -> Node:
    """Stacks from the outermost frame on; what is not positive has no width and is left out."""
    root = Node("all")
    for stack, counts in profile.stacks.items():
        size, blocks = getattr(counts, space), getattr(counts, objects)
        if size <= 0:
            continue
        node = root
        for name in ["", *(str(frame) for frame in reversed(stack))]:
            node = node.below.setdefault(name, Node(name)) if name else node
            node.bytes += size
            node.blocks += blocks
    return root


def page(profile: Profile, title: str) -> str:
    views = {}
    for label, space, objects in (("live", "inuse_space", "inuse_objects"), ("asked for", "alloc_space", "alloc_objects")):
        root = tree(profile, space, objects)
        views[label] = root.document(root.bytes)
    data = json.dumps(views, ensure_ascii=False).replace("<", "\\u003c")
    total = formats.size(profile.total().inuse_space)
    return PAGE.replace("@TITLE@", html.escape(f"{title}: {total} live")).replace("@DATA@", data)


PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>@TITLE@</title>
<style>
 body { font: 14px/1.4 system-ui, sans-serif; margin: 1rem; color: #222; background: #fff }
 h1 { font-size: 1.1rem } #graph { position: relative } #says { min-height: 1.6em; color: #444 }
 .f { position: absolute; height: 19px; box-sizing: border-box; overflow: hidden; white-space: nowrap; padding: 0 3px;
      font-size: 12px; line-height: 18px; border: 1px solid #fff; border-radius: 2px; cursor: pointer }
 .f:focus-visible { outline: 2px solid #000 }
</style>
<h1>@TITLE@</h1>
<p>Width is bytes; callers above, the place that asked at the bottom. Click a frame to make it the whole.
 <label>Show <select id="view"></select></label> <button id="back">all</button></p>
<p id="says" role="status"></p>
<div id="graph"></div>
<script>
const views = @DATA@;
const graph = document.getElementById("graph"), says = document.getElementById("says"), view = document.getElementById("view");
for (const name of Object.keys(views)) view.add(new Option(name));
const size = n => { for (const [u, s] of [["GiB", 2**30], ["MiB", 2**20], ["KiB", 1024]]) if (n >= s) return (n / s).toFixed(2) + " " + u; return n + " B"; };
const colour = name => { let h = 0; for (const c of name) h = (h * 31 + c.codePointAt(0)) % 60; return `hsl(${h}, 75%, 72%)`; };
function draw(root) {
  graph.replaceChildren();
  let depth = 0;
  const place = (node, left, width, level) => {
    depth = Math.max(depth, level);
    const f = document.createElement("div");
    f.className = "f"; f.tabIndex = 0;
    f.style.cssText = `left:${left}%;width:${width}%;top:${level * 20}px;background:${colour(node.n)}`;
    f.textContent = node.n;
    const text = `${node.n}: ${size(node.b)} in ${node.c} blocks, ${(100 * node.b / views[view.value].b).toFixed(1)} % of all`;
    f.title = text;
    f.onmouseenter = f.onfocus = () => { says.textContent = text; };
    f.onclick = () => draw(node);
    f.onkeydown = e => { if (e.key === "Enter") draw(node); };
    graph.append(f);
    for (const next of node.d) { const w = width * next.b / node.b; if (w > 0.05) place(next, left, w, level + 1); left += w; }
  };
  if (root.b) place(root, 0, 100, 0); else says.textContent = "nothing to show";
  graph.style.height = (depth + 1) * 20 + "px";
}
const all = () => draw(views[view.value]);
view.onchange = document.getElementById("back").onclick = all;
all();
</script></html>
"""
