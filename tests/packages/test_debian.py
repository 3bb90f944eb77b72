"""The Debian packages, made by CPack from the build tree, installed by dpkg in a clean root and used there by strangers.

If one failed, `apt install ./mortise*.deb` would leave a user without a working allocator, or without a way to remove it again.
"""

from packages.clean_root import run_in_clean_root
from packages.conftest import STRANGERS, shell


def test_there_are_three_that_name_what_they_need(debs, tmp_path):
    assert sorted(debs) == ["libmortise-dev", "libmortise0", "mortise"]
    field = {name: shell("dpkg-deb", "-f", path, "Depends", cwd=tmp_path).ok().out for name, path in debs.items()}
    assert "libc6 (>= 2." in field["libmortise0"] and "libmortise0 (= " in field["libmortise-dev"] and "python3-typer" in field["mortise"]


def test_libraries_are_installed_used_and_removed(debs):
    script = """
    dpkg -i libmortise0_*.deb libmortise-dev_*.deb
    cc heaps.c -lmortise -o heaps && ./heaps
    cc pool.c $(pkg-config --cflags --libs mortise_pool) -o pool && ./pool
    cc malloc.c $(pkg-config --cflags --libs mortise-hslab) -o malloc && MORTISE_VERBOSE=1 ./malloc 2>&1 | grep -o 'hslab active'
    LD_PRELOAD=libmortise-wfslab.so MORTISE_VERBOSE=1 sort /dev/null 2>&1 | grep -o 'wfslab active'
    printf 'cmake_minimum_required(VERSION 3.24)\nproject(p C)\nfind_package(mortise REQUIRED)\nadd_executable(m malloc.c)
    target_link_libraries(m mortise::tlsf_override)' > CMakeLists.txt
    cmake -B build >/dev/null && cmake --build build >/dev/null && MORTISE_VERBOSE=1 build/m 2>&1 | grep -o 'tlsf active'
    dpkg -L libmortise-dev | grep man3/libmortise.3.gz
    dpkg -r libmortise-dev libmortise0
    find /usr /etc -name '*mortise*' | wc -l
    """
    sources = [STRANGERS / "cmake" / name for name in ("heaps.c", "pool.c", "malloc.c")]
    ran = run_in_clean_root(script, [debs["libmortise0"], debs["libmortise-dev"], *sources]).ok()
    said = [line for line in ran.out.splitlines() if line.startswith(("1", "hslab", "wfslab", "tlsf", "/usr", "0")) or line.isdigit()]
    assert said == ["1", "1", "hslab active", "wfslab active", "tlsf active", "/usr/share/man/man3/libmortise.3.gz", "0"], ran.out


def test_debians_checker_finds_nothing(debs, tmp_path):
    ran = shell("lintian", "--allow-root", "--no-cfg", "--fail-on", "error,warning", *debs.values(), cwd=tmp_path)
    assert ran.status == 0, ran.out + ran.err
