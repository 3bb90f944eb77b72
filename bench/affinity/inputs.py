"""Writes the inputs of the real programs: the same bytes every time. inputs.py FOLDER [SCALE]."""

import json
import random
import sys
from pathlib import Path


def site(scale: float) -> str:
    """An auction's people and items, as XML."""
    people, items = int(30_000 * scale), int(40_000 * scale)
    words = [f"word{i}" for i in range(400)] + ["pool"]
    lines = ["<site><people>"]
    for i in range(people):
        lines.append(
            f'<person id="p{i}"><name>Name {random.randrange(5000)}</name><city>City {i % 97}</city><watch ref="i{random.randrange(items)}"/></person>'
        )
    lines.append("</people><items>")
    for i in range(items):
        text = "".join(f"<par>{' '.join(random.choices(words, k=6))}</par>" for _ in range(1 + i % 3))
        lines.append(
            f'<item id="i{i}"><name>Item {i}</name><price>{random.randrange(1, 99999) / 100}</price>'
            f'<seller ref="p{random.randrange(people)}"/><desc>{text}</desc></item>'
        )
    return "\n".join([*lines, "</items></site>"])


STYLE = """<?xml version="1.0"?>
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
<xsl:key name="person" match="person" use="@id"/><xsl:key name="item" match="item" use="@id"/>
<xsl:template match="/"><out>
<xsl:for-each select="site/items/item"><xsl:sort select="price" data-type="number"/>
<i n="{name}"><xsl:value-of select="key('person', seller/@ref)/city"/>/<xsl:value-of select="count(desc/par)"/></i></xsl:for-each>
<xsl:for-each select="site/people/person"><xsl:sort select="name"/><p><xsl:value-of select="key('item', watch/@ref)/name"/></p></xsl:for-each>
<sum><xsl:value-of select="sum(//price)"/></sum><n><xsl:value-of select="count(//par[contains(., 'pool')])"/></n>
</out></xsl:template></xsl:stylesheet>
"""

LUA = """math.randomseed(42)
local function build(d) if d == 0 then return {} end return {build(d - 1), build(d - 1)} end
local function check(t) if t[1] then return 1 + check(t[1]) + check(t[2]) end return 1 end
local long, n = build(DEPTH), 0
for i = 1, 40 do n = n + check(build(12)) end
local people, index, s = {}, {}, 0
for i = 1, COUNT do people[i] = {name = "n" .. i % 5000, age = i % 90, address = {city = "c" .. i % 100, zip = i}} end
for _, p in ipairs(people) do index[p.name] = index[p.name] or {} table.insert(index[p.name], p) end
for r = 1, 5 do for i = 0, 4999 do for _, p in ipairs(index["n" .. i] or {}) do s = s + p.age + p.address.zip end end end
print(n, s, check(long))
"""

PERL = """use strict; srand(42); my %h;
for my $i (0..COUNT) { my $k = "k" . int(rand(25000)); push @{$h{$k}{list}}, {id => $i, name => "n$i", v => $i % 1000}; $h{$k}{count}++; }
my $s = 0;
for my $r (1..4) { for my $k (sort keys %h) { for my $e (@{$h{$k}{list}}) { $s += $e->{v} * length($e->{name}); } } }
for my $k (sort keys %h) { @{$h{$k}{list}} = sort { $a->{v} <=> $b->{v} || $a->{id} <=> $b->{id} } @{$h{$k}{list}}; }
printf "%d\\n", $s;
"""

SQL = """PRAGMA journal_mode=OFF; CREATE TABLE t(id INTEGER PRIMARY KEY, k INT, name TEXT, v REAL);
WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c WHERE x<COUNT) INSERT INTO t SELECT x, (x*7919)%50021, 'name'||((x*31)%9973), x*0.5 FROM c;
CREATE INDEX i1 ON t(k); CREATE INDEX i2 ON t(name);
SELECT count(*), sum(v) FROM t a JOIN (SELECT DISTINCT k FROM t WHERE id<40000) b ON a.k=b.k;
SELECT name, count(*), avg(v) FROM t GROUP BY name ORDER BY 3 DESC LIMIT 3;
"""


def documents(scale: float) -> str:
    names = [f"name{i}" for i in range(300)]
    rows = [
        {"id": i, "name": random.choice(names), "tags": random.sample(names, 4), "pos": {"x": i % 91, "y": i % 17}}
        for i in range(int(70_000 * scale))
    ]
    return json.dumps(rows)


def graph(scale: float) -> str:
    nodes = int(1200 * scale**0.5)
    edges = [f"n{i}->n{min(nodes - 1, i + 1 + random.randrange(40))};" for i in range(nodes - 1) for _ in range(2)]
    return "digraph g {\n" + "\n".join(edges) + "\n}\n"


def write(folder: Path, scale: float = 1.0) -> None:
    """Everything, into `folder`."""
    random.seed(1)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "site.xml").write_text(site(scale))
    (folder / "style.xsl").write_text(STYLE)
    (folder / "trees.lua").write_text(LUA.replace("DEPTH", "17" if scale >= 1 else "13").replace("COUNT", str(int(200_000 * scale))))
    (folder / "hashes.pl").write_text(PERL.replace("COUNT", str(int(110_000 * scale))))
    (folder / "tables.sql").write_text(SQL.replace("COUNT", str(int(300_000 * scale))))
    (folder / "documents.json").write_text(documents(scale))
    (folder / "graph.dot").write_text(graph(scale))


if __name__ == "__main__":
    write(Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 1.0)
