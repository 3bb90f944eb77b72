"""The drop-in for systemd and the Dockerfile do what they say. Neither a running systemd nor a container engine is taken for granted:
systemd's own checker reads the unit, and its lines and those of the Dockerfile are carried out in a clean root.
"""

import re

import pytest

from packages.clean_root import run_in_clean_root
from packages.conftest import shell
from support.allocators import ROOT

SNIPPETS = ROOT / "packaging/snippets"
UNIT = "[Unit]\nDescription=A service\n[Service]\nType=oneshot\nExecStart=/bin/sort /etc/passwd\n"


@pytest.fixture
def runtime(debs):
    return debs["libmortise0"]


def test_systemd_understands_the_drop_in(tmp_path):
    (tmp_path / "sorter.service").write_text(UNIT)
    (tmp_path / "sorter.service.d").mkdir()
    (tmp_path / "sorter.service.d/mortise.conf").write_text((SNIPPETS / "mortise.conf").read_text())
    ran = shell("systemd-analyze", "verify", "--man=no", tmp_path / "sorter.service", cwd=tmp_path)
    assert ran.status == 0 and "mortise.conf" not in ran.err, ran.err
    (tmp_path / "sorter.service.d/mortise.conf").write_text("[Service]\nEnvironmen=LD_PRELOAD=x\n")
    assert "mortise.conf" in shell("systemd-analyze", "verify", "--man=no", tmp_path / "sorter.service", cwd=tmp_path).err


def test_the_service_runs_on_it(runtime):
    lines = re.findall(r"^Environment=(.+)$", (SNIPPETS / "mortise.conf").read_text(), flags=re.M)
    script = f"dpkg -i libmortise0_*.deb >/dev/null\nenv {' '.join(lines)} MORTISE_VERBOSE=1 sort /etc/passwd"
    ran = run_in_clean_root(script, [runtime]).ok()
    assert " hslab active" in ran.err and "purge_ms=1000" in ran.err and "limit=" in ran.err and "warning" not in ran.err and "root:" in ran.out


def test_the_dockerfiles_lines_make_such_an_image(runtime):
    steps = re.findall(r"^([A-Z]+) (.+)$", (SNIPPETS / "Dockerfile").read_text(), flags=re.M)
    assert [step for step, _ in steps] == ["FROM", "COPY", "RUN", "ENV", "ENV", "CMD"]
    runs = [text for step, text in steps if step == "RUN"]
    settings = [f"export '{text}'" for step, text in steps if step == "ENV"]
    command = re.sub(r'[\[\],"]', " ", steps[-1][1])
    ran = run_in_clean_root("\n".join([*runs, *settings, "export MORTISE_VERBOSE=1", command]), [runtime]).ok()
    assert " hslab active" in ran.err and "limit=" in ran.err and "root:" in ran.out
