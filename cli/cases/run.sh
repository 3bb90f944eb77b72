#!/usr/bin/env bash
# make bench-compare: the cases of docs/compare.md, each a comparison of curves. `run.sh [CASE...]` runs only those.
# Tables appear here; JSON and pages go to build/bench/compare. CASE_BUDGET (8m) is the time for each.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=build/bench/compare work=build/bench/compare/work cases=cli/cases budget=${CASE_BUDGET:-8m}
mkdir -p "$work"
status=0

compare() {  # NAME OPTION... -- PROGRAM...
  local name=$1 got=0
  shift
  build/bin/mortise compare --budget "$budget" --json "$out/$name.json" --html "$out/$name.html" "$@" || got=$?
  [ $got = 0 ] || [ $got = 3 ] || status=$got
}

fits() {  # NAME -- PROGRAM...: OCaml's next-fit against its best-fit as the collector's patience varies
  local name=$1
  shift
  compare "$name" --arms 'next-fit=env:OCAMLRUNPARAM=a=0' --arms 'best-fit=env:OCAMLRUNPARAM=a=2' \
    --sweep 'OCAMLRUNPARAM=o={20,40,80,120,160,240,320}' "$@"
}

ocaml_churn() {
  cp $cases/churn.ml "$work" && (cd "$work" && ocamlopt churn.ml -o churn)
  fits ocaml_churn -- "$work/churn" ${CHURN:-300000 60000}
}

ocaml_top_heap() {
  cp $cases/churn.ml "$work" && (cd "$work" && ocamlopt churn.ml -o churn)
  build/venv/bin/python $cases/top_heap.py "$out" "$work/churn" 12500,25000,50000,75000,100000,150000,200000,300000,450000 60000
}

ocaml_ocamlopt() {
  sh $cases/types.sh 500 >"$work/types.ml"
  fits ocaml_ocamlopt --check exit -- ocamlopt.opt -w -a -c "$work/types.ml"
}

ocaml_coqc() {
  cp "$(coqc -where)/theories/Lists/List.v" "$work/MyList.v"
  fits ocaml_coqc --check exit -- coqc -q "$work/MyList.v"
}

go_gogc() {
  go build -o "$work/gochurn" $cases/churn.go
  compare go_gogc --arms as-shipped --sweep go -- "$work/gochurn" 1200000 100000
}

jemalloc_decay() {
  cc -O2 $cases/server.c -o "$work/server"
  compare jemalloc_decay --mem avg --arms glibc,jemalloc --sweep jemalloc -- "$work/server" 4 400000 250 120000
}

classic_fits() {
  cc -O2 $cases/frag.c -o "$work/frag"
  compare classic_fits --arms next_fit,first_fit,best_fit -- "$work/frag" 4
}

bars() {  # what a comparison itself must keep to
  cc -O2 $cases/server.c -o "$work/server"
  cc -O2 $cases/touch.c -o "$work/touch"
  build/venv/bin/python $cases/bars.py "$out" "$work/server 4 100000 5 40000" "$work/touch 2" ${BARS:-}
}

known=$(declare -F | sed 's/declare -f //' | grep -Ev '^(compare|fits)$' | tr '\n' ' ')
for case in "$@"; do
  case " $known" in *" $case "*) ;; *) echo "bench-compare: no case '$case'; there are: $known" >&2; exit 2 ;; esac
done
for case in "${@:-ocaml_churn ocaml_top_heap ocaml_ocamlopt ocaml_coqc go_gogc jemalloc_decay classic_fits bars}"; do
  for name in $case; do
    echo "== $name"
    "$name"
  done
done
exit $status
