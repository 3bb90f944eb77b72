"""Builds a composition for a machine without an operating system, links the program beside this file with it, runs the
image on an emulated board, and prints what the heap costs: make.py [COMPOSITION.toml]...
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
MORTISE = [sys.executable, "-E", HERE.parent.parent / "cli"]
ARENA = 64 << 10  # of both compositions
GCC = "aarch64-linux-gnu-gcc"
FLAGS = ["-Os", "-mgeneral-regs-only", "-mstrict-align", "-fno-pic"]
BUILD = [*FLAGS, "-mno-outline-atomics", "-ffunction-sections"]
QEMU = ["qemu-system-aarch64", "-machine", "virt", "-cpu", "cortex-a57", "-smp", "2", "-m", "64", "-nodefaults", "-display", "none",
        "-semihosting-config", "enable=on,target=native"]


def library(spec: Path, folder: Path) -> Path:
    target = folder / f"{spec.stem}.a"
    subprocess.run([*MORTISE, "build", spec, "-o", target, "--freestanding", "--compiler", "aarch64-linux-gnu-g++",
                    *(f"--flag={flag}" for flag in BUILD)], check=True)
    return target


def objects(heap: Path, folder: Path, *flags: str) -> list[Path]:
    """The program without the heap."""
    made = [folder / f"{heap.stem}-{name}.o" for name in ("start", "main")]
    for source, target in zip(("start.S", "main.c"), made, strict=True):
        subprocess.run([GCC, *FLAGS, "-ffreestanding", "-Wall", "-Wextra", "-Werror", f"-I{heap.parent}", f"-DHEAP={heap.stem}", *flags, "-c", HERE / source, "-o", target],
                       check=True)
    return made


def image(heap: Path, program: list[Path], folder: Path) -> Path:
    target = folder / f"{heap.stem}.elf"
    subprocess.run([GCC, "-nostdlib", "-static", "-Wl,--gc-sections", "-Wl,--build-id=none", "-Wl,--no-warn-rwx-segments", "-T", HERE / "virt.ld", *program, heap, "-o", target],
                   check=True)
    return target


def run(elf: Path) -> subprocess.CompletedProcess:
    """What the image says comes on stderr or stdout, as the emulator pleases: both."""
    return subprocess.run([*QEMU, "-kernel", elf], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)


def sections(file: Path) -> dict[str, int]:
    """Bytes of a file's sections, by what they are: ROM (code, constants, first values) or RAM (variables)."""
    listed = subprocess.run(["aarch64-linux-gnu-size", "-A", file], check=True, capture_output=True, text=True).stdout
    found = {"rom": 0, "ram": 0}
    for kind, size in re.findall(r"^\.(text|rodata|data|bss)\S* +(\d+)", listed, re.M):
        found["rom"] += int(size) if kind != "bss" else 0
        found["ram"] += int(size) if kind in ("data", "bss") else 0
    return found


def cost(elf: Path, program: list[Path]) -> dict[str, int]:
    """Bytes of the heap's part of an image: the whole less the program."""
    whole, rest = sections(elf), [sections(o) for o in program]
    return {kind: whole[kind] - sum(part[kind] for part in rest) for kind in whole}


def main(specs: list[Path]) -> None:
    print("| composition | ROM | RAM beside the arena |\n|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        for spec in specs:
            heap = library(spec, Path(name))
            program = objects(heap, Path(name), *["-DSECOND_CORE"] * (spec.stem == "tlsfcc"))
            elf = image(heap, program, Path(name))
            done = run(elf)
            if done.returncode:
                sys.exit(f"{spec.name}: ended with {done.returncode}: {done.stdout}")
            bytes_ = cost(elf, program)
            print(f"| {spec.stem} | {bytes_['rom']} | {bytes_['ram'] - ARENA} |")


if __name__ == "__main__":
    main([Path(word) for word in sys.argv[1:]] or [HERE / "tlsf.toml", HERE / "tlsfcc.toml"])
