#!/usr/bin/env bats
# What is told while the program runs: on standard error, by vramgc's own thread.
load common

setup() {
    begin
    export VRAMGC_THRESHOLD=100
    said=$BATS_TEST_TMPDIR/err
}

# until_said WORDS: for a script of c10drive: waits until the words are on standard error.
until_said() { until_yes "grep -qF '$1' $said"; }

@test "an out-of-memory is told at once, with who has the card" {
    for mode in flush compact; do
        for version in $versions; do
            VRAMGC_MODE=$mode drive "$version" \
                "cuda_malloc e 100MiB; alloc a 500MiB; expect_oom 300MiB; $(until_said 'gpu0: out of memory: 300 MiB wanted; live 500 MiB, idle 0 B, other code here 100 MiB, others and driver 256 MiB, free 168 MiB'); _exit 0" --mem 1GiB
            [ "$status" = 0 ]
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
rows = [re.search(r"(\d+):(\d+):([\d.]+) warn  gpu0: out of memory: 3.0 GiB wanted;[^(]*(?:\(and (\d+) times before)?", line) for line in open(sys.argv[1])]
rows = [row.groups() for row in rows if row]
assert sum(1 + int(row[3] or 0) for row in rows) == 100, rows
at = [3600 * int(row[0]) + 60 * int(row[1]) + float(row[2]) for row in rows]
between = [b - a for a, b in zip(at, at[1:])][:-1]  # the last line is written at the end, whenever that is
assert all(seconds > 0.9 for seconds in between), at
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
