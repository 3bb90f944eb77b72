"""What `cmake --install` lays down, used by strangers: a project that finds us with CMake, one that asks pkg-config, and the command line.

If one failed, a program that names mortise in its build would not build, or would run on another malloc than it named.
"""

import re
import shutil

import pytest

from packages.conftest import STRANGERS, shell
from support.allocators import ROOT

OVERRIDDEN = {"malloc_hslab": "hslab", "malloc_hslab_override": "hslab", "malloc_hslab_override_static": "hslab",
              "malloc_tlsf_override_static": "tlsf", "malloc_hslab+affinity_override": "hslab+affinity", "wholly_static": "hslab",
              "quiet_hslab_override": "hslab", "quiet_hslab_override_static": "hslab", "heaps_and_malloc": "hslab",
              "fails_hslab_override": "hslab", "fails_hslab_override_static": "hslab", "opens_static": "hslab"}
SAID = {"cpp": "1\n", "malloc": "done\n", "wholly": "done\n", "quiet": "", "fails": "asked 3 times, null\n",
        "opens": "told\n", "heaps": "1\n", "pool": "1\n", "layers": ""}


@pytest.fixture(scope="module")
def project(installed, tmp_path_factory):
    """The stranger's project, configured and built against the installed copy by its prefix alone."""
    folder = tmp_path_factory.mktemp("stranger")
    shutil.copytree(STRANGERS / "cmake", folder, dirs_exist_ok=True)
    shell("cmake", "-B", "build", "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={installed}", cwd=folder).ok()
    shell("ninja", "-C", "build", cwd=folder).ok()
    return folder


@pytest.mark.parametrize("program", [*OVERRIDDEN, "heaps", "heaps_static", "pool", "pool_static", "cpp_heaps", "cpp_pool", "layers"])
def test_a_project_that_finds_mortise_by_cmake(project, program):
    ran = shell(project / "build" / program, cwd=project, MORTISE_VERBOSE="1").ok()
    assert ran.out == SAID[re.split("_", program)[0]]
    active = re.findall(r"^mortise \S+ (\S+) active", ran.err, flags=re.M)
    expected = [OVERRIDDEN[program]] if program in OVERRIDDEN else []
    assert [name for name in active if name != "heaps"] == expected, ran.err


@pytest.mark.parametrize("program", ["quiet_hslab_override", "quiet_hslab_override_static"])
def test_libraries_of_the_program_are_served_too(project, program):
    """operator new of libstdc++, called by a library that was built without us, for a program that calls no malloc."""
    ran = shell(project / "build" / program, cwd=project, MORTISE_STATS="exit").ok()
    assert re.search(r"hslab", ran.err) and re.search(r"\b1024\b|\b1\.0 KiB", ran.err), ran.err


def test_a_project_in_c_alone_is_asked_for_no_cpp(installed, tmp_path):
    for name in ("heaps.c", "pool.c"):
        shutil.copy(STRANGERS / "cmake" / name, tmp_path)
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.24)\nproject(p C)\nfind_package(mortise 0.1 REQUIRED)\n"
        "add_executable(heaps heaps.c)\ntarget_link_libraries(heaps PRIVATE mortise::mortise)\n"
        "add_executable(pool pool.c)\ntarget_link_libraries(pool PRIVATE mortise::pool)\n")
    shell("cmake", "-B", "build", "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={installed}", cwd=tmp_path).ok()
    shell("ninja", "-C", "build", cwd=tmp_path).ok()
    assert shell(tmp_path / "build/pool", cwd=tmp_path).ok().out == SAID["pool"]


@pytest.mark.parametrize("header, standard, needed", [("heap", 14, 17), ("pool", 17, 20), ("mortise", 17, 20), ("allocators/hslab", 17, 20)])
def test_headers_say_which_standard_they_need(tmp_path, header, standard, needed):
    """First of all that the compiler says: what follows makes no sense to anybody."""
    (tmp_path / "program.cpp").write_text(f"#include <mortise/{header}.hpp>\nint main() {{}}\n")
    ran = shell("c++", f"-std=c++{standard}", f"-I{ROOT}/include", "-fsyntax-only", "program.cpp", cwd=tmp_path)
    first = next(line for line in ran.err.splitlines() if "error" in line)
    assert f"C++{needed}: -std=c++{needed}" in first, ran.err[:1000]


@pytest.mark.parametrize("compiler", ["g++", "clang++-16"])
def test_headers_are_quiet_under_a_strangers_warnings(tmp_path, compiler):
    """pkg-config names the folder with -I, so what the program's compiler warns of in headers is the reader's to look at."""
    warnings = "-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wold-style-cast -Wshadow -Wcast-align -Wcast-qual -Wundef"
    shell(compiler, "-std=c++20", *warnings.split(), "-Werror", f"-I{ROOT}/include", "-fsyntax-only", STRANGERS / "cmake/warned.cpp", cwd=tmp_path).ok()


def test_a_version_that_does_not_fit_is_refused(installed, tmp_path):
    (tmp_path / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.24)\nproject(p C)\nfind_package(mortise 0.2 REQUIRED)\n")
    ran = shell("cmake", "-B", "build", f"-DCMAKE_PREFIX_PATH={installed}", cwd=tmp_path)
    assert ran.status != 0 and "compatible with requested version" in ran.err


def test_components_are_targets_by_their_names(installed, tmp_path):
    project = "cmake_minimum_required(VERSION 3.24)\nproject(p C)\nfind_package(mortise 0.1 REQUIRED COMPONENTS {})\n"
    (tmp_path / "CMakeLists.txt").write_text(project.format("pool hslab_override OPTIONAL_COMPONENTS no_such"))
    shell("cmake", "-B", "build", f"-DCMAKE_PREFIX_PATH={installed}", cwd=tmp_path).ok()
    (tmp_path / "CMakeLists.txt").write_text(project.format("pool no_such"))
    ran = shell("cmake", "-B", "build", f"-DCMAKE_PREFIX_PATH={installed}", cwd=tmp_path)
    assert ran.status != 0 and "mortise has no target mortise::no_such" in ran.err, ran.err


def test_a_project_that_adds_the_checkout_is_told_to_install_it(tmp_path):
    (tmp_path / "CMakeLists.txt").write_text(f"cmake_minimum_required(VERSION 3.25)\nproject(p C CXX)\nadd_subdirectory({ROOT} mortise)\n")
    ran = shell("cmake", "-B", "build", cwd=tmp_path)
    assert ran.status != 0 and ran.err.count("CMake Error") == 1 and "find_package(mortise)" in ran.err, ran.err


@pytest.mark.parametrize("package, source", [("mortise", "heaps.c"), ("mortise_pool", "pool.c"), ("mortise-wfslab", "malloc.c"), ("mortise-hslab+affinity", "malloc.c")])
def test_a_program_built_with_pkg_config(installed, libdir, tmp_path, package, source):
    path = {"PKG_CONFIG_PATH": str(libdir / "pkgconfig")}
    flags = shell("pkg-config", "--cflags", "--libs", package, cwd=tmp_path, **path).ok().out.split()
    shell("cc", STRANGERS / "cmake" / source, *flags, f"-Wl,-rpath,{libdir}", "-o", "program", cwd=tmp_path).ok()
    ran = shell(tmp_path / "program", cwd=tmp_path, MORTISE_VERBOSE="1").ok()
    assert ran.out == SAID[source.removesuffix(".c")]
    if package.startswith("mortise-"):
        assert f" {package.removeprefix('mortise-')} active" in ran.err


def test_the_archive_that_pkg_config_names(libdir, tmp_path):
    path = {"PKG_CONFIG_PATH": str(libdir / "pkgconfig")}
    archive = shell("pkg-config", "--variable=archive", "mortise-hslab", cwd=tmp_path, **path).ok().out.strip()
    shell("cc", STRANGERS / "cmake/malloc.c", "-Wl,--whole-archive", archive, "-Wl,--no-whole-archive", "-o", "program", cwd=tmp_path).ok()
    assert " hslab active" in shell(tmp_path / "program", cwd=tmp_path, MORTISE_VERBOSE="1").ok().err


PKG_CONFIG_LINES = re.findall(r"^cc server\.c [^#\n]+", (ROOT / "docs/install.md").read_text(), flags=re.M)


@pytest.mark.parametrize("line", PKG_CONFIG_LINES)
def test_the_documented_lines_for_pkg_config(libdir, tmp_path, line):
    """As they stand: a reader copies them. The loader is told where the copy lies, as the page says."""
    shutil.copy(STRANGERS / "cmake/malloc.c", tmp_path / "server.c")
    path = {"PKG_CONFIG_PATH": str(libdir / "pkgconfig"), "LD_LIBRARY_PATH": str(libdir)}
    shell("sh", "-ec", line, cwd=tmp_path, **path).ok()
    if "rpath" in line:
        del path["LD_LIBRARY_PATH"]
    said = shell(tmp_path / "a.out", cwd=tmp_path, **path, MORTISE_VERBOSE="1").ok()
    assert (" hslab active" in said.err) == ("mortise-hslab" in line), said.err


def test_there_are_such_lines():
    assert len(PKG_CONFIG_LINES) == 4 and any("whole-archive" in line for line in PKG_CONFIG_LINES)


def test_every_allocator_has_its_package(libdir):
    libraries = {path.stem.removeprefix("lib") for path in libdir.glob("libmortise-*.so")}
    packages = {path.stem for path in (libdir / "pkgconfig").glob("mortise-*.pc")}
    assert packages == {name for name in libraries if "isolate" not in name and "mapcache" not in name} and "mortise-hslab" in packages


def test_the_command_line_of_an_installed_copy(command, libdir, tmp_path):
    assert command("path", "hslab", cwd=tmp_path).ok().out == f"{libdir}/libmortise-hslab.so\n"
    assert "CoreCache" in command("explain", "hslab", cwd=tmp_path).ok().out
    ran = command("run", "--alloc", "wfslab", "--", "sh", "-c", "grep -o 'libmortise-.*so' /proc/$$/maps | sort -u", cwd=tmp_path).ok()
    assert ran.out == "libmortise-wfslab.so\n"
    assert "hslab" in command("latency", "--arms", "hslab", "--", "sort", "/dev/null", cwd=tmp_path).ok().out


def test_what_is_missing_is_named(installed, tmp_path):
    """Without its Python packages the command says which, instead of a traceback."""
    ran = shell("python3", "-S", "-B", installed / "bin/mortise", "list", cwd=tmp_path)
    assert ran.status == 1 and ran.err.startswith("mortise: the Python package 'typer' is missing") and ran.err.count("\n") == 1


def test_nothing_installed_leads_back_to_the_tree(installed):
    texts = [path for path in installed.rglob("*") if path.suffix in {".cmake", ".pc", ".json", ".py"}]
    assert len(texts) > 20
    assert not [path for path in texts if str(ROOT) in path.read_text()]


def test_debians_own_files_are_in_its_packages_alone(installed):
    assert (installed / "share/doc/libmortise-dev/copyright").is_file()
    assert not (installed / "share/lintian").exists() and not list(installed.rglob("*.Debian.gz"))


def test_sonames_and_versions_of_symbols(libdir, tmp_path):
    for name, symbol in (("mortise", "mo_heap_create"), ("mortise_pool", "mo_pool_create")):
        dynamic = shell("readelf", "-dW", libdir / f"lib{name}.so", cwd=tmp_path).ok().out
        assert f"soname: [lib{name}.so.0]" in dynamic
        symbols = shell("nm", "-D", "--with-symbol-versions", libdir / f"lib{name}.so.0", cwd=tmp_path).ok().out
        assert f"{symbol}@@MORTISE_0.1" in symbols
        defined = [line.split()[-1] for line in symbols.splitlines() if " U " not in line and " w " not in line]
        assert all("@@MORTISE_" in name or name.startswith("MORTISE_") for name in defined), defined


def test_every_package_has_the_same_version():
    version = re.search(r"^project\(mortise VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(), flags=re.M)[1]
    for file, pattern in (("pyproject.toml", r'^version = "(.+)"'), ("Cargo.toml", r'^version = "(.+)"'), ("cli/mortise/__init__.py", r'^__version__ = "(.+)"')):
        assert re.search(pattern, (ROOT / file).read_text(), flags=re.M)[1] == version, file


def test_the_command_line_says_all_that_it_lacks_of_python(tmp_path):
    """By the names that Debian has: who is told of one at a time comes back eight times."""
    bin, package = tmp_path / "bin", tmp_path / "lib/python3/dist-packages/mortise"
    for folder in (bin, package):
        folder.mkdir(parents=True)
    shutil.copy(ROOT / "cli/launcher/mortise_installed.py", bin)
    named = re.search(r"python3-typer[^\"]*", (ROOT / "cmake/packages.cmake").read_text())[0].split(", ")
    for lacks, advice in (("elftools.elf", f"'apt install {' '.join(named)}'"), ("mortise.entry", "install mortise anew")):
        (package / "entry.py").write_text(f"raise ModuleNotFoundError(name='{lacks}')\n")
        ran = shell("/usr/bin/python3", "-S", bin / "mortise_installed.py", cwd=tmp_path)
        assert ran.status == 1 and ran.err.startswith(f"mortise: the Python package '{lacks}' is missing: {advice}"), ran.err
    assert f"apt install {' '.join(named)}" in (ROOT / "docs/install.md").read_text()
