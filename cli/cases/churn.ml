(* A store whose entries change size as it ages: keys with arrays whose mean drifts over 16 phases, some up to 8 KB, a
   quarter of them removed as it goes, and a ring of 64 short-lived trees beside it. What a fit policy leaves behind
   in such a heap is fragmentation. The entries hold references: a collector that has nothing to follow would cost
   nothing, and would have no memory to trade for time. Usage: churn OPERATIONS KEYS *)
type tree = Leaf | Node of tree * int * tree

let rec grow depth = if depth = 0 then Leaf else Node (grow (depth - 1), depth, grow (depth - 1))
let rec weight = function Leaf -> 0 | Node (l, v, r) -> weight l + v + weight r

let () =
  let operations = int_of_string Sys.argv.(1) and keys = int_of_string Sys.argv.(2) in
  Random.init 42;
  let store = Hashtbl.create keys in
  let ring = Array.make 64 Leaf in
  let sum = ref 0 in
  let shared = ref 0 in
  for i = 0 to operations - 1 do
    let phase = i * 16 / operations in
    let key = Random.int keys in
    if Random.int 4 = 0 then Hashtbl.remove store key
    else begin
      let mean = 80 + 70 * ((phase * 7) mod 16) in
      let size = if Random.int 33 = 0 then 16 + Random.int 8192 else 16 + Random.int (2 * mean) in
      Hashtbl.replace store key (Array.make (size / 8) shared)
    end;
    if i land 255 = 0 then begin
      let place = (i lsr 8) land 63 in
      sum := (!sum + weight ring.(place)) land 0xffffff;
      ring.(place) <- grow (8 + Random.int 6)
    end
  done;
  let total = Hashtbl.fold (fun _ b n -> n + Array.length b) store 0 in
  Printf.printf "%d %d %d\n" (Hashtbl.length store) total !sum
