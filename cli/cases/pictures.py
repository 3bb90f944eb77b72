"""The figures of docs/compare.md, drawn from what the cases measured: pictures.py MEASURED DOCS

MEASURED is the folder with the cases' JSON (build/bench/compare), DOCS that of the pictures. A browser draws them, as it draws a
report's: what stands in the guide is what a page of `--html` shows.
"""

import json
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import plotly.graph_objects as go  # noqa: E402
import plotly.offline  # noqa: E402
import top_heap  # noqa: E402
from mortise import page  # noqa: E402

CHROMIUM = "/usr/bin/chromium"
SIZE = {"width": 760, "height": 420}


def figures(folder: Path) -> dict[str, go.Figure]:
    """A picture for each sweep that was measured, and the one of the two memories of OCaml."""
    found = {}
    for path in sorted(folder.glob("*.json")):
        document = json.loads(path.read_text())
        if document.get("curves"):
            found[path.stem] = page.knobs(document)
        elif path.stem == "ocaml_top_heap":
            found[path.stem] = top_heap.figure(document["counts"], document["bytes"])
    return found


def settled(svg: str, name: str) -> str:
    """The same picture with the same names in it whenever it is drawn: marks made at random would change the file each time."""
    for mark in set(re.findall(r'id="defs-(\w+)"', svg)):
        svg = re.sub(rf"(?<=[a-z]){mark}|(?<=defs-){mark}", name, svg)
    return re.sub(r"(trace scatter) trace\w{6}", r"\1", svg)


def draw(drawn: dict[str, go.Figure], docs: Path) -> None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        blank = browser.new_page()
        blank.set_content("<html><body></body></html>")
        blank.add_script_tag(content=plotly.offline.get_plotlyjs())
        for name, figure in drawn.items():
            figure.update_layout(margin={"t": 70}, legend={"y": 1.02, "yanchor": "bottom"})
            figure.update_yaxes(rangemode="normal")  # curves that lie close are to be told apart
            asked = {"format": "svg", **SIZE}
            url = blank.evaluate("([figure, asked]) => Plotly.toImage(figure, asked)", [json.loads(figure.to_json()), asked])
            svg = blank.evaluate("url => decodeURIComponent(url.slice(url.indexOf(',') + 1))", url)
            (docs / f"{name}.svg").write_text(settled(svg, name) + "\n")
            print(docs / f"{name}.svg")
        browser.close()


def main(words: list[str]) -> None:
    if len(words) != 2 or not Path(words[0]).is_dir():
        raise SystemExit(f"pictures: expected MEASURED DOCS, two folders, got {' '.join(words) or 'nothing'}")
    drawn, docs = figures(Path(words[0])), Path(words[1])
    if not drawn:
        raise SystemExit(f"pictures: nothing to draw in '{words[0]}': run the cases first (make bench-compare)")
    docs.mkdir(parents=True, exist_ok=True)
    draw(drawn, docs)


if __name__ == "__main__":
    main(sys.argv[1:])
