"""Should the code that a page shows not compile, a reader's first program would not."""

import re
import subprocess

import pytest

from support.allocators import BUILD, ROOT, environment

BLOCK = re.compile(r"^```(c|cpp)\n(#include .*?)^```", re.M | re.S)  # whole ones; pieces of a stack begin otherwise
COMPILERS = {"c": ["cc", "-std=c11"], "cpp": ["c++", "-std=c++20"]}
BEFORE = {"c": "", "cpp": "#include <memory_resource>\n#include <string>\n#include <unordered_map>\n#include <vector>\n"}
USE = {"c": "text[0] = 0;", "cpp": 'names[1] = "one", numbers.push_back(1);\n'
       "auto* one = static_cast<char*>(arena.allocate(4)); if (one < memory || one >= memory + sizeof memory) return 1;"}


@pytest.mark.parametrize("language, code", BLOCK.findall((ROOT / "docs/heaps.md").read_text()), ids=lambda value: value[:3])
def test_code_of_heaps_compiles_and_runs(language, code, tmp_path):
    includes, body = re.match(r"((?:#include [^\n]*\n)+)(.*)", code, re.S).groups()
    if language == "c":  # used where it is still held
        body = body.replace("mo_heap_free", USE["c"] + "\nmo_heap_free", 1)
    else:
        body += USE["cpp"]
    source = tmp_path / f"page.{language}"
    source.write_text(f"{BEFORE[language]}{includes}int main(void) {{\n{body}\nreturn 0;\n}}\n")
    subprocess.run([*COMPILERS[language], "-Wall", "-Werror", f"-I{ROOT / 'include'}", source, f"-L{BUILD / 'lib'}",
                    f"-Wl,-rpath,{BUILD / 'lib'}", "-lmortise", "-o", tmp_path / "page"], check=True)
    assert subprocess.run([tmp_path / "page"], env=environment(None), timeout=600).returncode == 0


POOLS = re.search(r"^```cpp\n(mortise::array_of_pools<.*?)^```", (ROOT / "docs/pools.md").read_text(), re.M | re.S)[1]
COUNTED = re.search(r"`(array_of_pools<Message, [^`]*CountedByThread<>>)`", (ROOT / "docs/pools.md").read_text())[1]


def test_code_of_pools_compiles_and_runs(tmp_path):
    source = tmp_path / "page.cpp"
    source.write_text(f"#include <mortise/pool.hpp>\nstruct Message {{ long words[8]; }};\nint main() {{\n{POOLS}\n"
                      f"mortise::{COUNTED} counted(1);\nwhile (counted.try_acquire()) {{}}\nreturn counted.contention().failures == 1 ? 0 : 1;\n}}\n")
    subprocess.run(["c++", "-std=c++20", "-Wall", "-Werror", f"-I{ROOT / 'include'}", source, "-o", tmp_path / "page", "-pthread"], check=True)
    assert subprocess.run([tmp_path / "page"], env=environment(None), timeout=600).returncode == 0


@pytest.mark.parametrize("source", sorted((ROOT / "examples").glob("*.cpp")), ids=lambda path: path.stem)
def test_an_example_says_how_to_compile_it(source, tmp_path):
    """As its head has it, from the folder of the checkout."""
    line = re.search(r"^//   ((?:c|g)\+\+ .*)$", source.read_text(), re.M)[1]
    for name, there in (("examples", ROOT / "examples"), ("include", ROOT / "include"), ("build", BUILD)):
        (tmp_path / name).symlink_to(there)
    assert subprocess.run(["bash", "-ec", line], cwd=tmp_path, env=environment(None), timeout=600).returncode == 0


def test_there_is_such_code():
    assert [language for language, _ in BLOCK.findall((ROOT / "docs/heaps.md").read_text())] == ["c", "cpp"]
