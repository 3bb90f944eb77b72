"""All three Debian packages with what they need from Debian. If it failed, `apt install ./mortise*.deb` would leave a command that does not start."""

from packages.clean_root import run_in_clean_root


def test_the_command_line_runs_on_debians_own_python_packages(debs):
    script = """
    apt-get update -q >/dev/null
    apt-get install -y -q --no-install-recommends ./libmortise0_*.deb ./mortise_*.deb ./libmortise-dev_*.deb >/dev/null
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
    ran = run_in_clean_root(script, list(debs.values())).ok()
    assert ran.out.splitlines()[0].startswith("mortise 0.") and "libmortise-hslab.so" in ran.out and ran.out.endswith("gone\n"), ran.out + ran.err
