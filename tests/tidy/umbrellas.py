"""Writes the umbrella header of each folder of include/mortise: python tests/tidy/umbrellas.py"""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MORTISE = ROOT / "include/mortise"
FOLDERS = ["os", "data", "sync", "policy", "source", "backbone", "cache", "guard", "shape", "route", "watch"]
OWN = {"core": "mortise/core/core.hpp", "pool": "mortise/pool.hpp"}  # written by hand


def text_of(folder: str) -> str:
    headers = sorted(path.name for path in (MORTISE / folder).glob("*.hpp"))
    lines = "".join(f'#include "mortise/{folder}/{name}"\n' for name in headers)
    return f"// Everything of {folder}/.\n#pragma once\n\n{lines}"


def folders() -> list[str]:
    return [folder for folder in FOLDERS if (MORTISE / folder).is_dir()]


def everything() -> str:
    lines = "".join(f'#include "mortise/{folder}.hpp"\n' for folder in folders())
    return f'// Everything of which stacks are made.\n#pragma once\n\n#include "{OWN["core"]}"\n{lines}'


def expected() -> dict[Path, str]:
    return {MORTISE / f"{folder}.hpp": text_of(folder) for folder in folders()} | {MORTISE / "mortise.hpp": everything()}


if __name__ == "__main__":
    for path, text in expected().items():
        path.write_text(text)
