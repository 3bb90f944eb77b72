"""If this fails, instruction counts of single calls are wrong: the counter must stand before each basic block, weigh
what the compiler wrote and nothing else, and stay out of data."""
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from instrument import instrument  # noqa: E402


def weights(source):
    return [int(w) for w in re.findall(r"leaq (\d+)\(%rax\)", instrument(source))]


def test_a_block_ends_at_a_jump_and_at_a_label():
    assert weights("""\t.text
f:
\tmovq\t%rdi, %rax
\ttestq\t%rax, %rax
\tje\t.L2
\taddq\t$1, %rax
.L2:
\tcall\tg
\tret
""") == [3, 1, 2]


def test_directives_comments_and_prefixes_have_no_weight():
    assert weights("""\t.text
f:
\t.cfi_startproc
# 12 "file.hpp" 1
\tlock
\taddl\t$1, (%rdi)\t# a word; shared
\trep stosq
\t.p2align 4,,10
\tret
""") == [3]


def test_data_is_left_alone():
    source = "\t.section .rodata\nname:\n\t.string\t\"a; b: c\"\n\t.text\nf:\n\tret\n"
    assert weights(source) == [1]
    assert '.string\t"a; b: c"' in instrument(source)


def test_a_restartable_sequence_keeps_its_signature_before_its_way_back():
    text = instrument("""\t.text
f:
\t.pushsection __rseq_cs,"aw"
9: .long 0,0
\t.popsection
\t.pushsection .text.rseq_abort,"ax"
\t.long 0x53053053
4: jmp f
\t.popsection
\tleaq 9b(%rip), %rax
1: movl %eax, (%rdi)
2:
\tret
""")
    lines = [line.strip() for line in text.splitlines()]
    assert lines[lines.index("4:") - 1] == ".long 0x53053053"
    assert lines[lines.index("4:") + 1].startswith("cmpb")  # the aborted counter gives its register back first
    assert lines.index("1:") < lines.index("movl %eax, (%rdi)") < lines.index("2:")
