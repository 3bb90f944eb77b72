"""A machine with two memory nodes, in which the kernel itself is asked on which node the pages of blocks lie. Should this fail, programs on
such machines would work on memory of the far node.

The machine is emulated (qemu-system-x86_64, 4 CPUs); its kernel is Debian's, its first program nodes_init.c, the program that takes and
frees on_nodes.c. A minute; with MORTISE_TEST_ALL=1 only, and with a kernel image that this user may read: /boot/vmlinuz-*, or
MORTISE_KERNEL=FILE, as from

    apt-get download linux-image-6.1.0-56-cloud-amd64 && dpkg-deb -x linux-image-*.deb kernel      # kernel/boot/vmlinuz-*
"""

import gzip
import os
import re
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from support.allocators import library

HERE = Path(__file__).parent
LOADER, LIBC = Path("/lib64/ld-linux-x86-64.so.2"), Path("/lib/x86_64-linux-gnu/libc.so.6")
WATCHDOG_S = 600
MACHINE = ["-machine", "pc", "-accel", "tcg", "-smp", "4", "-m", "1G", "-nographic", "-no-reboot", "-nic", "none",
           *(word for node, cpus in enumerate(("0-1", "2-3"))
             for word in ("-object", f"memory-backend-ram,size=512M,id=m{node}", "-numa", f"node,nodeid={node},cpus={cpus},memdev=m{node}"))]


def archive(entries: dict[str, tuple[int, bytes]]) -> bytes:
    """A file system for the kernel to begin with (cpio, format newc): mode and contents by path."""
    out = bytearray()

    def put(number: int, path: str, mode: int, data: bytes, device: tuple[int, int] = (0, 0)) -> None:
        fields = [number, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(path) + 1, 0]
        out.extend(b"070701" + b"".join(b"%08X" % field for field in fields) + path.encode() + b"\0")
        out.extend(bytes(-len(out) % 4) + data + bytes(-len(data) % 4))

    for number, (path, (mode, data)) in enumerate(entries.items(), 1):
        put(number, path, mode, data, (5, 1) if stat.S_ISCHR(mode) else (0, 0))
    put(0, "TRAILER!!!", 0, b"")
    return gzip.compress(bytes(out))


def kernel() -> Path:
    named = os.environ.get("MORTISE_KERNEL")
    found = [Path(named)] if named else sorted(Path("/boot").glob("vmlinuz-*"), reverse=True)
    readable = [path for path in found if os.access(path, os.R_OK)]
    if not readable:
        pytest.skip("no kernel image to be read in /boot, and MORTISE_KERNEL names none; the head of tests/platforms/test_nodes.py says how")
    return readable[0]


@pytest.fixture(scope="module")
def said(tmp_path_factory) -> str:
    """What the machine printed."""
    if not os.environ.get("MORTISE_TEST_ALL"):
        pytest.skip("a minute: MORTISE_TEST_ALL=1 runs it")
    if not shutil.which("qemu-system-x86_64"):
        pytest.skip("qemu-system-x86_64 is not there: apt-get install qemu-system-x86")
    image, folder = kernel(), tmp_path_factory.mktemp("machine")
    for name, options in {"nodes_init": ["-static"], "on_nodes": ["-fno-builtin-malloc", "-pthread"]}.items():
        subprocess.run(["gcc", "-O1", *options, HERE / f"{name}.c", "-o", folder / name], check=True)
    directory, program = stat.S_IFDIR | 0o755, stat.S_IFREG | 0o755
    files = {name: (directory, b"") for name in ("sys", "proc", "dev", "lib64", "lib", "lib/x86_64-linux-gnu")}
    files["dev/console"] = (stat.S_IFCHR | 0o600, b"")
    for name, source in {"init": folder / "nodes_init", "program": folder / "on_nodes", "hslab.so": library("hslab"),
                         str(LOADER)[1:]: LOADER, str(LIBC)[1:]: LIBC}.items():
        files[name] = (program, source.read_bytes())
    (folder / "initrd").write_bytes(archive(files))
    done = subprocess.run(["qemu-system-x86_64", *MACHINE, "-kernel", image, "-initrd", folder / "initrd",
                           "-append", "console=ttyS0 quiet panic=-1"], capture_output=True, text=True, errors="replace", timeout=WATCHDOG_S)
    text = done.stdout.replace("\r", "")
    assert "\nend\n" in text, f"the machine did not come to its end\n{text[-4000:]}\n{done.stderr}"
    return text


def figures(said: str, nodes: str) -> dict[tuple[str, int], tuple[int, int]]:
    """Pages on the node of the thread that was given them, and elsewhere: by phase and node."""
    part = said.split(f"run {nodes}\n", 1)[1].split("status ", 1)
    assert part[1].startswith("0\n"), said
    return {(m[1], int(m[2])): (int(m[3]), int(m[4])) for m in re.finditer(r"^(\w+) (\d) (\d+) (\d+)$", part[0], re.M)}


PHASES = [("first", 0), ("first", 1), ("handed", 1), ("again", 0), ("again", 1)]


def test_the_kernel_has_two_nodes(said):
    assert "/sys/devices/system/node/has_cpu: 0-1\n" in said
    assert re.search(r"hslab active .* nodes=2 ", said.split("run auto\n")[1].split("run off\n")[0]), said


@pytest.mark.parametrize("phase", PHASES, ids=lambda phase: f"{phase[0]}-on-{phase[1]}")
def test_blocks_lie_on_the_node_of_who_asked(said, phase):
    here, elsewhere = figures(said, "auto")[phase]
    assert here > 10_000 and elsewhere == 0, said


def test_with_one_heap_for_both_they_do_not(said):
    """Otherwise the test above would show nothing."""
    here, elsewhere = figures(said, "off")["handed", 1]
    assert elsewhere > here, said
