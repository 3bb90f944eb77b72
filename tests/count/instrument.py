#!/usr/bin/env python3
"""A compiler launcher that makes code count its own instructions.

    instrument.py g++ ... -c source.cpp -o object.o

compiles to assembly exactly as asked, puts a counter in front of every basic block, and assembles that. The
instructions of the program stay what the compiler made of them: the counter leaves flags, registers and the red zone
alone, so what is counted is what runs in the build without it. Counters lie at the GS base, which nothing else on
x86-64 Linux uses, one set a thread:

    %gs:0    instructions so far              %gs:8    room for one register
    %gs:16   aborted sequences so far         %gs:24   1 while that register is in its room

The last is for restartable sequences, whose way back may start in the middle of a counter.
"""
import re
import subprocess
import sys
from pathlib import Path

COUNTER = """\tmovq %rax, %gs:8
\tmovb $1, %gs:24
\tmovq %gs:{at}, %rax
\tleaq {weight}(%rax), %rax
\tmovq %rax, %gs:{at}
\tmovq %gs:8, %rax
\tmovb $0, %gs:24"""
# Flags need not survive an abort: the sequences say that they clobber them.
AFTER_ABORT = """\tcmpb $0, %gs:24
\tje 77f
\tmovq %gs:8, %rax
\tmovb $0, %gs:24
77:
\taddq $1, %gs:16"""
LABEL = re.compile(r"^\s*([\w.$]+):\s*")
LEAVES = re.compile(r"^(j\w+|loop\w*|ret\w*|rep\s+ret|repz\s+ret|notrack\s+jmp)\b")
PREFIXES = {"lock", "rep", "repz", "repnz", "repe", "repne", "notrack"}
TEXT = re.compile(r"^\.text\b")


class Sections:
    """Which section the assembler is in."""

    def __init__(self):
        self.now, self.before, self.stack = ".text", ".text", []

    def follow(self, directive, argument):
        name = argument.split(",")[0].strip()
        if directive in (".text", ".data", ".bss"):
            self.before, self.now = self.now, directive
        elif directive == ".section":
            self.before, self.now = self.now, name
        elif directive == ".previous":
            self.before, self.now = self.now, self.before
        elif directive == ".pushsection":
            self.stack.append(self.now)
            self.now = name
        elif directive == ".popsection":
            self.now = self.stack.pop()


def statements(line):
    """The labels and statements of one line of assembly, without comments."""
    if line.lstrip().startswith("#"):
        return
    line = re.sub(r"\s#[^\"]*$", "", line)
    for part in re.split(r";(?=(?:[^\"]*\"[^\"]*\")*[^\"]*$)", line):
        while match := LABEL.match(part):
            yield match.group(1) + ":"
            part = part[match.end():]
        if part.strip():
            yield part.strip()


def instrument(source):
    """The assembly text `source` with a counter in front of each basic block."""
    out, sections = [], Sections()
    open_blocks = {}  # section -> [index in out of the counter's place, weight]; pushed sections leave a block open

    def close(section):
        block = open_blocks.pop(section, None)
        if block:
            index, weight = block
            out[index] = COUNTER.format(at=0, weight=weight)
            if "rseq_abort" in section:
                out[index] = AFTER_ABORT + "\n" + out[index]

    for line in source.splitlines():
        for text in statements(line):
            if text.endswith(":") and LABEL.match(text):
                close(sections.now)
                out.append(text)
                continue
            word, _, rest = text.partition(" ") if " " in text.split("\t")[0] else text.partition("\t")
            if word.startswith("."):
                sections.follow(word, rest)
                out.append("\t" + text)
                continue
            if not TEXT.match(sections.now):
                out.append("\t" + text)
                continue
            if sections.now not in open_blocks:
                open_blocks[sections.now] = [len(out), 0]
                out.append("")
            if text not in PREFIXES:
                open_blocks[sections.now][1] += 1
            out.append("\t" + text)
            if LEAVES.match(text):
                close(sections.now)
    for section in list(open_blocks):
        close(section)
    return "\n".join(out) + "\n"


def main(arguments):
    if "-c" not in arguments or "-o" not in arguments:
        return subprocess.run(arguments).returncode
    target = Path(arguments[arguments.index("-o") + 1])
    assembly = target.with_suffix(".s")
    compile_only = ["-S" if a == "-c" else a for a in arguments]
    compile_only[compile_only.index("-o") + 1] = str(assembly)
    done = subprocess.run(compile_only)
    if done.returncode:
        return done.returncode
    assembly.write_text(instrument(assembly.read_text()))
    return subprocess.run([arguments[0], "-c", str(assembly), "-o", str(target)]).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
