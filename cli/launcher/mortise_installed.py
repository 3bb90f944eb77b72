#!/usr/bin/python3 -E
"""The command line of an installed copy: the package lies beside it, below the same prefix."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib/python3/dist-packages"))
try:
    from mortise.entry import start

    start()
except ModuleNotFoundError as missing:
    sys.exit(f"mortise: the Python package '{missing.name}' is missing: 'apt install python3-{missing.name}', or install the wheel with pip")
