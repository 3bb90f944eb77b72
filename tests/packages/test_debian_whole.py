"""All three Debian packages with what they need from Debian. If it failed, `apt install ./mortise*.deb` would leave a command that does not start."""

from packages.clean_root import run_in_clean_root
from support.allocators import ROOT


def test_the_command_line_runs_on_debians_own_python_packages(debs):
    script = """
    apt-get update -q >/dev/null
    apt-get install -y -q --no-install-recommends ./libmortise0_*.deb ./mortise_*.deb >/dev/null
    mortise build mine.toml -o libmine.so 2>&1 | grep -o "install Debian's libmortise-dev"
    apt-get install -y -q --no-install-recommends ./libmortise-dev_*.deb >/dev/null
    mortise build mine.toml -o libmine.so
    mortise run --alloc ./libmine.so -- sh -c 'grep -o "libmine.so" /proc/$$/maps | sort -u'
    mortise --version
    mortise list | grep -c hslab
    mortise explain wfslab | grep -o 'lock-free\\|wait-free' | head -1
    mortise run --alloc hslab -- sh -c 'grep -o "libmortise-.*so" /proc/$$/maps | sort -u'
    mortise doctor -- sort | head -3
    mortise compare --arms glibc,hslab --rounds 3 --warmup 0 -- sort /etc/passwd >/dev/null || test $? = 3
    mortise profile -- sort /etc/passwd >/dev/null
    dpkg -L mortise | grep man1/mortise-compare.1.gz
    apt-get purge -y -q mortise libmortise0 libmortise-dev >/dev/null
    test -e /usr/bin/mortise || echo gone
    """
    ran = run_in_clean_root(script, [*debs.values(), ROOT / "examples/mine.toml"]).ok()
    for said in ("install Debian's libmortise-dev", "mortise 0.", "libmine.so\n", "libmortise-hslab.so\n", "will serve it", "man1/mortise-compare.1.gz"):
        assert said in ran.out, ran.out + ran.err
    assert ran.out.endswith("gone\n"), ran.out + ran.err
