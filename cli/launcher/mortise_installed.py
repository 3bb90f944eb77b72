#!/usr/bin/python3 -E
"""The command line of an installed copy: the package lies beside it, below the same prefix."""

import sys
from importlib.util import find_spec
from pathlib import Path

NEEDED = {"typer": "typer", "rich": "rich", "numpy": "numpy", "scipy": "scipy", "psutil": "psutil", "elftools": "pyelftools",
          "jinja2": "jinja2", "plotly": "plotly"}  # module: what Debian has it in, after "python3-"  # fmt: skip

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib/python3/dist-packages"))
try:
    from mortise.entry import start

    start()
except ModuleNotFoundError as missing:
    packages = " ".join(f"python3-{package}" for module, package in NEEDED.items() if find_spec(module) is None)
    is_needed = str(missing.name).partition(".")[0] in NEEDED
    advice = f"'apt install {packages}', or install the wheel with pip" if is_needed else "install mortise anew"
    sys.exit(f"mortise: the Python package '{missing.name}' is missing: {advice}")
