"""The documentation site is built from docs/, and each of its links leads somewhere. If one failed, a reader would meet an empty page."""

import subprocess
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from support.allocators import ROOT


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        told = dict(attributes)
        self.places |= {told[key] for key in ("id", "name") if told.get(key)}
        self.links += [told[key] for key in ("href", "src") if told.get(key)]


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "site"
    python = ROOT / "build/venv/bin/python"
    done = subprocess.run([python, ROOT / "packaging/site.py", folder], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_page_is_there(site):
    for page in ["index.html", *(f"docs/{path.stem}.html" for path in (ROOT / "docs").glob("*.md"))]:
        assert (site / page).is_file(), page


def test_every_link_leads_somewhere(site):
    pages = {path.resolve(): Page(path.read_text()) for path in site.rglob("*.html") if path.name != "404.html"}
    dead, followed = [], 0
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            goal = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            followed += 1
            if not goal.exists():
                dead.append(f"{path.relative_to(site.resolve())}: {link}")
            elif parts.fragment and goal in pages and unquote(parts.fragment) not in pages[goal].places | {"__top"}:
                dead.append(f"{path.relative_to(site.resolve())}: {link}: no such place")
    assert followed > 1000 and not dead, "\n".join(dead[:40])


def test_nothing_is_fetched_from_elsewhere(site):
    """Fonts and scripts come with the site: it can be read without a network."""
    for path in site.rglob("*.html"):
        for link in Page(path.read_text()).links:
            assert not (urlsplit(link).netloc and link.endswith((".js", ".css", ".woff2"))), f"{path}: {link}"
