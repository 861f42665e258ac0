#!/usr/bin/env bats
# What is told while the program runs: on standard error, by vramgc's own thread.
load common

setup() {
    begin
    export VRAMGC_THRESHOLD=100
    said=$BATS_TEST_TMPDIR/err
}

# until_said WORDS: for a script of c10drive: waits until the words are on standard error.
until_said() {
    local file=$BATS_TEST_TMPDIR/${1//[^A-Za-z0-9]/_}
    printf '#!/bin/sh\nunset LD_PRELOAD\nexec grep -qF "%s" "%s"\n' "$1" "$said" >"$file"
    chmod +x "$file"
    echo "until $file"
}

@test "an out-of-memory is told at once, with who has the card" {
    for mode in flush compact; do
        for version in $versions; do
            VRAMGC_MODE=$mode drive "$version" \
                "cuda_malloc e 100MiB; alloc a 500MiB; expect_oom 300MiB; $(until_said 'gpu0: out of memory: 300 MiB wanted; live 500 MiB, idle 0 B, libraries here 100 MiB, others and driver 256 MiB, free 168 MiB'); _exit 0" --mem 1GiB
            [ "$status" = 0 ]
            # the report's time, though the line is written a tenth of a second later
            at=$(sed -nE 's/.* 0:00:([0-9.]+) warn  gpu0: out of memory.*/\1/p' "$said")
            build/vramgc report --all "$BATS_TEST_TMPDIR/record.vramgc" | grep -E "^.{9}0:$at +0 +300 MiB"
        done
    done
}

@test "so is a limit of PyTorch's own, and what the host refuses" {
    for version in $versions; do
        VRAMGC_MODE=flush drive "$version" \
            "fraction 0.2; alloc a 100MiB; expect_oom 300MiB; $(until_said 'gpu0: out of memory: 300 MiB wanted; live 100 MiB, idle 0 B, others and driver 256 MiB, free 668 MiB'); _exit 0" --mem 1GiB
        [ "$status" = 0 ]
        SIMGPU_HOST_MEM=1GiB VRAMGC_MODE=flush drive "$version" \
            "alloc a 100MiB; pin p 600MiB; pin q 1200MiB; $(until_said 'the host refused page-locked memory: 1.2 GiB wanted; 600 MiB pinned, '); _exit 0" --mem 1GiB
    done
}

@test "of many only one a second has a line; the others are counted" {
    local script= i
    for ((i = 0; i < 100; i++)); do
        script+='expect_oom 3GiB; '
    done
    for version in $versions; do
        for mode in flush compact; do
            VRAMGC_MODE=$mode drive "$version" "alloc a 100MiB; $script" --mem 1GiB
            [ "$status" = 0 ]
            python3 - "$said" <<'PYTHON'
import re, sys
rows = [re.search(r"(\d+):(\d+):([\d.]+) warn  gpu0: out of memory: 3.0 GiB wanted;[^(]*(?:\(and (\d+) more since)?", line) for line in open(sys.argv[1])]
rows = [row.groups() for row in rows if row]
assert sum(1 + int(row[3] or 0) for row in rows) == 100, rows
at = [3600 * int(row[0]) + 60 * int(row[1]) + float(row[2]) for row in rows]
between = [b - a for a, b in zip(at, at[1:])][:-1]  # the last line is written at the end, whenever that is
assert all(seconds > 0.7 for seconds in between), at
PYTHON
        done
    done
}

@test "a log that is off stays silent" {
    for version in $versions; do
        VRAMGC_LOG=error VRAMGC_MODE=flush drive "$version" 'alloc a 100MiB; expect_oom 3GiB' --mem 1GiB
        [ "$(but_for_ooms <"$said" | wc -l)" = "$(wc -l <"$said")" ]
    done
}

# tells_job NUMBER WORDS: the line of that job, but for what its time and the highest held were.
tells_job() {
    local line
    line=$(sed -nE "s/.* info  (job $1  )(.*)/\1\2/p" "$said" | sed -E 's/^(job [0-9]+)  [^ ]+( [a-z]+( [0-9]+ s)?)?  /\1  /; s/ held [0-9.]+ .iB//')
    [ "$line" = "job $1  $2" ]
}

@test "on request each job has a line when the program comes to rest, and an entry in the file" {
    export VRAMGC_LOG=info # a job that is held up for less than a second in its midst stays one
    for mode in flush compact; do
        for version in $versions; do
            VRAMGC_MODE=$mode drive "$version" \
                "alloc m 200MiB; alloc t 300MiB; free t; pin p 64MiB; $(until_said 'job 1  ');
                 alloc k 96MiB; alloc t 700MiB; free t; alloc t 300MiB; free t; $(until_said 'job 2  ');
                 free k; alloc t 164MiB; free t; $(until_said 'job 3  '); _exit 0" --mem 2GiB
            tells_job 1 'peak live 500 MiB  now 200 MiB'
            tells_job 2 'peak live 996 MiB  now 296 MiB (+96.0 MiB since job 1)'
            tells_job 3 'peak live 364 MiB  now 200 MiB (-96.0 MiB since job 2)'
            [ "$(grep -c '^job ' <<<"$facts")" = 3 ]
            [[ $(grep '^job 2 ' <<<"$facts") == "job 2 device=0 peak_live=$((996 << 20)) "*" live=$((296 << 20)) host="*" pinned=$((64 << 20)) took="* ]]
            build/vramgc report --json "$BATS_TEST_TMPDIR/record.vramgc" | python3 -c '
import json, sys
jobs = json.load(sys.stdin)["processes"][0]["jobs"]
MIB = 1 << 20
assert [job["live_bytes"] // MIB for job in jobs] == [200, 296, 200], jobs
assert all(job["peak_held_bytes"] >= job["peak_live_bytes"] and 0 < job["host_bytes"] < 1 << 40 for job in jobs), jobs
assert all(a["time_ns"] + a["took_ns"] <= b["time_ns"] + b["took_ns"] for a, b in zip(jobs, jobs[1:])), jobs'
            [[ $(build/vramgc report --all "$BATS_TEST_TMPDIR/record.vramgc") == *$'\nJOBS '* ]]
            [[ $(build/vramgc report "$BATS_TEST_TMPDIR/record.vramgc") != *$'\nJOBS '* ]]
        done
    done
}

# ahead SECONDS BEFORE: for a script of c10drive: once a look has seen what came so long after the start, the clock is so far ahead.
ahead() {
    step "ahead-$1" "build/govern/show '$BATS_TEST_TMPDIR/record.vramgc' | awk '/^worked_ns/ { seen = \$2 >= $2e9 } END { exit !seen }' &&
        python3 -c 'import sys; open(sys.argv[1], \"r+b\").write(($1 * 10**9).to_bytes(8, sys.byteorder))' '$BATS_TEST_TMPDIR/clock'"
}

# A rest is a second: nothing is over by itself while the test waits. Before job 5 the program rests between two looks.
@test "a job of which nothing is left ends after four rests, one that left something after twenty" {
    export VRAMGC_LOG=info VRAMGC_TEST_REST=1s VRAMGC_TEST_SAMPLE=300ms VRAMGC_TEST_CLOCK=$BATS_TEST_TMPDIR/clock VRAMGC_MODE=compact
    for version in $versions; do
        head -c 8 /dev/zero >"$VRAMGC_TEST_CLOCK"
        drive "$version" \
            "alloc m 200MiB; alloc t 300MiB; free t; $(ahead 30 0.001); $(until_said 'job 1  ');
             alloc t 320MiB; free t; $(ahead 40 30); $(until_said 'job 2  ');
             alloc k 64MiB; alloc t 340MiB; free t; $(ahead 50 40); alloc t 360MiB; free t; $(ahead 80 50); $(until_said 'job 3  ');
             alloc n 64MiB; alloc t 380MiB; free t; $(ahead 110 80); alloc t 400MiB; free t; $(ahead 140 110); $(until_said 'job 5  '); _exit 0" --mem 2GiB
        tells_job 2 'peak live 520 MiB  now 200 MiB (+0 B since job 1)'
        tells_job 3 'peak live 624 MiB  now 264 MiB (+64.0 MiB since job 2)'
        tells_job 4 'peak live 708 MiB  now 328 MiB (+64.0 MiB since job 3)'
        tells_job 5 'peak live 728 MiB  now 328 MiB (+0 B since job 4)'
    done
}

@test "of jobs none is left out" {
    local script= i
    for ((i = 1; i <= 40; i++)); do
        script+="alloc t 64MiB; free t; $(until_said "job $i  "); "
    done
    export VRAMGC_LOG=info VRAMGC_TEST_REST=1ms VRAMGC_TEST_SAMPLE=1ms VRAMGC_MODE=compact
    for version in $versions; do
        drive "$version" "$script" --mem 1GiB
        [ "$status" = 0 ]
        grep -qF 'now 0 B (+0 B since job 39)' "$said"
    done
}

# From the fifth to the sixteenth.
@test "what grows from job to job is told by the job when memory runs out" {
    local script= i
    for ((i = 1; i <= 16; i++)); do
        script+="alloc k$i 64MiB; alloc t 300MiB; free t; $(until_said "job $i  "); "
    done
    export VRAMGC_LOG=info VRAMGC_TEST_REST=5ms VRAMGC_MODE=flush
    for version in $versions; do
        drive "$version" "$script expect_oom 1200MiB; _exit 0" --mem 2GiB
        [ "$status" = 0 ]
        [[ $(build/vramgc report "$BATS_TEST_TMPDIR/record.vramgc") == *'CAUSE    Tensors fill the card, and grow: +64.0 MiB a job, 11 jobs.'* ]]
    done
}

# Our own thread has looked on for seconds, in which the program rested.
@test "a model that is loaded, and a little that comes and goes, are no jobs" {
    local seconds='build/vramgc report --json $1 | grep -qE "\"elapsed_ns\": [3-9][0-9]{9}"'
    for version in $versions; do
        VRAMGC_TEST_REST=1ms VRAMGC_MODE=flush drive "$version" \
            "alloc m 500MiB; alloc t 20MiB; free t; $(until_yes "$seconds"); _exit 0" --mem 1GiB
        [ "$(grep -c '^job ' <<<"$facts")" = 0 ]
    done
}

@test "what the program is at when it ends is a job, too" {
    for version in $versions; do
        VRAMGC_TEST_REST=60s VRAMGC_MODE=flush drive "$version" 'alloc m 500MiB; alloc t 200MiB; free t' --mem 1GiB
        [ "$(grep -c '^job 1 .*peak_live='$((700 << 20)) <<<"$facts")" = 1 ]
    done
}

# in_file NAME: standard input as a program for `until`.
in_file() {
    { printf '#!/usr/bin/env bash\nunset LD_PRELOAD\n'; cat; } >"$BATS_TEST_TMPDIR/$1"
    chmod +x "$BATS_TEST_TMPDIR/$1"
    echo "until $BATS_TEST_TMPDIR/$1"
}

@test "marks from outside: none is lost beside the program's own and another's, and all are told" {
    local begin end inside= i
    begin=$(in_file begin <<TEXT
cd '$PWD'
pid=\$(build/vramgc report --json '$BATS_TEST_TMPDIR/record.vramgc' | grep -m1 -o '"pid": [0-9]*' | grep -o '[0-9]*') || exit
for writer in a b; do
    (for i in {1..50}; do build/vramgc mark "\$pid" "\$writer.\$i" || break; done; : >'$BATS_TEST_TMPDIR'/ended.\$writer) >/dev/null 2>&1 &
done
TEXT
)
    end=$(in_file end <<<"[ -e '$BATS_TEST_TMPDIR/ended.a' ] && [ -e '$BATS_TEST_TMPDIR/ended.b' ]")
    for ((i = 1; i <= 100; i++)); do inside+="mark in.$i; "; done
    for version in $versions; do
        rm -f "$BATS_TEST_TMPDIR"/ended.*
        VRAMGC_MODE=flush drive "$version" "alloc a 8MiB; $begin; $inside $end; _exit 0" --mem 1GiB
        [ "$status" = 0 ]
        build/vramgc report --json "$BATS_TEST_TMPDIR/record.vramgc" | python3 -c '
import json, sys
process = json.load(sys.stdin)["processes"][0]
marks = process["marks"]
expected = [f"in.{i}" for i in range(1, 101)] + [f"{w}.{i}" for w in "ab" for i in range(1, 51)]
assert sorted(mark["label"] for mark in marks) == sorted(expected), marks
for writer in ("in.", "a.", "b."):
    times = [mark["time_ns"] for mark in marks if mark["label"].startswith(writer)]
    assert times == sorted(times) and 0 < times[0] <= times[-1] <= 600e9, times
assert process["totals"]["lost_records"] == 0'
        build/vramgc report --all "$BATS_TEST_TMPDIR/record.vramgc" | grep -qE '^ +0:[0-9:.]+ +b\.50$'
    done
}

@test "marks from outside: a label is cut after 47 bytes, and nothing in it steers the terminal" {
    local begin
    begin=$(in_file begin <<TEXT
cd '$PWD'
pid=\$(build/vramgc report --json '$BATS_TEST_TMPDIR/record.vramgc' | grep -m1 -o '"pid": [0-9]*' | grep -o '[0-9]*') || exit
build/vramgc mark "\$pid" \$'red \e[31m and\nbelow' && build/vramgc mark "\$pid" $(printf 'x%.0s' {1..46})yz
TEXT
)
    for version in ${versions%% *}; do
        VRAMGC_MODE=flush drive "$version" "alloc a 8MiB; $begin; _exit 0" --mem 1GiB
        [ "$status" = 0 ]
        build/vramgc report --all "$BATS_TEST_TMPDIR/record.vramgc" >"$BATS_TEST_TMPDIR/text"
        grep -qE '^ +0:[0-9:.]+ +red \?\[31m and below$' "$BATS_TEST_TMPDIR/text"
        grep -qE '^ +0:[0-9:.]+ +x{46}y$' "$BATS_TEST_TMPDIR/text"
    done
}

@test "marks from outside: only of a program that runs under vramgc" {
    run build/vramgc mark $$ here
    [ "$status" = 1 ]
    [[ $output == *"process $$ does not run under vramgc"* ]]
    for wrong in '' '1' '1 here there' '--loud 1 here'; do
        # shellcheck disable=SC2086
        run build/vramgc mark $wrong
        [ "$status" = 2 ]
    done
    run build/vramgc mark 1 ''
    [ "$status" = 2 ]
    run build/vramgc mark 0 here
    [[ $status = 1 && $output == *"process 0 does not run under vramgc"* ]]
    run build/vramgc mark '' here
    [ "$status" = 2 ]
    run build/vramgc mark nobody-is-called-so here
    [[ $status = 1 && $output == *"no program under vramgc is called nobody-is-called-so; "* ]]
}

@test "page-locked memory that grows from job to job is told, and that of the first jobs is not" {
    local i leak= keep=
    for ((i = 1; i <= 16; i++)); do
        leak+="pin p.$i 64MiB; alloc t 64MiB; free t; $(until_said "job $i  "); "
        [ "$i" -gt 3 ] || keep+="pin p.$i 500MiB; "
        keep+="alloc t 64MiB; free t; $(until_said "job $i  "); "
    done
    export VRAMGC_LOG=info VRAMGC_TEST_REST=1ms VRAMGC_TEST_SAMPLE=1ms VRAMGC_MODE=flush
    for version in $versions; do
        drive "$version" "$leak _exit 0" --mem 1GiB
        report=$(build/vramgc report "$BATS_TEST_TMPDIR/record.vramgc" | tr -s ' \n' ' ')
        [[ $report == *'VERDICT Host memory grows: +64.0 MiB a job, 11 jobs. It is page-locked. No allocation failed: '*' DO Lock less RAM'* ]]
        drive "$version" "$keep _exit 0" --mem 1GiB
        [[ $(build/vramgc report "$BATS_TEST_TMPDIR/record.vramgc") != *'Host memory'* ]]
    done
}

@test "doctor -- COMMAND: a program that ran out of memory" {
    local version=${versions##* }
    run tests/on_card --cuda "$(cuda_of "$version")" --mem 4GiB -- build/vramgc doctor -- build/c10/"$version"/c10drive -c 'expect_oom 9GiB'
    [[ $(tr -s ' ' <<<"$output") == *'note memory process '*' ran out of memory: `vramgc run` with the same command tells why'* ]]
}
