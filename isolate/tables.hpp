// tables.hpp: holding the runtime's tables still while a child is forked, whose copy must be whole.
//
//   forking thread                                       others
//   lazy files, windows, publishing: answers others      publish, then wait
//   signals blocked
//   files, descriptors, ranges, ... , arenas             finish what they change, then wait
//   clone; the child copies
//   lets go of all                                       go on
//
// The order is the one in which they are taken inside each other. What a rendezvous makes known in all address spaces it notes in
// the tables before it ends (rendezvous.hpp), so a child is never forked between the two.
#pragma once

namespace mortise::isolate {

/// Holds them all. Called with the program's signals blocked and those of the runtime let in; blocks these as well. Blocking.
void hold_tables() noexcept;

/// In the thread that holds them.
void let_go_of_tables() noexcept;

/// In the child: the locks of its copy are free.
void reset_tables() noexcept;

}  // namespace mortise::isolate
