/* The protocol of sync/wait_free_pool.hpp: three threads take and put numbers of one word; any one may stop for ever at any step.
 * Checked: no number has two owners, at most the stopped thread's number is missing, a take ends within its bound, and with more
 * tries than others take it does not fail.
 *
 * Seed, which must be found: -DTORN_CLAIM
 */
#define NUMBERS 3
#define TRIES 5 /* the other two take four times */

byte word = 7;
byte owner[NUMBERS]; /* 1: with a thread */
byte stops, ended, held;

inline may_stop() {
  if
  :: stops == 0 -> stops++; goto halt
  :: skip
  fi
}

inline take() {
  mine = NUMBERS; steps = 0; tries = TRIES;
  seen = word;
  do
  :: seen == 0 -> break
  :: else ->
    lowest = (seen & 1 -> 0 : (seen & 2 -> 1 : 2));
#ifdef TORN_CLAIM
    before = word; may_stop(); word = before & ~(1 << lowest); steps++;
#else
    atomic { before = word; word = word & ~(1 << lowest); steps++; if :: before & (1 << lowest) -> held++ :: else fi }
#endif
    may_stop();
    if
    :: before & (1 << lowest) -> mine = lowest; atomic { assert(owner[mine] == 0); owner[mine] = 1 }; break
    :: else -> tries--; seen = word; if :: tries == 0 -> break :: else fi
    fi
  od;
  assert(steps <= TRIES);
  seen = 0; before = 0; lowest = 0; steps = 0; tries = 0 /* equal states are equal */
}

inline put() {
  if
  :: mine < NUMBERS ->
    atomic { assert(owner[mine] == 1); owner[mine] = 0 }
    may_stop();
    atomic { word = word | (1 << mine); held--; mine = NUMBERS }
  :: else
  fi
}

proctype thread() {
  byte mine, steps, tries, seen, lowest, before;
  take();
  put();
  take();
  assert(mine < NUMBERS); /* three numbers, three threads, each holds one at most: there was one for us */
  ended++;
halt: skip
}

init {
  atomic { run thread(); run thread(); run thread() }
  (ended + stops == 3);
#ifndef TORN_CLAIM
  assert((word & 1) + (word >> 1 & 1) + (word >> 2 & 1) + held == NUMBERS)
#endif
}
