"""Builds the documentation site: site.py FOLDER, which then holds index.html.

Pages keep their places (README.md is the front page), so their links among each other stay what they are. A source file that a
page links to becomes a page of the site. A link that leads nowhere ends the build.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ORDER = ["README.md", "docs/install.md", "docs/1-tour.md", "docs/2-layers.md", "docs/3-policies.md", "docs/catalogue.md", "docs/4-life.md",
         "docs/5-faults.md", "docs/6-proof.md", "docs/allocators.md", "docs/compare.md"]
LAST = ["bench/README.md", "CONTRIBUTING.md", "CHANGELOG.md"]
LINK = re.compile(r"(\]\()([^)\s#]+)((?:#[^)\s]*)?\))")
LANGUAGES = {".hpp": "cpp", ".cpp": "cpp", ".h": "c", ".c": "c", ".py": "python", ".toml": "toml", ".json": "json"}
SETTINGS = """site_name: mortise
site_description: Memory allocators made out of layers
docs_dir: {source}
site_dir: {target}
use_directory_urls: false
theme:
  name: material
  font: false
  features: [navigation.sections, content.code.copy, toc.follow]
  palette:
    - {{media: "(prefers-color-scheme: light)", scheme: default, toggle: {{icon: material/weather-night, name: dark}}}}
    - {{media: "(prefers-color-scheme: dark)", scheme: slate, toggle: {{icon: material/weather-sunny, name: light}}}}
plugins: [search]
markdown_extensions: [tables, admonition, pymdownx.highlight, pymdownx.superfences, toc: {{permalink: true}}]
validation: {{omitted_files: ignore, links: {{not_found: warn, anchors: warn, absolute_links: warn, unrecognized_links: warn}}}}
nav:
{nav}
"""


def pages() -> list[str]:
    """Every page, in reading order."""
    others = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").glob("*.md"))
    return [*ORDER, *(page for page in others if page not in ORDER), *LAST]


def title(page: str) -> str:
    return re.search(r"^# +(.*)$", (ROOT / page).read_text(), flags=re.M)[1].replace("`", "")


def lists_apart(text: str) -> str:
    """A list that follows a line of text at once is one for the reader of the file and for most programs; here it needs a blank line."""
    return re.sub(r"^(?!\s*(?:[-*|>#]|\d+\.)|\s*$|```)(.+)\n(?=(?:-|\d+\.) )", r"\1\n\n", text, flags=re.M)


class Site:
    def __init__(self, source: Path) -> None:
        self.source = source
        self.written: set[str] = set()

    def add_page(self, page: str) -> None:
        self.written.add(page)
        parts = re.split(r"(^```.*?^```$)", (ROOT / page).read_text(), flags=re.M | re.S)
        text = "".join(part if part.startswith("```") else self.with_links(lists_apart(part), page) for part in parts)
        self.write(page, text)

    def with_links(self, text: str, page: str) -> str:
        """Links to sources lead to the pages of those sources, which are made on the way."""

        def lead(match: re.Match) -> str:
            target = match[2]
            if re.match(r"[a-z]+:", target) or target.endswith(".md"):
                return match[0]
            goal = os.path.normpath(os.path.join(os.path.dirname(page), target))
            if goal not in self.written:
                self.add_source(goal)
            made = f"{goal}/index.md" if (ROOT / goal).is_dir() else f"{goal}.md"
            return f"{match[1]}{os.path.relpath(made, os.path.dirname(page) or '.')})"

        return LINK.sub(lead, text)

    def add_source(self, name: str) -> None:
        self.written.add(name)
        path = ROOT / name
        if path.is_dir():
            files = sorted(f for f in path.iterdir() if f.is_file())
            for file in files:
                if f"{name}/{file.name}" not in self.written:
                    self.add_source(f"{name}/{file.name}")
            self.write(f"{name}/index.md", f"# {name}\n\n" + "".join(f"- [{file.name}]({file.name}.md)\n" for file in files))
        elif path.is_file():
            self.write(f"{name}.md", f"# {name}\n\n````{LANGUAGES.get(path.suffix, 'text')}\n{path.read_text()}\n````\n")

    def write(self, name: str, text: str) -> None:
        target = self.source / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)


def build(target: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="mortise-site-") as room:
        site = Site(Path(room) / "source")
        for page in pages():
            site.add_page(page)
        (site.source / "README.md").rename(site.source / "index.md")
        for page in pages():  # the front page is index.md in a site
            path = site.source / ("index.md" if page == "README.md" else page)
            path.write_text(re.sub(r"(\]\((?:\.\./)*)README\.md", r"\1index.md", path.read_text()))
        nav = "".join(f"  - {title(page)!r}: {'index.md' if page == 'README.md' else page}\n" for page in pages())
        settings = Path(room) / "mkdocs.yml"
        settings.write_text(SETTINGS.format(source=site.source, target=target.resolve(), nav=nav))
        shutil.rmtree(target, ignore_errors=True)
        done = subprocess.run([sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--config-file", settings], env=os.environ | {"NO_COLOR": "1", "NO_MKDOCS_2_WARNING": "1"})
        if done.returncode:
            sys.exit("site: a page is wrong; what is said above names it")


if __name__ == "__main__":
    build(Path(sys.argv[1]))
    print(f"{sys.argv[1]}/index.html")
