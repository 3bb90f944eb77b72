"""Inputs made from a seed, so that every machine and every run works on the same bytes."""

import random

WORDS = ("arena block cache drain extent fill guard heap index joint kernel layer magazine node order page quarantine "
         "refill span thread unmap vector window xor yield zero").split()


def text(lines: int, seed: int = 1) -> str:
    """Lines of prose-like text: compressible, but not trivially so."""
    dice = random.Random(seed)
    return "".join(" ".join([*dice.choices(WORDS, k=dice.randrange(3, 14)), f"{dice.getrandbits(30)}\n"])
                   for _ in range(lines))


def git_history(commits: int, files: int, seed: int = 2) -> bytes:
    """A stream for `git fast-import`: a history in which each commit rewrites a few files and appends to one."""
    dice = random.Random(seed)
    bodies = {f"src/part{i % 12}/file{i}.txt": text(40, seed=1000 + i) for i in range(files)}
    stream = bytearray()
    for number in range(commits):
        changed = bodies if number == 0 else dice.sample(sorted(bodies), 3)
        stream += b"commit refs/heads/main\nmark :%d\n" % (number + 1)
        stream += b"committer Ada <ada@example.org> %d +0000\n" % (1_600_000_000 + 60 * number)
        message = f"change {number}\n\n{text(2, seed=number)}".encode()
        stream += b"data %d\n%s\n" % (len(message), message)
        if number:
            stream += b"from :%d\n" % number
        for name in changed:
            if number:
                bodies[name] += text(dice.randrange(1, 20), seed=5000 + number)
            body = bodies[name].encode()
            stream += b"M 100644 inline %s\ndata %d\n%s\n" % (name.encode(), len(body), body)
    return bytes(stream) + b"done\n"


def digraph(nodes: int, edges: int, seed: int = 1) -> str:
    """A random directed graph in the language of graphviz."""
    dice = random.Random(seed)
    drawn = "".join(f"n{dice.randrange(nodes)} -> n{dice.randrange(nodes)}\n" for _ in range(edges))
    return "digraph {\n" + drawn + "}\n"


def queens(size: int) -> str:
    """The queens problem as linear integer arithmetic, for an SMT solver."""
    out = ["(set-logic QF_LIA)"]
    for i in range(size):
        out.append(f"(declare-const q{i} Int)(assert (and (>= q{i} 0) (< q{i} {size})))")
        out += [f"(assert (and (not (= q{i} q{j})) (not (= (- q{i} q{j}) {i - j})) (not (= (- q{j} q{i}) {i - j}))))"
                for j in range(i)]
    return "\n".join([*out, "(check-sat)", "(get-model)"]) + "\n"


def redis_commands(keys: int, seed: int = 3) -> bytes:
    """Commands in the protocol of redis: values of many sizes and kinds, overwritten, appended to and deleted."""
    dice = random.Random(seed)
    out = bytearray()

    def command(*words: object) -> None:
        parts = [str(word).encode() for word in words]
        out.extend(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts))

    for i in range(keys):
        command("SET", f"text:{dice.randrange(keys)}", WORDS[i % len(WORDS)] * dice.randrange(1, 120))
        command("HSET", f"hash:{i % 500}", f"field{dice.randrange(200)}", dice.getrandbits(60))
        command("ZADD", f"rank:{i % 50}", dice.randrange(10**6), f"member{dice.randrange(2000)}")
        command("RPUSH", f"list:{i % 100}", "x" * dice.randrange(300))
        if i % 3 == 0:
            command("DEL", f"text:{dice.randrange(keys)}")
        if i % 7 == 0:
            command("APPEND", f"text:{dice.randrange(keys)}", "y" * dice.randrange(2000))
    return bytes(out)


def redis_turnover(keys: int, round_number: int) -> bytes:
    """Commands that give half of the values another size and drop a third; after six rounds all sizes have been."""
    dice = random.Random(100 + round_number)
    out = bytearray()
    for i in range(keys):
        key = b"text:%d" % i
        if dice.random() < 1 / 3:
            out += b"*2\r\n$3\r\nDEL\r\n$%d\r\n%s\r\n" % (len(key), key)
        elif dice.random() < 3 / 4:
            value = b"v" * dice.randrange(10, 60 * 2 ** round_number)
            out += b"*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n" % (len(key), key, len(value), value)
    return bytes(out)


def spheres(count: int) -> str:
    """A scene for povray."""
    return f"""#version 3.7;
global_settings {{ assumed_gamma 1.0 }}
camera {{ location <0,2,-6> look_at 0 }}
light_source {{ <5,8,-5> rgb 1 }}
plane {{ y, -1 pigment {{ checker rgb 0 rgb 1 }} }}
#declare I = 0;
#while (I < {count})
  sphere {{ <mod(I,20)*.3-3, mod(I/20,15)*.2-1, I/600>, .1
    pigment {{ rgb <1,.3,I/{count}> }} finish {{ reflection .2 }} }}
  #declare I = I + 1;
#end
"""
