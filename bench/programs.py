"""The real programs: how each is started, and the inputs they work on, made once by fixed rules.

A program is one process under the launcher: where a tool would start others (a compiler driver, git repack), the
process that does the work is started by itself. Its answer is hashed, which finds out an allocator that breaks it.
"""

import os
import pathlib
import random
import shutil
import subprocess
import time

WORDS = (
    "time year people way day man thing woman life child world school state family student group country problem "
    "hand part place case week company system program question work government number night point home water"
).split()


def _text(rng: random.Random, count: int) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(count))


def _git_history(place: pathlib.Path) -> None:
    """A repository of 400 commits over 150 files, fed to git fast-import."""
    rng = random.Random(7)
    files = {f"dir{n % 10}/file{n}.txt": [_text(rng, 10) for _ in range(200)] for n in range(150)}
    stream = []
    for commit in range(400):
        stream.append(
            f"commit refs/heads/main\ncommitter A <a@example.org> {1600000000 + commit * 60} +0000\ndata 6\nchange\n"
        )
        for name in rng.sample(sorted(files), 8) if commit else sorted(files):
            files[name][rng.randrange(200)] = _text(rng, 10)
            body = "\n".join(files[name])
            stream.append(f"M 644 inline {name}\ndata {len(body)}\n{body}\n")
    subprocess.run(["git", "init", "-q", "--bare", place], check=True)
    subprocess.run(["git", "-C", place, "fast-import", "--quiet"], input="".join(stream), text=True, check=True)


CPP = r"""
#include <algorithm>
#include <filesystem>
#include <functional>
#include <future>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <unordered_map>
#include <vector>
template <int N> struct Table {
  std::map<std::string, std::vector<int>> by_name;
  std::unordered_map<int, std::function<int(int)>> calls;
  int fill() {
    for (int i = 0; i < N; ++i) { by_name[std::to_string(i)].push_back(i); calls[i] = [i](int x) { return x + i; }; }
    int sum = 0;
    for (auto& [n, v] : by_name) { std::sort(v.begin(), v.end()); sum += v.front() + calls[v.front()](N); }
    return sum;
  }
};
int main() {
  std::ostringstream out;
  out << Table<1>{}.fill() << Table<2>{}.fill() << Table<3>{}.fill() << Table<4>{}.fill();
  std::cout << out.str() << '\n';
}
"""

PYTHON = """
import json
for round in range(7):
    rows = [{"id": i, "name": "n%d" % i, "v": [i] * 5} for i in range(12000)]
    assert len(json.loads(json.dumps(rows))) == 12000
    index = {}
    for row in rows:
        index.setdefault(row["name"][:3], []).append(row)
    print(sum(len(v) for v in index.values()))
"""

PERL = 'for my $r (1..3){my %h; $h{$_}=[$_,"x"x($_%100)] for 1..100000; print scalar(keys %h)," "} print "\\n"'
LUA = (
    "local t = {} for r = 1, 6 do t = {} for i = 1, 120000 do t[i] = {i, tostring(i) .. 'x'} end end "
    "local n = 0 for _, p in ipairs(t) do n = n + #p[2] end print(#t, n)"
)
SQL = (
    "create table t(a,b,c); with recursive n(i) as (values(1) union all select i+1 from n where i<250000) "
    "insert into t select i, printf('%08x%012x', i*2654435761 & 4294967295, i*7919), i%1000 from n; "
    "create index x on t(b); select count(*), max(length(g)) from (select group_concat(b) g from t group by c);"
)
XSL = """<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
<xsl:key name="by" match="item" use="@group"/>
<xsl:template match="/"><out><xsl:for-each select="list/item[count(.|key('by',@group)[1])=1]">
<xsl:sort select="@group"/><group name="{@group}" count="{count(key('by',@group))}">
<xsl:for-each select="key('by',@group)"><xsl:sort select="@size" data-type="number"/>
<i><xsl:value-of select="concat(@size,':',substring(.,1,12))"/></i></xsl:for-each></group>
</xsl:for-each></out></xsl:template></xsl:stylesheet>"""


def prepare(place: pathlib.Path) -> None:
    """Makes the inputs in `place`; the same on every machine but for the compiler's headers."""
    if (place / "ready").exists():
        return
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    rng = random.Random(11)
    (place / "in.cpp").write_text(CPP)
    subprocess.run(["g++", "-std=c++17", "-E", "in.cpp", "-o", "in.ii"], cwd=place, check=True)
    (place / "in.py").write_text(PYTHON)
    (place / "in.json").write_text(
        "["
        + ",".join(
            f'{{"id":{n},"name":"{rng.choice(WORDS)}{n % 97}","tags":["{rng.choice(WORDS)}","{rng.choice(WORDS)}"],'
            f'"text":"{_text(rng, 6)}"}}'
            for n in range(40_000)
        )
        + "]"
    )
    (place / "in.xsl").write_text(XSL)
    (place / "in.xml").write_text(
        "<list>"
        + "".join(
            f'<item group="{rng.choice(WORDS)}{n % 31}" size="{rng.randrange(9999)}">{_text(rng, 8)}</item>'
            for n in range(60_000)
        )
        + "</list>"
    )
    _git_history(place / "repo.git")
    (place / "ready").write_text("")


JQ = "group_by(.name) | map({n: .[0].name, c: length, t: (map(.tags[]) | unique | length)})"
DB_BENCH = (
    "db_bench --benchmarks=fillrandom,readrandom,overwrite --num=40000 --seed=1 --threads=2 --compression_type=none"
)
PACK = "pack-objects --all --no-reuse-delta --no-reuse-object --threads=2 --window=20 --stdout -q"


def commands(place: pathlib.Path) -> dict[str, tuple[str, list[str], dict[str, str]]]:
    """For each program: the tool it needs, its command, and its own environment."""
    done = subprocess.run(["g++", "-print-prog-name=cc1plus"], text=True, capture_output=True)
    compiler, python = done.stdout.strip(), "/usr/bin/python3"
    socket, store = f"{place}/scratch/r.sock", f"{place}/scratch/db"
    server = ["redis-server", "--port", "0", "--unixsocket", socket, "--save", "", "--appendonly", "no"]
    return {
        "redis": ("redis-server", server, {}),
        "sqlite": ("sqlite3", ["sqlite3", ":memory:", SQL], {}),
        "compile": (compiler, [compiler, *f"-quiet -O0 -std=c++17 {place}/in.ii -o /dev/null".split()], {}),
        "python": (python, [python, "-s", f"{place}/in.py"], {"PYTHONMALLOC": "malloc"}),
        "perl": ("perl", ["perl", "-e", PERL], {"PERL_HASH_SEED": "0"}),
        "jq": ("jq", ["jq", "-c", JQ, f"{place}/in.json"], {}),
        "lua": ("lua5.4", ["lua5.4", "-e", LUA], {}),
        "rocksdb": ("db_bench", [*DB_BENCH.split(), f"--db={store}"], {}),
        "git": ("git", ["git", "-C", f"{place}/repo.git", *PACK.split()], {}),
        "xalan": ("xalan", ["xalan", "-in", f"{place}/in.xml", "-xsl", f"{place}/in.xsl"], {}),
    }


# What these print holds times, or an order that threads decide: their success is the check.
UNSTEADY = {"redis", "rocksdb", "git"}


def drive_redis(place: pathlib.Path, launcher: subprocess.Popen) -> None:
    """Puts load on the server that the launcher has started, then has it end."""
    socket = str(place / "scratch" / "r.sock")
    client = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    for _ in range(200):
        asked = subprocess.run(["redis-cli", "-s", socket, "ping"], env=client, capture_output=True)
        if asked.stdout.strip() == b"PONG" or launcher.poll() is not None:
            break
        time.sleep(0.02)
    subprocess.run(
        [
            "redis-benchmark",
            "-s",
            socket,
            "-n",
            "60000",
            "-c",
            "20",
            "-q",
            "-t",
            "set,get,lpush,lrange_100",
            "-P",
            "16",
            "-r",
            "30000",
            "-d",
            "64",
        ],
        env=client,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    subprocess.run(["redis-cli", "-s", socket, "shutdown", "nosave"], env=client, capture_output=True)


def fresh(place: pathlib.Path) -> None:
    """Every run starts with an empty scratch folder."""
    shutil.rmtree(place / "scratch", ignore_errors=True)
    (place / "scratch").mkdir(parents=True)
