"""The explorer finds bugs that are put into shipped headers: otherwise its "passed" on them means nothing."""

import subprocess
from pathlib import Path

import pytest
from support.allocators import BUILD, ROOT, WATCHDOG_S

SLAB, CACHE, ARRAY = "backbone/slab.hpp", "cache/core_cache.hpp", "cache/elimination_array.hpp"
LOCK, SYNCH = "sync/flat_combining_lock.hpp", "sync/cc_synch_lock.hpp"
FUTEX, SLEEPS_AT_ONCE = "sync/futex_lock.hpp", ("kSpins = 100;", "kSpins = 0;")
POOL, REMOTE = "pool/block_pool_slow.hpp", "route/pool_segment.hpp"
BATCHES, SLOT, MAGAZINE = "guard/delayed_batches.hpp", "backbone/wait_free_slot.hpp", "pool/locked_magazine.hpp"
DEPARTURES, REUSE = "backbone/wait_free_departures.hpp", "guard/delayed_reuse.hpp"
HINTS, WALLS = "backbone/wait_free_hints.hpp", "guard/guard_pages.hpp"
HELPER, ATTEMPT = "sync/one_helper.hpp", "sync/fork_attempt.hpp"
BIN, SHELF = "sync/wait_free_bin.hpp", "sync/wait_free_pool.hpp"

# What is wrong: the header, what is replaced there (each once), what the explorer says of it, and of which model where not of colours; with
# the one scenario that finds it where those before it take long.
SEEDS = {
    "a magazine moves while sections run": (CACHE, [("const bool alone = os::rseq_alone_on(area_, set.number);", "const bool alone = true;")], "race", "core_cache.MoveAgainstHits"),
    "a magazine moves where others find it": (CACHE, [("      show(set.number, closed(), Order::release);\n", "")], "race|lost|twice", "core_cache.MoveAgainstHits"),
    "two threads of a core move a magazine": (
        CACHE, [("if (set.widening.exchange(1, Order::acquire)) return", "if (set.widening.exchange(0, Order::acquire)) return")], "race|were left", "core_cache.TwoMoves"),
    "a magazine moves while it is drained": (
        CACHE, [("if (is_closed_ || table_[set.number].load(Order::acquire) != own) return false;", "")], "race|lost|twice|were left", "core_cache.MoveAgainstADrain"),
    "blocks of a slab that was taken over are freed into the colour they were taken for": (
        SLAB, [("if (index().class_at(*next) != c) [[unlikely]] {", "if (false) {")], "lost|free and with the program|live blocks is wrong|heap_inconsistent|double"),
    "a slab is taken over without its owner's lock": (
        SLAB, [("|| !from.lock.try_lock()) continue;", ") continue;"), ("          from.lock.unlock();\n", "")],
        "lost|handed out twice|free and with the program|live blocks is wrong|heap_inconsistent|double"),
    "the owner's lock is let go before the slab has changed its colour": (
        SLAB, [("          if (s) {\n            from.partial", "          from.lock.unlock();\n          if (s) {\n            from.partial"),
               ("          from.lock.unlock();\n          if (s) return s;", "          if (s) return s;")],
        "lost|handed out twice|free and with the program|live blocks is wrong|heap_inconsistent|double", "coloured_cache.AdoptionAgainstTake"),
    "a drain leaves the way to a core's own colour open": (
        CACHE, [("own_table_[i].store(set == closed() ? set : own", "if (set != closed()) own_table_[i].store(own")], "race", "coloured_cache.HitsAgainstAll"),
    "a set comes back before it is drained": (
        CACHE, [("if (!area_.is_kernels || os::rseq_restart_all()) drain_set(t, set);\n      if (!is_closed_) show(i, set, Order::release);",
                 "os::rseq_restart_all();\n      if (!is_closed_) show(i, set, Order::release);\n      drain_set(t, set);\n     ")], "race"),
    "a malloc takes a block out of its slot without an exchange": (
        ARRAY, [("t.slot[c][n - 1].exchange(nullptr, Order::relaxed);", "t.slot[c][n - 1].load(Order::relaxed); t.slot[c][n - 1].store(nullptr, Order::relaxed);")],
        "race|twice|free and with the program|lost", "elimination_array"),
    "a block is put into a slot without telling what it was used for": (
        ARRAY, [("t.slot[c][n].store(b.ptr, Order::release);", "t.slot[c][n].store(b.ptr, Order::relaxed);")], "race", "elimination_array"),
    "what waits is read, not taken, by whoever empties": (
        ARRAY, [("of.waiting[w].exchange(0, Order::acquire);", "of.waiting[w].load(Order::acquire); of.waiting[w].store(0, Order::relaxed);")],
        "twice|free and with the program|lost", "elimination_array"),
    "who empties what waits for another clears that one's count": (
        ARRAY, [("if (&t == &of) t.waiting_count = 0;", "of.waiting_count = 0;")], "race", "elimination_array"),
    "a thread that has ended goes on keeping what it frees": (ARRAY, [("        t.is_attached = false;\n", "")], "lost", "elimination_array"),
    "a sleeper does not say so to the lock's holder": (
        LOCK, [("if (held_.exchange(2, Order::acq_rel) == 0) return serve_and_open();  // release", "if (held_.exchange(1, Order::acq_rel) == 0) return serve_and_open();  // release")],
        "wait", "flat_combining_lock"),
    "the holder does not look again when somebody sleeps": (
        LOCK, [("return held_.exchange(0, Order::acq_rel) == 2;", "return held_.store(0, Order::release), false;")], "wait", "flat_combining_lock"),
    "the holder looks again only after the first work": (LOCK, [("while (has_to_look_again());", "while (false);")], "wait", "flat_combining_lock"),
    "a holder that looks again does not say that somebody sleeps": (
        LOCK, [("pending_.load(Order::relaxed) && held_.exchange(2,", "pending_.load(Order::relaxed) && held_.exchange(1,")], "wait", "flat_combining_lock"),
    "the lock is opened without giving away what was done": (
        LOCK, [("return held_.exchange(0, Order::acq_rel) == 2;", "return held_.exchange(0, Order::relaxed) == 2;")], "race", "flat_combining_lock"),
    "a request is told that it is done before its result is there": (
        LOCK, [("n->state.exchange(kDone, Order::release)", "n->state.exchange(kDone, Order::relaxed)")], "race", "flat_combining_lock"),
    "a node of CC-Synch is linked before its request is there": (
        SYNCH, [("mine.next.store(&brought, Order::release);", "mine.next.store(&brought, Order::relaxed);")], "race", "cc_synch_lock"),
    "a wish for the lock itself is taken for work of CC-Synch": (
        SYNCH, [("|| !at->call.get()) return tell(*at, kTurn);\n      at->call", ") return tell(*at, kTurn);\n      if (at->call.get()) at->call")], "race|lost", "cc_synch_lock.PlainLockAmongTwoRequests"),
    "a sleeper of CC-Synch is not woken": (SYNCH, [("== kAsleep) os::futex_wake(word, 1);", "== kDone) os::futex_wake(word, 1);")], "wait", "cc_synch_lock"),
    "a release into the quarantine does not say that it is at work": (
        BATCHES, [("[[unlikely]] return false;\n      set_state(t, kAtWork);", "[[unlikely]] return false;")], "lost|twice|wrong", "delayed_batches"),
    "a quarantine is emptied before it is closed": (
        BATCHES, [("        set_state(t, kClosed);  // first: what a signal handler releases from here on goes below\n", ""),
                  ("        t.idle = nullptr;\n        Held held(this->lock_);", "        set_state(t, kClosed);\n        t.idle = nullptr;\n        Held held(this->lock_);")],
        "lost|twice|wrong", "delayed_batches"),
    "a thread that ends is found while it empties its quarantine": (
        BATCHES, [("        {\n          Held held(this->lock_);\n          threads_.remove", "        empty(t, t);\n        {\n          Held held(this->lock_);\n          threads_.remove"),
                  ("        empty(t, t);  // nobody finds", "        // nobody finds")], "race|lost|twice|wrong", "delayed_batches.EmptiedWhileEnding"),
    "batches are shared out without the quarantine's lock": (
        BATCHES, [("if (!this->lock_.try_lock()) return;\n", "\n"), ("      this->lock_.unlock();\n    }\n", "    }\n")], "race", "delayed_batches.TwoThreadsComeAndGo"),
    "a release into the quarantine waits for its lock": (
        BATCHES, [("if (!this->lock_.try_lock()) return;\n", "this->lock_.lock();\n")], "wait", "delayed_batches"),
    "a release into the quarantine that gives out again does not say that it is at work": (
        REUSE, [("      set_state(t, kAtWork);\n      const bool fits", "      const bool fits")], "lost|twice|counted", "delayed_reuse"),
    "a malloc out of the quarantine does not say that it is at work": (
        REUSE, [("      set_state(t, kAtWork);\n      const Index at", "      const Index at")], "lost|twice", "delayed_reuse"),
    "the quarantine that gives out again is open while its thread ends": (
        REUSE, [("        set_state(t, kAtWork);  // what a signal handler releases from here on goes below\n", "")], "lost|twice", "delayed_reuse"),
    "a block of that quarantine is given out and still waits": (
        REUSE, [("      show(t.entry[at].block, static_cast<std::byte*>(nullptr));\n", "")], "twice|lost|counted", "delayed_reuse"),
    "what a miss brings and does not fit goes below from the wrong end": (
        CACHE, [("this->below.release_batch(t, c, batch + 1, got - 1 - kept);", "this->below.release_batch(t, c, batch + 1 + kept, got - 1 - kept);")],
        "twice", "core_cache.RefillAgainstGives"),
    "a drain counts a magazine empty only after its blocks went below": (
        CACHE, [("          magazines.set_count(c, n - some);\n          this->below.release_batch(t, c, magazines.slots(c) + n - some, some);",
                 "          this->below.release_batch(t, c, magazines.slots(c) + n - some, some);\n          magazines.set_count(c, n - some);")],
        "free and in a magazine", "core_cache.ForkWhileAnotherDrains"),
    "a complete span leaves its slot while words come from it": (
        SLOT, [("return !is_current(s) && s->bin", "return s->bin")], "left its slot", "wait_free_slot"),
    "a span leaves its slot without a second look": (
        SLOT, [("    if (!is_complete(s)) return nullptr;\n", "")], "left its slot|lost", "wait_free_slot"),
    "who sets a mark is told only when it was there": (
        BIN, [("result.woke = !(marks_.fetch_or(mark, Order::acq_rel) & mark);", "result.woke = marks_.fetch_or(mark, Order::acq_rel) & mark;")],
        "lost", "wait_free_bin"),
    "a span is announced without a mark": (
        BIN, [("    marks_.fetch_or(std::uint64_t{1} << w, Order::acq_rel);\n  }\n\n  // -- the owner's", "  }\n\n  // -- the owner's")], "lost", "wait_free_bin"),
    "a number is claimed by whoever saw it": (
        SHELF, [("if (words_[w].fetch_and(~bit, Order::acquire) & bit) {", "if (words_[w].fetch_and(~bit, Order::acquire) | bit) {")],
        "twice|race", "wait_free_pool"),
    "a number is taken by its name by whoever saw it": (
        SHELF, [("    if (!(words_[i / 64].fetch_and(~bit, Order::acquire) & bit)) return false;", "    words_[i / 64].fetch_and(~bit, Order::acquire);")],
        "twice|race", "wait_free_pool.TakesByName"),
    "a mark is cleared without a second look at its word": (
        SHELF, [("    if (words_[w].load(Order::relaxed)) mark(w);\n", "")], "not marked", "wait_free_pool"),
    "a block of another thread's span is taken for one of its own": (
        SLOT, [("mine && owner == mine->number && !put.completed", "mine && !put.completed")], "lost|left its slot|race", "wait_free_slot"),
    "a block on its way home forgets its neighbours": (
        SLOT, [("b.out.store(bits | bit, Order::relaxed);", "b.out.store(bit, Order::relaxed);")], "lost", "wait_free_slot"),
    "a word on its way home is overwritten": (
        SLOT, [("    leaves = {b.out_at, bits, c};\n", "")], "lost", "wait_free_slot"),
    "a word leaves and stays": (
        SLOT, [("    b.out.store(bit, Order::relaxed);\n", "    b.out.store(bits | bit, Order::relaxed);\n")], "twice", "wait_free_slot"),
    "who is to be told is forgotten": (HINTS, [("    if (whom_) whom_->announce(bucket_);\n", "")], "lost", "wait_free_slot"),
    "a word that departs is never due": (DEPARTURES, [("    return due;\n", "    return {};\n")], "lost|never sent", "wait_free_slot"),
    "a restock takes the place of a word": (SLOT, [("if (b.word.load(Order::relaxed) || b.out", "if (b.out")], "lost", "wait_free_slot"),
    "a span that is taken from the spares stays one": (SLOT, [("    spare[kind] = s->next;\n", "")], "not there", "wait_free_slot"),
    "marks that were taken are forgotten when a slot closes its span": (
        SLOT, [("for (; b.marks; b.marks &= b.marks - 1) {  // taken", "for (b.marks = 0; b.marks; b.marks &= b.marks - 1) {  // taken")], "lost", "wait_free_slot"),
    "a waiter looks for an object before it notes the rings": (
        POOL, [("    const std::uint32_t seen = control_->bell.seen();\n    taken = take_shared();\n    if (taken.block) break;",
                "    taken = take_shared();\n    if (taken.block) break;\n    const std::uint32_t seen = control_->bell.seen();")], "wait", "block_pool"),
    "a trim opens magazines though somebody waits": (POOL, [("if (!control_->bell.waiters()) magazines_.open_all();", "magazines_.open_all();")], "wait", "block_pool.TrimAgainstWait"),
    "a trim rings for nobody": (POOL, [("  ring(carved);\n", "")], "wait", "block_pool"),
    "what other threads released into a pool is read, not taken": (
        REMOTE, [("remote.load(Order::relaxed) ? remote.exchange(nullptr, Order::acquire) : nullptr;",
                  "remote.load(Order::relaxed) ? (remote.store(nullptr, Order::relaxed), remote.load(Order::acquire)) : nullptr;")], "lost", "pool_remote"),
    "a magazine is let go without telling what was given": (
        MAGAZINE, [("held.store(0, Order::release);\n    return n - left;", "held.store(0, Order::relaxed);\n    return n - left;")], "race", "pool_waiting"),
    "a futex lock is opened without a look whether somebody sleeps": (
        FUTEX, [SLEEPS_AT_ONCE, ("if (state_.exchange(0, Order::release) == 2) [[unlikely]] os::futex_wake(&state_, 1);", "state_.store(0, Order::release);")],
        "wait", "locks"),
    "a woken sleeper takes a futex lock as if nobody else slept": (
        FUTEX, [SLEEPS_AT_ONCE, ("while (state_.exchange(2, Order::acquire) != 0) os::futex_wait(&state_, 2);",
                                 "for (std::uint32_t to = 2; state_.exchange(to, Order::acquire) != 0; to = 1) os::futex_wait(&state_, to);")], "wait", "locks"),
    "a slab that waits is taken by whoever saw it": (
        WALLS, [("!kept.compare_exchange_strong(span, 0, Order::acquire, Order::relaxed)", "(kept.store(0, Order::relaxed), false)")],
        "race|twice|lost", "guard_pages"),
    "a slab comes to wait where another one does": (
        WALLS, [("kept.compare_exchange_strong(none, span, Order::release, Order::relaxed)", "(kept.store(span, Order::release), true)")], "lost", "guard_pages"),
    "a slab waits without telling what it was used for": (
        WALLS, [("(none, span, Order::release, Order::relaxed)", "(none, span, Order::relaxed, Order::relaxed)")], "race", "guard_pages"),
    "a slab that there is no room for is counted": (
        WALLS, [("      kept_bytes_.fetch_sub(bytes, Order::relaxed);\n      return false;", "      return false;")], "too high", "guard_pages"),
    "a trim lets a fork in": (WALLS, [("        Held held(this->lock_);\n        any", "        any")], "nobody's", "guard_pages"),
    "whatever waits is taken": (WALLS, [("bytes_in(span) == bytes)", "span)")], "another size", "guard_pages"),
    "a helper ends without a look once it has left": (HELPER, [("return is_done() || !take_back(mine, wait);", "return true;")], "left", "one_helper"),
    "a helper looks for work before it has left": (
        HELPER, [("    const std::uint32_t mine = leave();\n    return is_done() ||", "    const bool done = is_done();\n    const std::uint32_t mine = leave();\n    return done ||")], "left", "one_helper"),
    "a helper takes one that is being started for one that runs": (HELPER, [("if (runs(now)) return false;", "return false;")], "left", "one_helper"),
    "a helper takes its work up again whoever does it": (
        HELPER, [("if (state_.compare_exchange_strong(now, mine, Order::seq_cst)) return true;", "return state_.store(mine, Order::seq_cst), true;")],
        "race", "one_helper"),
    "a helper is started where another one is leaving": (HELPER, [("while (i < kPlaces && words_[i].load(Order::acquire)) ++i;", "")], "race", "one_helper"),
    "a helper that the system has ended is waited for": (HELPER, [("return runs(now) && !is_there() &&", "return false &&")], "taken for one at work", "one_helper"),
    "a helper that has a place is taken for one that was ended": (HELPER, [("runs(now) && !is_there() &&", "runs(now) &&")], "race|left", "one_helper"),
    "helpers have one number": (HELPER, [("state_.store(number_ = number_ + 2,", "state_.store(number_ = 3,")], "race", "one_helper"),
    "a helper arrives before it is seen in its place": (HELPER, [("number_ + 2, Order::release", "number_ + 2, Order::relaxed")], "race", "one_helper"),
    "a helper is seen at work before it is in its place": (
        HELPER, [("state_.load(Order::acquire);  // pairs", "state_.load(Order::relaxed);  // pairs")], "race", "one_helper"),
    "a helper that leaves is not told of": (HELPER, [("any |= word.load(Order::acquire) != 0;", "word.load(Order::acquire);")], "race", "one_helper"),
    "who wants no helper does not see that one is being started": (
        HELPER, [("return !is_there() && !is_started;", "return !is_there();")], "race|none is wanted", "one_helper.KeptAway"),
    "whether a helper is being started is looked at behind its place": (
        HELPER, [("const bool is_started = state_.load(Order::seq_cst) == kIsStarted;", "const bool there = is_there(), is_started = state_.load(Order::seq_cst) == kIsStarted;"),
                 ("return !is_there() && !is_started;", "return !there && !is_started;")], "race|none is wanted", "one_helper.KeptAway"),
    "a helper is claimed though none is wanted": (HELPER, [("if (!is_kept_away()) return true;", "return true;")], "race|none is wanted", "one_helper.KeptAway"),
    "nobody starts a helper that was sent away again": (HELPER, [("return next == 0 && (now & kIsWanted);", "return false;")], "left", "one_helper.SentAway"),
    "who would start a helper leaves no word": (HELPER, [("while (!gives_way());", "while (!is_kept_away());")], "left", "one_helper.KeptAway"),
    "a helper leaves word before it has left": (
        HELPER, [("    const std::uint32_t mine = leave();\n    return gives_way() ||", "    const bool away = gives_way();\n    const std::uint32_t mine = leave();\n    return away ||")],
        "left", "one_helper.HardlySentAway"),
    "a helper that nobody sends away any more has left": (
        HELPER, [("return gives_way() || !take_back(mine, wait);", "return gives_way(), mine != 0;")], "left", "one_helper.HardlySentAway"),
    "a fork that has given a lock up takes the next one": (ATTEMPT, [("      if (failed_) return false;\n", "")], "stays held", "fork_attempt"),
    "a fork opens the lock that it has given up": (ATTEMPT, [("if (failed_ == &lock) failed_ = nullptr;", "if (failed_ == &lock) failed_ = nullptr, lock.unlock();")], "race", "fork_attempt"),
    "a fork goes back over all locks as if it had them": (ATTEMPT, [("if (!is_callers() || !failed_) return lock.unlock();", "lock.unlock();")], "race", "fork_attempt"),
    "a fork that has given a lock up opens none": (ATTEMPT, [("if (failed_ == &lock) failed_ = nullptr;", "")], "wait|stays held", "fork_attempt"),
    "a fork's attempt ends behind its gate": (
        ATTEMPT, [("if (!has_all) let_all_go();", "if (!has_all) let_all_go(), gate.unlock();"), ("    if (!has_all) gate.unlock();", "")], "race|stays held", "fork_attempt.TwoFork"),
    "a fork does not give up": (ATTEMPT, [("if (lock.lock_within(naps_)) return true;", "if (lock.lock(), true) return true;")], "wait", "fork_attempt.AgainstAStoppedHolder"),
    "all threads give up while one forks": (
        ATTEMPT, [("return thread && thread == os::calling_thread();", "return thread;")], "given up|race|wait", "fork_attempt"),
    "a futex lock is had by whoever has waited long enough": (FUTEX, [SLEEPS_AT_ONCE, ("if (naps == 0) return false;", "if (naps == 0) return true;")], "race", "fork_attempt"),
    "a futex lock that is given up has nobody asleep": (
        FUTEX, [SLEEPS_AT_ONCE, ("if (naps == 0) return false;", "if (naps == 0) return state_.store(1, Order::relaxed), false;")], "wait|stays held", "fork_attempt"),
    "a drain does not restart what runs": (CACHE, [("os::rseq_restart_all()) drain_set", "true) drain_set")], "race"),
}


# What the model runs besides: a header with another constant, which must pass.
VARIANTS = {
    "a futex lock sleeps at once": (FUTEX, [SLEEPS_AT_ONCE], "locks"),
    "a fork gives a futex lock up at once": (FUTEX, [SLEEPS_AT_ONCE], "fork_attempt"),
}


COMPILE = ["g++", "-std=c++20", "-O0", "-w"]


@pytest.fixture(scope="session")
def compiled(tmp_path_factory) -> Path:
    """A folder with the headers of GoogleTest compiled ahead, which take as long as a model."""
    folder = tmp_path_factory.mktemp("compiled")
    (folder / "ahead.hpp").write_text("#include <gtest/gtest.h>\n")
    subprocess.run([*COMPILE, "-x", "c++-header", folder / "ahead.hpp"], check=True)
    return folder


def run_changed(header: str, changes: list[tuple[str, str]], model: str, compiled: Path, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    model, _, scenario = model.partition(".")
    text = (ROOT / "include/mortise" / header).read_text()
    for before, after in changes:
        assert text.count(before) == 1, f"{header} has changed: {before!r}"
        text = text.replace(before, after)
    changed = tmp_path / "mortise" / header
    changed.parent.mkdir(parents=True)
    changed.write_text(text)
    program = tmp_path / "changed"
    folders = [f"-I{folder}" for folder in (ROOT / "tests/model/include", tmp_path, ROOT / "tests/model", ROOT / "include")]
    built = subprocess.run([*COMPILE, "-include", compiled / "ahead.hpp", *folders, ROOT / f"tests/model/{model}.cpp", BUILD / "tests/model/libmortise_explorer.a",
                            "-lgtest", "-lgtest_main", "-pthread", "-o", program], text=True, capture_output=True)
    assert built.returncode == 0, built.stderr[-3000:]
    return subprocess.run([program, "--gtest_fail_fast", "--gtest_brief=1", f"--gtest_filter=*.{scenario or '*'}"], text=True, capture_output=True,
                          errors="replace", timeout=WATCHDOG_S)


@pytest.mark.parametrize("what", SEEDS)
def test_it_is_found(what: str, compiled: Path, tmp_path: Path) -> None:
    header, changes, expected, *other = SEEDS[what]
    ran = run_changed(header, changes, other[0] if other else "coloured_cache", compiled, tmp_path)
    found = [line for line in ran.stdout.splitlines() if line.startswith("failure: ")]
    assert ran.returncode != 0 and found, f"not found\n{ran.stdout[-2000:]}"
    print(found[0])
    assert any(kind in found[0] for kind in expected.split("|")), found[0]


@pytest.mark.parametrize("what", VARIANTS)
def test_it_passes(what: str, compiled: Path, tmp_path: Path) -> None:
    ran = run_changed(*VARIANTS[what], compiled, tmp_path)
    assert ran.returncode == 0, ran.stdout[-2000:]
