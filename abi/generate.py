"""Makes from abi.toml what must agree with it: generate.py TABLE OUT_DIR VERSION.

exports.map  the version script: what a shared object exports, and nothing else
exports.txt  the same for archives, as objcopy reads it
malloc.h     declarations for programs that want the less common functions by name
functions.inc  X(name) for each exported symbol: the contract tests look every one up
keys.inc     X(name, default) for each configuration key
conf.json    the keys for the command line
"""
import json
import pathlib
import sys
import tomllib

table_path, out_dir, version = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
table = tomllib.loads(table_path.read_text())
out_dir.mkdir(parents=True, exist_ok=True)


def write(name: str, text: str) -> None:
    """Writes only when something changed, so that nothing is rebuilt for nothing."""
    path = out_dir / name
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


functions = table["function"]
symbols = [f["name"] for f in functions] + [n for group in table["operator"] for n in group["names"]]
assert len(symbols) == len(set(symbols)), "a symbol stands in abi.toml twice"

write("exports.map", "{\n  global:\n" + "".join(f"    {s};\n" for s in symbols) + "    mortise_*;\n  local: *;\n};\n")
write("exports.txt", "\n".join([*symbols, "mortise_*"]) + "\n")
write("functions.inc", "".join(f"X({s})\n" for s in symbols))

declared = [f["declare"] for f in functions if "declare" in f and f.get("group") != "loader"]
write("mortise_malloc.h", "/* Every malloc function that a mortise library serves. Generated from abi/abi.toml. */\n"
      "#ifndef MORTISE_MALLOC_H\n#define MORTISE_MALLOC_H\n#include <malloc.h>\n#include <stddef.h>\n#include <stdio.h>\n#include <stdlib.h>\n"
      "#ifdef __cplusplus\nextern \"C\" {\n#endif\n"
      + "".join(f"{d};\n" for d in declared if d.split("(")[0].split()[-1].lstrip("*") in ("cfree", "free_sized", "free_aligned_sized"))
      + "#ifdef __cplusplus\n}\n#endif\n#endif\n")

keys = table["key"]
write("keys.inc", "".join(f'X({k["name"]}, "{k["default"]}")\n' for k in keys))
write("variables.inc", "".join(f'X({k["name"]}, {k["name"].upper()})\n' for k in keys))
write("conf.json", json.dumps({"schema": "mortise.conf/1", "version": version, "keys": keys}, indent=2) + "\n")
