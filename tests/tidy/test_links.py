"""A reader who follows a link of the documentation must arrive."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.parametrize("page", PAGES)
def test_links_to_files_arrive(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    text = re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.S)
    targets = [t for t in re.findall(r"\[[^\]]*\]\(([^)\s#]+)[^)]*\)", text) if "://" not in t]
    lost = [target for target in targets if not ((ROOT / page).parent / target).exists()]
    assert lost == []
