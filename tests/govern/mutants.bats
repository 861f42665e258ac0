#!/usr/bin/env bats
# Takes each check out of soft_oom.c in turn, and sees the test of that check fail: so each check is needed and each test can fail.
# Where two checks cover the same case (an extension neither is the allocator nor asks for the stream), both are taken out;
# the unit test tells them apart.
# bats file_tags=mutants
load common

# caught CHECK... -- TEST: without these checks the test of refuse_not.bats fails.
caught() {
    local mutant checks=()
    while [ "$1" != -- ]; do
        checks+=("$1")
        shift
    done
    mutant=$(build/govern/mutant "${checks[@]}")
    run env VRAMGC_LIBRARY="$PWD/$mutant" bats --filter "^$2" tests/govern/refuse_not.bats
    echo "$output"
    [ "$status" = 1 ]
    [[ $output == *"not ok 1"* ]]
}

@test "the mutants are built right: with all checks left in, a mutant passes" {
    run env VRAMGC_LIBRARY="$PWD/$(build/govern/mutant)" bats --filter '^(not the|uncached: the|capturing)' tests/govern/refuse_not.bats
    echo "$output"
    [ "$status" = 0 ]
}

@test "NOT_ALLOCATOR, UNCACHED" { caught NOT_ALLOCATOR UNCACHED -- 'not the allocator: an extension'; }
@test "UNCACHED" { caught UNCACHED -- 'uncached: the path without'; }
@test "CAPTURING: this stream" { caught CAPTURING -- 'capturing: this stream'; }
@test "CAPTURING: another stream" { caught CAPTURING -- 'capturing: another stream'; }
@test "RETRY" { caught RETRY -- 'retry: a memory fraction'; }
@test "INDUCED" { caught INDUCED -- 'refused: the same request'; }
@test "EXPANDABLE" { caught EXPANDABLE -- 'expandable: a native segment'; }
@test "BROKEN" { caught BROKEN -- 'broken: a refusal became'; }
