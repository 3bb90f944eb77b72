"""More real programs, in which pointers are followed: design automation, solvers, interpreters, compilers, parsers. What they are
given is written here, the same bytes every time. Nothing is left out because of what was measured."""

import random
from pathlib import Path

import searched
from searched import WORDS, shell

# The package that holds a program is named where its name differs.
COMMANDS = {
    # electronic design automation
    "graywolf": shell("mkdir -p gw && cp chip.cel chip.par gw && cd gw && graywolf -n chip >/dev/null && cat chip.pl1"),
    "yosys": shell("yosys -q -p 'read_verilog mul.v; synth -top top -noabc; write_verilog' | grep -v '^/\\* Generated'"),
    "abc": shell("berkeley-abc -q 'gen -N 48 -m mult.blif; read mult.blif; strash; dch; if -K 6; ps; write_blif /dev/stdout' | grep -v '^#'"),
    "iverilog": shell("iverilog -g2012 -o sim.vvp sim.v && vvp -n sim.vvp"),
    "ngspice": shell("ngspice -b ladder.cir | grep -E '^[0-9]+\\s'"),
    # solvers
    "minisat": shell("minisat -verb=0 hard.cnf model; cat model"),
    "cadical": shell("cadical -q hard.cnf; true"),
    "clasp": shell("gringo color.lp | clasp --seed=1 -V0 1; true"),
    "cvc4": shell("cvc4 --seed=1 u.smt2"),
    "z3": shell("z3 u.smt2"),
    "boolector": shell("boolector b.smt2; true"),
    "glpsol": shell("glpsol --lp cost.lp -w /dev/stdout | grep -v -e used -e Writing"),
    "gap": shell("gap -q sets.g"),
    # interpreters
    "swipl": shell("swipl queens.pl"),
    "tclsh": shell("tclsh lists.tcl"),
    "ruby": shell("ruby hashes.rb"),
    "python": shell("PYTHONMALLOC=malloc PYTHONHASHSEED=0 /usr/bin/python3 tree.py"),
    "gawk": shell("gawk -f arrays.awk"),
    # compilers and parsers
    "cc1plus": shell("g++ -O1 -std=c++20 -S -o - templates.cpp"),
    "sassc": shell("sassc rules.scss"),
    "cppcheck": shell("cppcheck -q --enable=all functions.c 2>&1"),
    "doxygen": shell("rm -rf dox; doxygen Doxyfile 2>/dev/null; cat dox/html/*.html"),
    "link-parser": shell("link-parser en -verbosity=0 -limit=1000 < sentences.txt"),
    "tidy": shell("tidy -q page.html 2>/dev/null; true"),
    "xmllint": shell("xmllint --xpath 'count(//par[contains(.,\"pool\")])' site.xml"),
    "xsltproc": shell("xsltproc style.xsl site.xml"),
} | searched.COMMANDS
NEEDS = {"abc": "berkeley-abc", "cc1plus": "g++", "python": "python3"} | searched.NEEDS


def program(name: str) -> str:
    """What has to be installed for it."""
    return NEEDS.get(name, name)


def formula(variables: int, ratio: float) -> str:
    """Clauses of three literals."""
    lines = [f"p cnf {variables} {int(variables * ratio)}"]
    for _ in range(int(variables * ratio)):
        lines.append(" ".join(str(v * random.choice((1, -1))) for v in random.sample(range(1, variables + 1), 3)) + " 0")
    return "\n".join(lines) + "\n"


def chip(cells: int) -> str:
    """Standard cells in rows, nets between cells that are near each other, and 24 pads: a placement problem for TimberWolf."""
    nets = [f"n{i}" for i in range(int(cells * 1.1))]
    lines = []
    for i in range(cells):
        half = random.choice((2, 3, 4, 5)) * 80
        lines.append(f"cell {i + 1} c{i}\nleft {-half} right {half} bottom -500 top 500")
        for k, pin in enumerate("ABY"):
            near = max(0, min(len(nets) - 1, int(random.gauss(i * 1.1, 40))))
            x, y = k * (half // 2) - half // 2, random.choice((-100, 0, 100))
            lines.append(f"pin name {pin} signal {nets[i] if pin == 'Y' else nets[near]} layer 1 {x} {y}")
    for i in range(24):
        lines.append(f"pad {i + 1} name twpin_p{i}\ncorners 4 -80 -100 -80 100 80 100 80 -100")
        lines.append(f"pin name twpin_p{i} signal {random.choice(nets)} layer 1 0 0")
    return "\n".join(lines) + "\n"


CHIP_RULES = """RULES
layer metal1 0.07 0.1 vertical
layer metal2 0.09 0.1 horizontal
via via12 metal1 metal2
width metal1 60
width metal2 60
width via12 60
spacing metal1 metal1 60
spacing metal2 metal2 80
spacing via12 via12 80
overhang via12 metal1 8
overhang via12 metal2 6
ENDRULES
*vertical_wire_weight : 1.0
*vertical_path_weight : 1.0
*padspacing : variable
*rowSep : 0.0 0
*track.pitch : 160
*graphics.wait : off
*last_chance.wait : off
*random.seed : 12345
TWMC*chip.aspect.ratio : 1.0
TWSC*feedThruWidth : 160 layer 1
TWSC*do.global.route : off
TWSC*ignore_feeds : true
TWSC*call_row_evener : true
TWSC*even_rows_maximally : true
GENR*row_to_tile_spacing: 1
GENR*numrows : 12
GENR*flip_alternate_rows : 1
"""
MULTIPLIER = """module top(input clk, input [15:0] a, b, input [3:0] s, output reg [31:0] q, output reg [15:0] r);
reg [15:0] x, y; reg [31:0] m;
always @(posedge clk) begin x <= a ^ (b >> s); y <= b + (a << s); m <= x * y; q <= m + {y, x}; r <= (m[31:16] & x) | (m[15:0] % 16'd1021); end
endmodule
"""
SIMULATION = """module t; integer i, j; reg [31:0] mem [0:4095]; reg [31:0] s, k; reg [31:0] q[$];
initial begin
  s = 1; for (i = 0; i < 4096; i = i + 1) mem[i] = i * 2654435761;
  for (j = 0; j < 60; j = j + 1) for (i = 0; i < 4096; i = i + 1) begin
    k = mem[i] ^ s; s = s * 1664525 + 1013904223; mem[s[11:0]] = k + s; q.push_back(k); if (q.size() > 500) s = s ^ q.pop_front();
  end
  $display("%0d", s); $finish;
end endmodule
"""


def ladder(steps: int) -> str:
    lines, before = ["ladder", "V1 in 0 PULSE(0 1 0 1n 1n 50n 100n)"], "in"
    for i in range(steps):
        lines += [f"R{i} {before} n{i} {random.randrange(10, 1000)}", f"C{i} n{i} 0 {random.randrange(1, 50)}f"]
        lines += [f"D{i} n{i} 0 dm"] if i % 5 == 0 else []
        lines += [f"M{i} n{i} n{max(0, i - 3)} 0 0 nm W=1u L=0.18u"] if i % 7 == 3 else []
        before = f"n{i}"
    return "\n".join([*lines, ".model dm D", ".model nm NMOS LEVEL=1", ".tran 0.2n 200n", f".print tran v(n{steps - 1})", ".end"]) + "\n"


def colouring(nodes: int, edges: int) -> str:
    rules = [f"node(1..{nodes}). col(1..4). {{c(X,C):col(C)}}=1:-node(X). :-edge(X,Y),c(X,C),c(Y,C).", "#show c/2."]
    pairs = (random.sample(range(1, nodes + 1), 2) for _ in range(edges))
    return "\n".join([*rules, *(f"edge({a},{b})." for a, b in pairs)]) + "\n"


def functions_of_integers(n: int) -> str:
    lines = ["(set-logic QF_UFLIA)", "(declare-fun f (Int) Int)", *(f"(declare-fun y{i} () Int)" for i in range(n))]
    for _ in range(n * 3):
        a, b, c = random.sample(range(n), 3)
        lines.append(f"(assert (or (< (+ y{a} (f y{b})) {random.randrange(50)}) (= (f y{c}) (- y{a} {random.randrange(20)})) "
                     f"(> y{b} (+ y{c} {random.randrange(30)}))))")
    return "\n".join([*lines, "(check-sat)"]) + "\n"


def factors(bits: int, product: int) -> str:
    """Two numbers of so many bits with this product."""
    names = [f"(declare-fun {v} () (_ BitVec {2 * bits}))\n(assert (bvult {v} (_ bv{1 << bits} {2 * bits})))\n(assert (bvugt {v} (_ bv1 {2 * bits})))"
             for v in "xy"]
    return "\n".join(["(set-logic QF_BV)", *names, f"(assert (= (bvmul x y) (_ bv{product} {2 * bits})))", "(check-sat)"]) + "\n"


def costs(columns: int, rows: int) -> str:
    def total(n: list[int]) -> str:
        return " + ".join(f"{random.randrange(1, 99)} x{i}\n" for i in n)

    bounds = [f" c{j}: {total(random.sample(range(columns), 8))} >= {random.randrange(300, 900)}" for j in range(rows)]
    return "\n".join([f"Minimize\n obj: {total(list(range(columns)))}Subject To", *bounds, "End"]) + "\n"


QUEENS = """:- initialization(main).
q(N,Qs):-numlist(1,N,L),s(L,[],Qs).
s([],Q,Q). s(L,A,Q):-select(X,L,R),\\+a(X,1,A),s(R,[X|A],Q).
a(X,N,[Y|_]):-(X=:=Y+N;X=:=Y-N). a(X,N,[_|T]):-M is N+1,a(X,M,T).
main:-findall(Q,q(8,Q),L),length(L,K),write(K),nl,forall(between(1,400000,I),(J is I mod 997,assertz(f(J,I,x(I))))),
  aggregate_all(count,f(5,_,_),C),write(C),nl,forall(between(1,996,J),retractall(f(J,_,_))),halt.
"""
SETS = """Print(Length(ConjugacyClasses(SymmetricGroup(9))),"\\n");; H:=SylowSubgroup(SymmetricGroup(16),2);;
s:=Set(Tuples([1..9],6));; Print(Size(H)," ",Length(s),"\\n"); x:=Filtered(s,t->Sum(t) mod 7=0);; Print(Length(x),"\\n"); QUIT;
"""
RULES = """@mixin b($n){.m-#{$n}{width:percentage($n/100);&:hover{color:mix(#fff,#000,$n*1%);.x &{margin:1px*$n+$n}}}}
@for $i from 1 through 40 {@for $j from 1 through 12 {@include b($i + $j); .a-#{$i}-#{$j} > .b + .c{@extend .m-5; padding:$i*$j+px}}}
"""
LISTS = """set d [dict create]
for {set i 0} {$i < 300000} {incr i} { dict lappend d [expr {$i % 997}] [list $i name$i] }
set n 0
foreach k [lsort -integer [dict keys $d]] { foreach p [lsort -index 1 [dict get $d $k]] { incr n [lindex $p 0] } }
puts $n
proc tree n { if {$n == 0} { return {} }; list [tree [expr {$n-1}]] [tree [expr {$n-1}]] }
puts [string length [tree 16]]
"""
ARRAYS = """BEGIN { for (i = 0; i < 600000; i++) { k = i * 7919 % 50021; a[k] = a[k] "," i; b[k % 97][k] = i }
for (k in a) { split(a[k], p, ","); for (j in p) n += p[j] } for (x in b) for (y in b[x]) n += b[x][y]; print n, asorti(a, s), s[5] }
"""
HASHES = """h = Hash.new { |g, k| g[k] = [] }
200000.times { |i| h[(i * 7919) % 25013] << { id: i, name: "n#{i}", t: [i, i.to_s * 3] } }
n = 0
4.times { h.keys.sort.each { |k| h[k].sort_by { |r| r[:name] }.each { |r| n += r[:id] + r[:t][1].size } } }
puts n
"""
TREE = """import random
random.seed(1)
class N:
    __slots__ = 'k', 'l', 'r', 'd'
    def __init__(s, k): s.k = k; s.l = s.r = None; s.d = {'v': k, 'n': str(k)}
root = N(0.5)
for i in range(100000):
    k = random.random(); n = root
    while True:
        side = 'l' if k < n.k else 'r'
        if (below := getattr(n, side)) is None: setattr(n, side, N(k)); break
        n = below
t = 0
for _ in range(4):
    s = [root]
    while s:
        n = s.pop(); t += len(n.d['n'])
        s += [c for c in (n.l, n.r) if c]
print(t)
"""


def functions(n: int) -> str:
    lines = ["#include <stdlib.h>"]
    for i in range(n):
        lines.append(f"/** Doc {i}. @param a first @param p second @return sum */\nint f{i}(int a, int *p) {{ int s = {i}; for (int i = 0; i < a; i++) "
                     f"{{ if (p && p[i] > s) s += p[i]; else if (i % 3 == {i % 3}) s -= i; }} char *q = malloc(a); if (!q) return -1; q[0] = (char)s; "
                     f"free(q); return s + {f'f{i - 1}(a, p)' if i else 'a'}; }}\nstruct S{i} {{ int x, y; struct S{max(0, i - 1)} *next; }};")
    return "\n".join(lines) + "\n"


def templates(n: int) -> str:
    lines = ["#include <map>", "#include <memory>", "#include <string>", "#include <vector>"]
    for i in range(n):
        lines.append(f"template <class T> struct A{i} {{ T x; std::map<std::string, T> m; T get(const std::string& k) {{ return m[k] + x; }} }};\n"
                     f"int use{i}() {{ A{i}<int> a{{}}; A{i}<long> b{{}}; std::vector<std::unique_ptr<A{i}<int>>> v; "
                     f'return a.get("k") + (int)b.get("j") + (int)v.size(); }}')
    return "\n".join(lines) + "\n"


def sentences(n: int) -> str:
    who, did, how, where = ["dog", "man", "woman", "cat"], ["saw", "liked", "took"], ["big", "old", "red", "small", "new"], ["house", "garden"]
    shape = ["the", who, did, "the", how, where, "with the", how, who, "and the", how, where, "because the", who, "was", how]
    return "".join(" ".join(w if isinstance(w, str) else random.choice(w) for w in shape).capitalize() + ".\n" for _ in range(n))


def page(parts: int) -> str:
    body = "".join(f"<div class='c{i % 7}'><p id='p{i}'>{' '.join(random.choices(WORDS, k=12))} <b>x <i>{i}</i></b></p><table summary='t'><tr><td>{i}</td>"
                   f"<td><a href='/{i}'>{i}</a></td></tr></table></div>" for i in range(parts))
    return f"<!DOCTYPE html><html><head><title>t</title></head><body>{body}</body></html>\n"


def write(folder: Path) -> None:
    """All inputs but those of inputs.py, into `folder`."""
    random.seed(2)
    made = {
        "chip.cel": chip(500), "chip.par": CHIP_RULES, "mul.v": MULTIPLIER, "sim.v": SIMULATION, "ladder.cir": ladder(1500),
        "hard.cnf": formula(230, 4.35), "color.lp": colouring(900, 3200), "u.smt2": functions_of_integers(220), "b.smt2": factors(15, 24_593 * 12_289),
        "cost.lp": costs(1500, 900), "sets.g": SETS, "queens.pl": QUEENS, "lists.tcl": LISTS, "hashes.rb": HASHES, "tree.py": TREE,
        "arrays.awk": ARRAYS, "templates.cpp": templates(24), "rules.scss": RULES, "functions.c": functions(400),
        "Doxyfile": "INPUT=functions.c\nOUTPUT_DIRECTORY=dox\nGENERATE_LATEX=NO\nQUIET=YES\nWARNINGS=NO\nEXTRACT_ALL=YES\nHAVE_DOT=NO\n",
        "sentences.txt": sentences(40), "page.html": page(30_000),
    }  # fmt: skip
    for name, text in made.items():
        (folder / name).write_text(text)
    searched.write(folder)
