"""Should a command in the documentation not work, it would be the first thing that a new user types."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from support.allocators import BUILD, ROOT, environment

PAGES = ["statistics", "limits", "heaps", "profile"]
BLOCK = re.compile(r"^```console\n(.*?)^```", re.M | re.S)


def commands():
    for page in PAGES:
        for number, block in enumerate(BLOCK.findall((ROOT / f"docs/{page}.md").read_text()), 1):
            lines = [line[2:] for line in block.splitlines() if line.startswith("$ ")]
            yield pytest.param("\n".join(lines), id=f"{page}-{number}")


@pytest.fixture
def place(tmp_path: Path) -> dict[str, str]:
    """A folder of its own with what the commands take for granted: mortise on the PATH."""
    tools = tmp_path / "bin"
    tools.mkdir()
    launcher = tools / "mortise"
    launcher.write_text(f'#!/bin/sh\nexec "{ROOT}/build/venv/bin/python" "{ROOT}/cli" "$@"\n')
    launcher.chmod(0o755)
    env = environment(None)
    return env | {"PATH": f"{tools}:{env['PATH']}", "MORTISE_HOME": str(BUILD), "LIB": str(BUILD / "lib"),
                  "INCLUDE": str(ROOT / "include"), "EXAMPLES": str(ROOT / "examples")}


# A reader's second is long enough for a program to start; on a busy machine it takes longer, and the next command waits for it.
SLEEP = 'sleep() { command sleep "$@"; until grep -q libmortise- /proc/$!/maps; do command sleep 0.1; done; }\n'


@pytest.mark.parametrize("script", list(commands()))
def test_documented_commands_work(script, place, tmp_path):
    assert shutil.which("bash")
    process = subprocess.Popen(["bash", "-ec", SLEEP + script + "\nkill $(jobs -p) 2>/dev/null || true"], cwd=tmp_path, env=place,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    out, _ = process.communicate(timeout=600)
    assert process.returncode == 0, f"{script}\n{out}"
    assert out.strip() or any(tmp_path.iterdir())
