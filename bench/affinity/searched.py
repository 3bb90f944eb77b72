"""Real programs that were looked for because they follow pointers: one long-lived structure, walked again and again, or many small objects of
several kinds in one size class. Written here is what they are given, the same bytes every time. Nothing is left out because of what was
measured; the programs that were tried and are not here print something else at each run, or run too short, or nothing of theirs is pooled."""

import random
import shutil
import subprocess
from math import cos, pi, sin
from pathlib import Path

WORDS = [f"word{i}" for i in range(800)]


def shell(text: str) -> list[str]:
    return ["bash", "-c", f"cd {{in}} && {text}"]


COMMANDS = {
    # stores and graphs, walked again and again
    "roqet": shell("roqet -q -r csv -D people.nt people.rq"),
    "roqet.links": shell("roqet -q -r csv -D links.nt links.rq"),
    "roqet.texts": shell("roqet -q -r csv -D texts.nt texts.rq"),
    "timbl": shell("timbl -f train.txt -t test.txt -a 0 -o timbl.out >/dev/null 2>&1; cat timbl.out"),
    "octomap": shell("log2graph scan.log scan.graph >/dev/null; graph2tree -i scan.graph -o scan.bt -res 0.05 >/dev/null 2>&1; cat scan.bt"),
    "ccomps": shell("ccomps -x wide.dot"),
    "tred": shell("tred deep.dot 2>/dev/null"),
    "sfdp": shell("sfdp -Tplain near.dot"),
    "nextpnr": shell("nextpnr-ice40 --hx8k --package ct256 --json mul.json --seed 1 --asc mul.asc -q >/dev/null 2>&1; cat mul.asc"),
    "fst": shell("fstcompile --isymbols=symbols.txt --osymbols=symbols.txt words.fst | fstrmepsilon | fstdeterminize"
                 " | fstminimize --allow_nondet | fstprint"),
    "velvet": shell("velveth velvet 21 -fasta -short reads.fa >/dev/null 2>&1; velvetg velvet -cov_cutoff 3 >/dev/null 2>&1; cat velvet/contigs.fa"),
    # readers of sources and documents
    "uncrustify": shell("uncrustify -q -c - -l CPP -f classes.cpp"),
    "abidw": shell("abidw debug.so"),
    "swig": shell("swig -c++ -python -o /dev/stdout -outdir . classes.i"),
    "genometools": shell("gt gff3 -sort -tidy -retainids genes.gff3 2>/dev/null"),
    "gffread": shell("gffread -E genes.gff3 -T -o- 2>/dev/null"),
    "qpdf": shell("qpdf --static-id --qdf --object-streams=disable pages.pdf -"),
    "assimp": shell("assimp export mesh.obj mesh.ply >/dev/null; cat mesh.ply"),
    "ldns": shell("ldns-read-zone -z zone.txt"),
    # interpreters
    "mujs": shell("mujs objects.js"),
    "duktape": shell("duk objects.js"),
    "jimsh": shell("jimsh lists.jim"),
}  # fmt: skip
NEEDS = {"roqet.links": "roqet", "roqet.texts": "roqet", "octomap": "graph2tree", "nextpnr": "nextpnr-ice40", "fst": "fstdeterminize", "velvet": "velvetg",
         "genometools": "gt", "ldns": "ldns-read-zone", "duktape": "duk"}  # fmt: skip
# Inputs that another program makes of those written here.
MADE = {"debug.so": "g++ -O1 -g -fPIC -shared -o debug.so debug.cpp", "mul.json": "yosys -q -p 'read_verilog mul.v; synth_ice40 -json mul.json'"}

PEOPLE = """PREFIX foaf: <http://xmlns.com/foaf/0.1/>
PREFIX x: <http://example.org/>
SELECT ?n ?m ?c WHERE { ?a a x:Editor . ?a foaf:name ?n . ?a foaf:knows ?b . ?b foaf:name ?m . ?b x:city ?c } ORDER BY ?n ?m ?c
"""
LINKS = """PREFIX x: <http://example.org/>
SELECT ?t ?u WHERE { ?a x:in <http://example.org/category/7> . ?a x:title ?t . ?a x:links ?b . ?b x:title ?u } ORDER BY ?t ?u
"""


def people(count: int, editor_every: int) -> str:
    """Who knows whom, as triples."""
    lines = []
    for i in range(count):
        who = f"<http://example.org/person/{i}>"
        kind = "Editor" if i % editor_every == 7 else "Author"
        lines += [f"{who} <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <http://example.org/{kind}> .",
                  f'{who} <http://xmlns.com/foaf/0.1/name> "Name {random.randrange(5000)}" .',
                  f"{who} <http://example.org/city> <http://example.org/city/{i % 97}> ."]
        lines += [f"{who} <http://xmlns.com/foaf/0.1/knows> <http://example.org/person/{random.randrange(count)}> ." for _ in range(1 + i % 3)]
    return "\n".join(lines) + "\n"


def links(count: int, chosen_every: int) -> str:
    """Which page links to which, as triples; some pages are linked to more often."""
    lines = []
    for i in range(count):
        page = f"<http://example.org/page/{i}>"
        lines.append(f'{page} <http://example.org/title> "Page {i}" .')
        lines += [f"{page} <http://example.org/in> <http://example.org/category/7> ."] if i % chosen_every == 7 else []
        lines += [f"{page} <http://example.org/links> <http://example.org/page/{int(random.random() ** 2 * count)}> ." for _ in range(random.randrange(1, 12))]
    return "\n".join(lines) + "\n"


def texts(count: int, chosen_every: int) -> str:
    """Pages with words on them, among links to other pages: what a triple ends in is a name or a text."""
    lines = []
    for i in range(count):
        page = f"<http://example.org/page/{i}>"
        lines.append(f'{page} <http://example.org/title> "Page {i}" .')
        lines += [f"{page} <http://example.org/in> <http://example.org/category/7> ."] if i % chosen_every == 7 else []
        for _ in range(random.randrange(1, 4)):
            words = f'"{random.choice(WORDS)} {random.choice(WORDS)} {i}"'
            end = words if random.random() < 0.5 else f"<http://example.org/page/{random.randrange(count)}>"
            lines.append(f"{page} <http://example.org/{'says' if end is words else 'links'}> {end} .")
    return "\n".join(lines) + "\n"


def instances(count: int) -> str:
    """Nine features and the class that three of them give."""
    lines = []
    for _ in range(count):
        words = [random.choice(WORDS[: 60 * (k % 5 + 1)]) for k in range(9)]
        lines.append(f"{' '.join(words)} C{sum(ord(words[k][-1 - k % 2]) for k in (1, 3, 5)) % 12}")
    return "\n".join(lines) + "\n"


def scans(places: int, points: int) -> str:
    """What a laser sees from some places of a room."""
    lines = []
    for s in range(places):
        lines.append(f"NODE {s} {s * 0.5} 0 0 0 0 0")
        for _ in range(points):
            around, up = random.random() * 2 * pi, random.uniform(-1, 1)
            r = 3 + 2 * sin(around * 5 + s) + random.random() * 0.2
            lines.append(f"{r * cos(around) * cos(up):.3f} {r * sin(around) * cos(up):.3f} {r * sin(up):.3f}")
    return "\n".join(lines) + "\n"


def near(nodes: int, edges: int, reach: int, arrow: str) -> str:
    """Each node leads to some that come soon after it."""
    lines = [f"n{i}{arrow}n{min(nodes - 1, i + 1 + random.randrange(reach))};" for i in range(nodes - 1) for _ in range(edges)]
    return f"{'digraph' if arrow == '->' else 'graph'} g {{\n" + "\n".join(lines) + "\n}\n"


def transducer(words: int) -> str:
    """A weighted lexicon, one path a word, nothing shared."""
    lines, last = [], 0
    for _ in range(words):
        state = 0
        for _ in range(random.randrange(4, 9)):
            last += 1
            letter = random.randrange(60)
            lines.append(f"{state} {last} s{letter} s{letter} {random.random():.3f}")
            state = last
        lines.append(f"{state}")
    return "\n".join(lines) + "\n"


def reads(count: int, length: int) -> str:
    """What a sequencer makes of a genome: pieces, with one letter in 250 wrong."""
    genome = random.choices("ACGT", k=length)
    lines = []
    for i in range(count):
        start = random.randrange(length - 100)
        lines += [f">r{i}", "".join(random.choice("ACGT") if random.random() < 0.004 else c for c in genome[start : start + 100])]
    return "\n".join(lines) + "\n"


def classes(count: int) -> str:
    """A source file in C++."""
    lines = ["#include <map>", "#include <string>", "#include <vector>"]
    for i in range(count):
        lines.append(f"""/* comment {i} */
template<typename T> class C{i} : public Base{i % 7} {{
public:
  C{i}(int a, const std::string &s = "x{i}") : a_(a), s_(s) {{ if (a > {i}) {{ a_ += foo(a, b[{i}], c->d.e); }} else {{ a_--; }} }}
  int f{i}(std::vector<int> &v, T *p) const {{ int s = 0; for (auto it = v.begin(); it != v.end(); ++it) {{ switch (*it) {{ case 1:
    s += *it * {i}; break; case 2: s -= p ? p->x : 3; break; default: s ^= (s << 3) | (s >> 2); }} }} while (s > 100 && !p->done()) {{ s /= 2; }}
    return s + g{i % 13}(v, [&](int q) {{ return q + s; }}); }}
  static const char *n() {{ return "name{i}"; }} // trailing {i}
private:
  int a_; std::string s_; std::map<std::string, T> m_; enum E {{ A{i}, B{i} = {i}, D{i} }};
}};
#if defined(X{i % 5})
int v{i} = {i}, *q{i} = &v{i};
#endif
""")
    return "\n".join(lines)


def interface(count: int) -> str:
    """Classes to be wrapped for another language."""
    lines = ["%module classes", "%include <std_string.i>", "%include <std_vector.i>", "%inline %{"]
    for i in range(count):
        lines.append(f"class K{i} {{ public: K{i}(int a, double b = {i}.5); virtual ~K{i}(); int f{i}(const std::string &s, std::vector<int> v); "
                     f"double g{i}(K{i // 2} *k, int n = {i}) const; static K{i} *make(int q); int x{i}; std::string s{i}; enum E{i} {{ A{i}, B{i} }}; }};")
    return "\n".join([*lines, "%}"]) + "\n"


def containers(count: int) -> str:
    """A source whose debugging information is large."""
    lines = [f"#include <{h}>" for h in ("functional", "iostream", "map", "memory", "regex", "set", "string", "unordered_map", "vector")]
    for i in range(count):
        lines.append(f"template <class T> struct A{i} {{ T x; std::map<std::string, T> m; std::unordered_map<int, std::vector<T>> u; "
                     f"T get(const std::string& k) {{ return m[k] + x + u[3].size(); }} }};\nint use{i}() {{ A{i}<int> a{{}}; A{i}<long> b{{}}; "
                     f'std::vector<std::unique_ptr<A{i}<int>>> v; return a.get("k") + (int)b.get("j") + (int)v.size(); }}')
    return "\n".join(lines) + "\n"


def genes(count: int) -> str:
    lines = ["##gff-version 3"]
    for i in range(count):
        start, strand = random.randrange(1, 10**8), random.choice("+-")
        head, tail = f"chr{random.randrange(1, 20)}\tx", f"\t.\t{strand}\t.\tID="
        lines += [f"{head}\tgene\t{start}\t{start + 5000}{tail}g{i};Name=n{i}",
                  f"{head}\tmRNA\t{start}\t{start + 5000}{tail}t{i};Parent=g{i};product={random.choice(WORDS)}"]
        for k in range(random.randrange(2, 7)):
            at = start + k * 800
            lines += [f"{head}\texon\t{at}\t{at + 300}{tail}e{i}.{k};Parent=t{i}",
                      f"{head}\tCDS\t{at + 10}\t{at + 300}\t.\t{strand}\t{k % 3}\tID=c{i}.{k};Parent=t{i}"]
    return "\n".join(lines) + "\n"


def pdf(pages: int) -> str:
    """Pages of text, each with a link to another."""
    at = list(range(4, 4 + pages * 3, 3))
    objects = ["<</Type/Catalog/Pages 2 0 R>>", f"<</Type/Pages/Count {pages}/Kids[{' '.join(f'{k} 0 R' for k in at)}]>>",
               "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"]
    for k in at:
        text = "BT /F1 12 Tf " + " ".join(f"{random.randrange(500)} {random.randrange(700)} Td ({random.choice(WORDS)}) Tj" for _ in range(30)) + " ET"
        objects += [f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Resources<</Font<</F1 3 0 R>>/ProcSet[/PDF/Text]>>/Contents {k + 1} 0 R"
                    f"/Annots[{k + 2} 0 R]>>", f"<</Length {len(text)}>>\nstream\n{text}\nendstream",
                    f"<</Type/Annot/Subtype/Link/Rect[{random.randrange(100)} 0 200 200]/Dest[{random.choice(at)} 0 R/XYZ 0 0 null]/Border[0 0 1]>>"]
    parts, offsets, length = ["%PDF-1.5\n"], [], 9
    for number, body in enumerate(objects, 1):
        offsets.append(length)
        parts.append(f"{number} 0 obj\n{body}\nendobj\n")
        length += len(parts[-1])
    parts += [f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n", *(f"{o:010d} 00000 n \n" for o in offsets)]
    return "".join([*parts, f"trailer\n<</Size {len(objects) + 1}/Root 1 0 R>>\nstartxref\n{length}\n%%EOF\n"])


def mesh(side: int) -> str:
    points = [f"v {i} {j} {sin(i * 0.1) * cos(j * 0.13) * 5 + random.random():.4f}" for i in range(side) for j in range(side)]
    corners = [i * side + j + 1 for i in range(side - 1) for j in range(side - 1)]
    return "\n".join([*points, *(f"f {a} {a + 1} {a + side}\nf {a + 1} {a + side + 1} {a + side}" for a in corners)]) + "\n"


def zone(hosts: int) -> str:
    lines = ["$ORIGIN example.org.", "$TTL 3600", "@ IN SOA ns1 admin 1 3600 900 604800 86400", "@ IN NS ns1", "ns1 IN A 10.0.0.1"]
    for i in random.sample(range(hosts * 3 // 2), hosts):
        lines.append(f"h{i} IN A 10.{i % 250}.{i // 250 % 250}.{i % 199}")
        lines += [f'h{i} IN TXT "{random.choice(WORDS)} {i}"'] if i % 2 else [f"h{i} IN MX 10 h{random.randrange(hosts)}"]
        lines += [f"w{i} IN CNAME h{i}"] if i % 3 == 0 else []
    return "\n".join(lines) + "\n"


OBJECTS = """function N(k) { this.k = k; this.l = null; this.r = null; this.d = {v: k, n: 'n' + k}; }
var s = 1; function next() { s = (s * 16807) % 2147483647; return s; }
var root = new N(next());
for (var i = 0; i < 60000; i++) { var k = next(), n = root;
  for (;;) { if (k < n.k) { if (!n.l) { n.l = new N(k); break; } n = n.l; } else { if (!n.r) { n.r = new N(k); break; } n = n.r; } } }
var t = 0; function walk(n) { if (n) { walk(n.l); t = (t + n.d.v % 1000 + n.d.n.length) | 0; walk(n.r); } }
for (var j = 0; j < 6; j++) walk(root);
var h = {}; for (var i = 0; i < 100000; i++) { var k = 'k' + (i * 7919 % 5003); (h[k] = h[k] || []).push({i: i, s: 'v' + i}); }
for (var j = 0; j < 4; j++) for (var k in h) { var a = h[k]; for (var i = 0; i < a.length; i++) t = (t + a[i].i) | 0; }
print(t);
"""
LISTS = """set d [dict create]
for {set i 0} {$i < 200000} {incr i} { set k [expr {$i*7919 % 997}]; dict lappend d $k [list $i name$i] }
set n 0
for {set r 0} {$r < 3} {incr r} { foreach k [lsort -integer [dict keys $d]] { foreach p [dict get $d $k] { incr n [lindex $p 0] } } }
puts $n
proc tree n { if {$n == 0} { return {} }; list [tree [expr {$n-1}]] [tree [expr {$n-1}]] }
puts [string length [tree 14]]
"""


def write(folder: Path) -> None:
    """All of these, into `folder`. mul.v is wide.py's."""
    random.seed(3)
    made = {
        "people.nt": people(45_000, 1500), "people.rq": PEOPLE, "links.nt": links(30_000, 1500), "links.rq": LINKS, "train.txt": instances(60_000),
        "test.txt": instances(50), "scan.log": scans(3, 6000), "wide.dot": near(90_000, 2, 40, "--"), "deep.dot": near(3000, 5, 60, "->"),
        "near.dot": near(3000, 2, 40, "--"), "symbols.txt": "<eps> 0\n" + "".join(f"s{i} {i + 1}\n" for i in range(60)), "words.fst": transducer(25_000),
        "reads.fa": reads(50_000, 120_000), "classes.cpp": classes(400), "classes.i": interface(300), "debug.cpp": containers(60), "genes.gff3": genes(26_000),
        "pages.pdf": pdf(9000), "mesh.obj": mesh(360), "zone.txt": zone(60_000), "objects.js": OBJECTS, "lists.jim": LISTS,
        "texts.nt": texts(36_000, 300), "texts.rq": LINKS,
    }  # fmt: skip
    for name, text in made.items():
        (folder / name).write_text(text)
    for name, command in MADE.items():
        if shutil.which(command.split()[0]) and not (folder / name).exists():
            subprocess.run(["bash", "-c", command], cwd=folder, check=True, stdout=subprocess.DEVNULL)
