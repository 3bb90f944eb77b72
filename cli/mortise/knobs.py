"""Whether anything would read a knob: a variable that this version does not know is ignored without a word, and a curve of it is a
tie that means nothing. The name must occur in the program, in what it links, or in the arm's library; where it does not, that is said.
"""

import re
from functools import lru_cache
from pathlib import Path

from mortise import elf
from mortise.arms import Arm
from mortise.sweeps import Sweep

KEY_LENGTH_MIN = 4  # OCAMLRUNPARAM's o= would be found in anything


def names_of(sweep: Sweep) -> list[str]:
    """The variable, and the keys that its value sets: MALLOC_CONF, dirty_decay_ms, muzzy_decay_ms."""
    keys = re.findall(r"([A-Za-z_][\w.]*)[:=]", sweep.template)
    return [sweep.name, *(key for key in keys if len(key) >= KEY_LENGTH_MIN)]


def spellings(name: str) -> list[bytes]:
    """As it stands, and as an allocator keeps it that adds its own prefix: MIMALLOC_PURGE_DELAY is purge_delay there."""
    after_prefix = name.strip("_").partition("_")[2].lower()
    return [name.encode()] + ([after_prefix.encode()] if len(after_prefix) >= KEY_LENGTH_MIN and name.isupper() else [])


@lru_cache(maxsize=256)
def content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def readers(image: elf.Image, arm: Arm) -> list[Path]:
    """The files in which a reader of the environment could be."""
    found = [image.path, *(library.path for library in elf.libraries(image))] if image.dynamic else [image.path]
    if image.interpreter:
        found.append(Path(image.interpreter))
    return found + ([Path(arm.library)] if arm.library else [])


def unverified(sweeps: list[Sweep], arms: list[Arm], image: elf.Image) -> list[str]:
    """One line for each name that nothing in sight would read."""
    said = []
    for sweep in sweeps:
        if sweep.in_arguments:
            continue
        for arm in arms:
            if not sweep.applies_to(arm.name) or arm.argv:
                continue
            texts = [content(path) for path in readers(image, arm)]
            for name in names_of(sweep):
                if not any(spelling in text for spelling in spellings(name) for text in texts):
                    said.append(f"--sweep: nothing that '{arm.name}' loads mentions {name}: unverified that it has any effect")
    return list(dict.fromkeys(said))
