"""Two threads make, write and parse documents; sqlite3 and zlib allocate behind the interpreter."""

import hashlib
import json
import sqlite3
import threading
import zlib

results = {}


def work(name):
    digest = hashlib.sha256()
    for turn in range(5):
        documents = [{"id": i, "name": f"n{i}", "values": [i * turn] * 5} for i in range(20000)]
        written = json.dumps(documents)
        assert json.loads(written) == documents
        digest.update(zlib.compress(written.encode(), 1))
    results[name] = digest.hexdigest()


threads = [threading.Thread(target=work, args=(name,)) for name in "ab"]
[each.start() for each in threads]
[each.join() for each in threads]
table = sqlite3.connect(":memory:")
table.execute("create table t(k text primary key, v)")
table.executemany("insert into t values(?,?)", ((f"key{i * 7919 % 50021}", "v" * (i % 90)) for i in range(50000)))
print(results["a"], results["b"], *table.execute("select count(*), sum(length(v)) from t").fetchone())
