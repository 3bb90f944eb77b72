"""Two threads make, write and parse documents; sqlite3 and zlib allocate behind the interpreter.

With the argument `rounds`, does one round for each line of the input and answers each with one line.
"""

import hashlib
import json
import sqlite3
import sys
import threading
import zlib


def work(results, name, turns):
    digest = hashlib.sha256()
    for turn in turns:
        documents = [{"id": i, "name": f"n{i}", "values": [i * turn] * 5} for i in range(20000)]
        written = json.dumps(documents)
        assert json.loads(written) == documents
        digest.update(zlib.compress(written.encode(), 1))
    results[name] = digest.hexdigest()


def play(turns):
    results = {}
    threads = [threading.Thread(target=work, args=(results, name, turns)) for name in "ab"]
    [each.start() for each in threads]
    [each.join() for each in threads]
    table = sqlite3.connect(":memory:")
    table.execute("create table t(k text primary key, v)")
    table.executemany("insert into t values(?,?)", ((f"key{i * 7919 % 50021}", "v" * (i % 90)) for i in range(50000)))
    print(results["a"], results["b"], *table.execute("select count(*), sum(length(v)) from t").fetchone(), flush=True)


if sys.argv[1:] == ["rounds"]:
    for line in sys.stdin:
        play([int(line)])
else:
    play(range(5))
