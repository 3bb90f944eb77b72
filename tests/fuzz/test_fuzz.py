"""Should a guard accuse an honest program, or miss or misname a crime it promises to see, the fuzzer would say so.

A short slice from a fixed seed; `make fuzz` runs minutes, MORTISE_TEST_ALL=1 one.
"""

import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_guards_under_fuzzing():
    seconds = 60 if os.environ.get("MORTISE_TEST_ALL") else 10
    done = subprocess.run([ROOT / "tests/fuzz/run.sh", str(seconds)], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    assert int(re.search(r"number_of_executed_units: (\d+)", done.stderr)[1]) > 100
