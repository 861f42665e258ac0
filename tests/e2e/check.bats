#!/usr/bin/env bats
# shellcheck disable=SC2154
# scripts/check on steps of its own: whatever a step does, the others run, and it ends.

load helpers

# with_steps TABLE: what it says of them.
with_steps() {
    mkdir -p "$work/scripts" "$work/tests"
    cp "$top/tests/surroundings.bash" "$work/tests/"
    awk -v table="$1" '/^quick_steps\(\)/ { print "quick_steps() { cat <<\"STEPS\"\n" table "\nSTEPS\n}"; left = 1 }
        !left { print }
        /^}/ { left = 0 }' "$top/scripts/check" >"$work/scripts/check"
    CHECK_LIMIT=2 run timeout 60 bash "$work/scripts/check"
}

@test "check: steps that hang are ended, with what ran in them; what comes after one that failed does not run" {
    with_steps "hangs | -      | hangs            | sleep 101; true
fine  | -      | is well          | sleep 0.1
deaf  | -      | hangs, and stays | trap '' TERM; sleep 102; sleep 103
last  | hangs? | in any case      | true
never | hangs  | not then         | true"
    equal "$status" 1
    contains "$output" '2 passed, 3 failed'
    contains "$output" 'not run, because of what failed before: never'
    contains "$output" 'check: hangs; after 2 s ran:'
    contains "$output" ' sleep 101'
    contains "$output" ' sleep 102'
    contains_not "$output" 'no such job'
}
