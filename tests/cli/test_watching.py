"""What --watch found, in words: a line of memory that nobody can name is of no use to who must mend the program."""

import re
import subprocess

import pytest
from mortise import symbols, watching

from cli.conftest import compile_c
from cli.test_page import browser  # noqa: F401

SOURCE = """
struct pair { long left, right; };
static struct pair neighbours __attribute__((aligned(64))) = {1, 1};
long exported __attribute__((aligned(64))) = 1;
static int beside = 1;
__asm__(".pushsection .data\\n.balign 64\\n.skip 32\\n.type one,@object\\none: .skip 16\\n.size one,16\\n"
        ".type two,@object\\ntwo: .skip 32\\n.size two,32\\n.popsection");
int main(void) { return (int)(neighbours.left + neighbours.right + exported) + beside; }
"""


def at(program, name):
    """Where `nm` says that a variable lies, from the first byte that is loaded."""
    value = re.search(rf"^(\w+) \w {name}$", subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout, re.M)[1]
    headers = subprocess.run(["readelf", "-lW", program], capture_output=True, text=True, check=True).stdout
    return int(value, 16) - int(re.search(r"LOAD +0x\w+ (0x\w+)", headers)[1], 16)


def line_at(module, address, writers):
    """One line, as the runtime writes it: it names what the dynamic symbol table does, which is nothing in most programs."""
    found = [{"thread": i, "first_byte": first, "last_byte": last} for i, (first, last) in enumerate(writers, 1)]
    place = {"module": module, "offset": (address & ~63) + min(first for first, _ in writers), "symbol": ""}
    return {"address": 0x7F0000000000 + (address & ~63), "sharing": "false", "rounds": 5, "object": None, "global": place, "writers": found}


@pytest.mark.parametrize("flags", (["-pie", "-fPIE"], ["-no-pie", "-fno-pie"]))
def test_variables_are_named_without_the_dynamic_symbol_table(tmp_path, flags):
    (tmp_path / "prog.c").write_text(SOURCE)
    program = str(compile_c(tmp_path / "prog.c", tmp_path / "prog", "-O0", *flags))
    beside = at(program, "beside")
    lines = [line_at("prog", at(program, "neighbours"), [(0, 7), (8, 15)]), line_at("prog", at(program, "exported"), [(0, 7), (0, 7)]),
             line_at("prog", beside, [(beside & 63, beside & 63), ((beside & 63) + 3, (beside & 63) + 3)])]  # fmt: skip
    told = watching.told({"rounds": 15, "lines": lines}, {"prog": program})["lines"]
    assert [line["global"]["symbol"] for line in told] == ["neighbours", "exported", "beside"]
    one = at(program, "one")
    assert one & 63 == 32, "a variable in the middle of a line, with a neighbour behind it that goes on in the next line"
    for writers, expected in (([(40, 47), (32, 35)], "one"), ([(40, 47), (48, 51)], "one, two"), ([(56, 59), (60, 63)], "two")):
        found, = watching.told({"rounds": 5, "lines": [line_at("prog", one, writers)]}, {"prog": program})["lines"]
        assert found["global"]["symbol"] == expected
    found, = watching.told({"rounds": 5, "lines": [line_at("prog", one + 32, [(0, 7), (8, 15)])]}, {"prog": program})["lines"]
    assert found["global"]["symbol"] == "two"
    assert watching.what(told[0]) == "neighbours in prog" and told[0]["global"]["module"] == program
    subprocess.run(["strip", program], check=True)
    lines = [line_at(program, 64, [(0, 7), (8, 15)])]
    symbols.variables.cache_clear()
    assert watching.what(watching.told({"rounds": 15, "lines": lines}, {})["lines"][0]) == "0x40 in prog", "nobody knows, nobody guesses"


def test_variables_of_cpp_have_their_names_in_the_source(tmp_path):
    (tmp_path / "prog.cpp").write_text("namespace deep { static long counters[8] __attribute__((aligned(64))) = {1}; }\n"
                                       "int main(int c, char**) { return int(deep::counters[c]++); }\n")  # fmt: skip
    program = str(tmp_path / "prog")
    subprocess.run(["g++", "-O0", tmp_path / "prog.cpp", "-o", program], check=True)
    found, = watching.told({"rounds": 5, "lines": [line_at("prog", at(program, "_ZN4deepL8countersE"), [(0, 7), (8, 15)])]}, {"prog": program})["lines"]
    assert watching.what(found) == "deep::counters in prog"


def test_the_heat_map_fits_into_a_window_of_1100_pixels_whoever_wrote_what(browser, tmp_path):  # noqa: F811
    """Names of C++ have hundreds of characters without a space, and a line can have eight writers."""
    line = line_at("prog", 0, [(8 * i, 8 * i + 7) for i in range(8)]) | {"share": 0.9371}
    line["global"]["symbol"] = "std::map<std::string,std::vector<std::pair<int,double>>>::" + "inner::" * 40 + "counter"
    (tmp_path / "map.html").write_text(watching.page(["./a-program", "--with", "arguments" * 30], {"rounds": 15, "lines": [line, line]}))
    page = browser.new_page(viewport={"width": 1100, "height": 800})
    page.goto(f"file://{tmp_path}/map.html")
    assert page.evaluate("document.documentElement.scrollWidth") <= 1100
    cells = [page.locator("td.b").nth(i).bounding_box() for i in range(64)]
    assert len({cell["y"] for cell in cells}) == 1 and all(cell["width"] >= 4 for cell in cells), "one row of bytes that can be seen"
    assert page.locator("td.w").first.bounding_box()["width"] >= 100
