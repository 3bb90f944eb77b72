#!/usr/bin/env bash
# make bench-compare: the cases of docs/compare.md, most of them comparisons of curves. `run.sh [CASE...]` runs only those.
# A case is cut into cells (mortise plan) of a minute or so, kept in build/bench/compare/CASE; what is measured stays, so that a case
# can be run in slices: CASE_BUDGET (8m) is the time for each case in one go, and the next go takes up where this one ended.
# Tables appear here; JSON and pages are build/bench/compare/CASE.json and .html.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=build/bench/compare work=build/bench/compare/work cases=cli/cases budget=${CASE_BUDGET:-8m}
case $budget in
  *m) seconds=$((${budget%m} * 60)) ;;
  *) seconds=${budget%s} ;;
esac
[[ $seconds =~ ^[0-9]+$ ]] || { echo "bench-compare: CASE_BUDGET '$budget': expected for example 300s or 8m" >&2; exit 2; }
mkdir -p "$work"
status=0

compare() {  # NAME CELLS ROUNDS OPTION... -- PROGRAM...: so many cells of so many time rounds and one memory round each
  local folder=$out/$1 name=$1 cells=$2 rounds=$3 begun=$SECONDS longest=0 left=0 got=0 cell start
  shift 3
  mkdir -p "$folder"
  build/bin/mortise plan -o "$folder/plan.new" --cells "$cells" --rounds "$rounds" --warmup 0 --seed 1 "$@" >/dev/null
  if ! cmp -s "$folder/plan.new" "$folder/plan.json"; then  # another command: what was measured is of no use
    rm -f "$folder"/cell-*.json
  fi
  mv "$folder/plan.new" "$folder/plan.json"
  for ((cell = 0; cell < cells; cell++)); do
    [ ! -e "$folder/$(printf 'cell-%05d.json' "$cell")" ] || continue
    if ((SECONDS - begun + longest >= seconds)); then
      left=$((left + 1))
      continue
    fi
    start=$SECONDS
    build/bin/mortise cell "$folder/plan.json" "$cell" -o "$folder" >/dev/null
    ((SECONDS - start <= longest)) || longest=$((SECONDS - start))
  done
  if [ "$left" = "$cells" ]; then
    echo "bench-compare: $name: nothing measured in $budget, raise CASE_BUDGET" >&2
    return
  fi
  build/bin/mortise report "$folder" --json "$out/$name.json" --html "$out/$name.html" || got=$?
  [ "$left" = 0 ] || echo "$name: $left of $cells cells are still to be measured: run it again"
  [ $got = 0 ] || [ $got = 3 ] || status=$got
}

fits() {  # NAME CELLS ROUNDS -- PROGRAM...: OCaml's next-fit against its best-fit as the collector's patience varies
  local cut=("${@:1:3}")
  shift 3
  compare "${cut[@]}" --arms 'next-fit=env:OCAMLRUNPARAM=a=0' --arms 'best-fit=env:OCAMLRUNPARAM=a=2' \
    --sweep 'OCAMLRUNPARAM=o={20,40,80,120,160,240,320}' "$@"
}

ocaml_churn() {
  cp $cases/churn.ml "$work" && (cd "$work" && ocamlopt churn.ml -o churn)
  fits ocaml_churn 8 2 -- "$work/churn" ${CHURN:-300000 60000}
}

ocaml_top_heap() {
  cp $cases/churn.ml "$work" && (cd "$work" && ocamlopt churn.ml -o churn)
  build/venv/bin/python $cases/top_heap.py "$out" "$work/churn" 12500,25000,50000,75000,100000,150000,200000,300000,450000 60000
}

ocaml_ocamlopt() {
  sh $cases/types.sh 500 >"$work/types.ml"
  fits ocaml_ocamlopt 5 2 --check exit -- ocamlopt.opt -w -a -c "$work/types.ml"
}

ocaml_coqc() {
  cp "$(coqc -where)/theories/Lists/List.v" "$work/MyList.v"
  fits ocaml_coqc 5 2 --check exit -- coqc -q "$work/MyList.v"
}

go_gogc() {
  go build -o "$work/gochurn" $cases/churn.go
  compare go_gogc 5 2 --arms as-shipped --sweep go -- "$work/gochurn" 1200000 100000
}

java_xmx() {
  javac -d "$work" $cases/Churn.java
  compare java_xmx 5 2 --arms as-shipped --sweep java -- java -cp "$work" Churn 1200000 200000
}

node_semi_space() {
  compare node_semi_space 5 2 --arms as-shipped --sweep node -- node $cases/churn.js 1000000 100000
}

jemalloc_decay() {
  cc -O2 $cases/server.c -o "$work/server"
  compare jemalloc_decay 8 2 --mem avg --arms glibc,jemalloc --sweep jemalloc -- "$work/server" 4 400000 250 120000
}

classic_fits() {
  cc -O2 $cases/frag.c -o "$work/frag"
  compare classic_fits 10 10 --arms next_fit,first_fit,best_fit -- "$work/frag" 4
}

bars() {  # what a comparison itself must keep to
  cc -O2 $cases/server.c -o "$work/server"
  cc -O2 $cases/touch.c -o "$work/touch"
  build/venv/bin/python $cases/bars.py "$out" "$seconds" "$work/server 4 100000 5 40000" "$work/touch 2" ${BARS:-}
}

pictures() {  # of what was measured, into the guide; needs what `make test` sets up
  build/venv/bin/python $cases/pictures.py "$out" docs/figures
}

known=$(declare -F | sed 's/declare -f //' | grep -Ev '^(compare|fits)$' | tr '\n' ' ')
for case in "$@"; do
  case " $known" in *" $case "*) ;; *) echo "bench-compare: no case '$case'; there are: $known" >&2; exit 2 ;; esac
done
for case in "${@:-ocaml_churn ocaml_top_heap ocaml_ocamlopt ocaml_coqc go_gogc java_xmx node_semi_space jemalloc_decay classic_fits bars}"; do
  for name in $case; do
    echo "== $name"
    "$name"
  done
done
exit $status
