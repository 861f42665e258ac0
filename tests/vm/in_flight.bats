#!/usr/bin/env bats
# Tensors are freed while work on them is under way and their pages are wanted elsewhere at once; and all that live always fit, so
# that none may be refused (in_flight.py). SEEDS: how many scripts of each kind.
load common

# in_flight STREAMS FIRST-SEED
in_flight() {
    local seed version
    for ((seed = $2; seed < $2 + ${SEEDS:-1}; seed++)); do
        python3 tests/vm/in_flight.py --seed "$seed" --streams "$1" >"$BATS_TEST_TMPDIR/script" || return 1
        for version in $versions; do
            drive "$version" "$BATS_TEST_TMPDIR/script" --mem 768MiB
            [ "$status" = 0 ] || return 1
            [ -z "$errors" ] || return 1
            [ "$(fact page_unmaps)" -gt 0 ] || return 1
        done
    done
}

constant_reclaim() { BEHIND=$PWD/build/vm/libconstant_reclaim.so; }

@test "one stream" { in_flight 1 1; }
@test "four streams" { in_flight 4 10; }
@test "twenty streams" { in_flight 20 20; }
@test "constant reclaim: one stream" { constant_reclaim && in_flight 1 30; }
@test "constant reclaim: four streams" { constant_reclaim && in_flight 4 40; }
@test "constant reclaim: four streams, a card's latencies" { constant_reclaim && SIMGPU_LATENCY=card in_flight 4 50; }
@test "lowvram: four streams" { VRAMGC_LOWVRAM=1 VRAMGC_REST=2ms VRAMGC_COOLDOWN=0 in_flight 4 60; }
