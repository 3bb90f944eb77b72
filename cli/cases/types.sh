#!/bin/sh
# Prints an OCaml program of COUNT modules' worth of types, functions and closures: work for ocamlopt itself.
awk -v count="${1:-700}" 'BEGIN {
  for (i = 1; i <= count; i++) {
    printf "type t%d = A%d of int | B%d of t%d * string | C%d of (int -> int) * t%d list\n", i, i, i, i, i, i
    printf "let rec size%d = function A%d n -> n | B%d (t, s) -> size%d t + String.length s\n", i, i, i, i
    printf "  | C%d (f, l) -> List.fold_left (fun n t -> f n + size%d t) 0 l\n", i, i
    printf "let make%d n = C%d ((fun x -> x + n),\n", i, i
    printf "  List.init n (fun k -> B%d (A%d k, string_of_int (k * %d))))\n", i, i, i
    printf "let pairs%d l = List.map (fun (a, b, c) -> (c, a + size%d b, (b, c))) l\n", i, i
  }
}'
