/* The protocol of sync/wait_free_bin.hpp as the backbone of wfslab uses it: two threads free all or some of the four blocks of a span, its owner
 * takes what it is told of and uses the span for something else when all blocks are back. Any one thread may stop for ever at any
 * step. Checked: no block is handed out twice, none is lost while nobody is stopped, a complete span is nobody's, and every
 * operation ends within its bound.
 *
 * Seeds, each of which must be found: -DMARK_FIRST -DNO_WAKE -DTORN_TAKE -DCOUNT_BEFORE_BIT
 */
#define BIT(i) (1 << ((i) % 2))
#define PUT_STEPS 4 /* three, and one into the bin of spans */

byte words[2];     /* bit: the block is in the bin */
byte marks, filled;  /* which words may hold something; how many are full */
byte hint;         /* the owner's bin of spans, with room for this one */
byte owned[4];     /* 1: with the program */
byte stops;        /* how many threads are stopped */
byte ended;
byte epoch;        /* how often the span was used again */

inline may_stop() {
  if
  :: stops == 0 -> stops++; goto halt
  :: skip
  fi
}

inline put(i) {
  steps = 0;
  atomic { assert(owned[i] == 1); owned[i] = 0 }
  may_stop();
#ifdef MARK_FIRST
  atomic { before = words[(i) / 2]; woke = before == 0 && !(marks & (1 << ((i) / 2))); if :: before == 0 -> marks = marks | (1 << ((i) / 2)) :: else fi; steps++ }
  may_stop();
#endif
#ifdef COUNT_BEFORE_BIT
  completed = 0;
  if
  :: (words[(i) / 2] | BIT(i)) == 3 -> atomic { filled++; completed = filled == 2; steps++ }; may_stop()
  :: else
  fi;
#endif
  atomic { before = words[(i) / 2]; assert(!(before & BIT(i))); words[(i) / 2] = before | BIT(i); steps++ }
  may_stop();
#ifndef MARK_FIRST
  woke = 0;
  if
  :: before == 0 -> atomic { woke = !(marks & (1 << ((i) / 2))); marks = marks | (1 << ((i) / 2)); steps++ }; may_stop()
  :: else
  fi;
#endif
#ifndef COUNT_BEFORE_BIT
  completed = 0;
  if
  :: (before | BIT(i)) == 3 -> atomic { filled++; completed = filled == 2; steps++ }; may_stop()
  :: else
  fi;
#endif
#ifdef NO_WAKE
  woke = 0;
#endif
  if
  :: woke || completed -> atomic { hint = 1; steps++ }; may_stop()
  :: else
  fi;
  assert(steps <= PUT_STEPS)
}

inline own(i) { assert(owned[i] == 0); owned[i] = 1 }

/* One look of the owner: is it told of the span? Complete: used again from the start. Else its words are taken. */
inline look() {
  atomic { told = hint; hint = 0 }
  may_stop();
  if
  :: told && filled == 2 ->
    atomic { assert(!owned[0] && !owned[1] && !owned[2] && !owned[3]); filled = 0; epoch++ }
    may_stop();
    w = 0;
    do
    :: w < 2 -> atomic { words[w] = 0; own(2 * w); own(2 * w + 1); w++ }; may_stop()
    :: else -> break
    od
  :: told && filled != 2 ->
    atomic { taken_marks = marks; marks = 0 }
    may_stop();
    w = 0;
    do
    :: w < 2 && (taken_marks & (1 << w)) ->
#ifdef TORN_TAKE
      bits = words[w]; may_stop(); atomic { words[w] = 0 }
#else
      atomic { bits = words[w]; words[w] = 0 }
#endif
      may_stop();
      if
      :: bits == 3 -> atomic { filled--; }
      :: else
      fi;
      atomic {
        if :: bits & 1 -> own(2 * w) :: else fi;
        if :: bits & 2 -> own(2 * w + 1) :: else fi
      }
      w++
    :: w < 2 && !(taken_marks & (1 << w)) -> w++
    :: else -> break
    od
  :: else
  fi
}

proctype freer(byte first, second) {
  byte before, steps;
  bool woke, completed;
  put(first);
  if
  :: put(second)
  :: skip /* the program keeps it */
  fi;
  ended++;
halt: skip
}

proctype owner() {
  byte bits, taken_marks, w, round;
  bool told;
  do
  :: round < 3 -> look(); round++
  :: else -> break
  od;
  ended++;
halt: skip
}

init {
  byte bits, taken_marks, w, found;
  bool told;
  atomic {
    owned[0] = 1; owned[1] = 1; owned[2] = 1; owned[3] = 1;
    run freer(0, 2); run freer(1, 3); run owner()
  }
  (ended + stops == 3); /* all that are not stopped end */
  if
  :: stops == 0 ->
    stops = 1; /* nobody stops from here on */
    look();
    found = owned[0] + owned[1] + owned[2] + owned[3];
    assert(found == 4) /* all blocks are found by way of the hint alone */
  :: else
  fi;
halt: skip
}
