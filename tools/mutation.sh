#!/bin/sh
# Change predict, allocate and act, one expression at a time, and run the tests that reach it.
# Prints the share of changes that a test noticed, and fails where a room has less than 85 %.
# usage: mutation.sh BIN [NAME...]     NAME: mutants to try, as "slaqd.allocate.guard*"; all where none is given
set -eu
bin=$1
shift
least=85
# Results are kept from run to run, and know nothing of tests that have changed since.
rm -rf mutants
# The journal's tests wait for the disk, and none of them is about a disk that fails.
[ -w /dev/shm ] && export TMPDIR="${TMPDIR:-/dev/shm}"
"$bin/mutmut" run "$@"
"$bin/mutmut" results --all true | awk -v least="$least" '
  $2 == "not" { next }
  {
    split($1, part, "."); room = part[1] "." part[2]
    all[room]++
    if ($2 == "killed" || $2 == "timeout") noticed[room]++
  }
  END {
    for (room in all) {
      score = 100 * noticed[room] / all[room]
      printf "%-15s %5.1f %% of %d changes noticed\n", room, score, all[room]
      if (score < least) bad = 1
    }
    if (bad) print "less than " least " %; what nobody noticed: mutmut results, mutmut show NAME"
    exit bad
  }'
