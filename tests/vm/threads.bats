#!/usr/bin/env bats
# The engine alone under many threads (threads.c), and alone.c's cases. BUILDS: which builds of it (plain, tsan, asan; standard: plain);
# SECONDS_EACH: how long many threads work on it.

setup() { cd "$BATS_TEST_DIRNAME/../.." || exit; }

# holds CASE...: in all builds.
holds() {
    local build name
    for build in ${BUILDS:-plain}; do
        for name; do
            TSAN_OPTIONS=halt_on_error=1 timeout 300 "build/vm/threads-$build" "${SECONDS_EACH:-1}" "$name" || return 1
        done
    done
}

@test "blocks come and go" { holds blocks large; }
@test "lowvram: blocks come and go" { holds frugal; }
@test "captures begin and end" { holds captures; }
@test "further devices are let in, and ranges grow and go" { holds grants; }
@test "memory is made ahead of blocks" { holds ahead; }
@test "streams come and go" { holds streams; }

@test "an empty_cache storm costs no call into the driver; what is parked is bounded and times out" { holds storm; }

@test "expandable segments: an empty_cache storm costs no call either; what is revoked for long goes, and addresses go last" { holds revoked; }

@test "large pieces: few calls, and none is held for a small block where memory is short" { holds pieces small; }

@test "idle pages go back for no longer than a thread of the program may spend on it" { holds budget; }

@test "lowvram: no more is held than live blocks have needed, though the GPU goes on working" { holds high waits refused; }

@test "lowvram: where memory is plentiful a block in an expandable segment is in few pieces" { holds whole; }

@test "in an expandable segment pieces grow with what it holds; where none can be made, idle ones come as they are" { holds growing; }

@test "expandable segments: pieces are smaller again once little of the device is left" { holds last; }

@test "where a piece is refused the next is half as large" { holds halved; }

@test "the next piece is made before it is asked for, where memory is plentiful, and is never missing" {
    holds spare no-spare short-spare late-spare
}

@test "before a capture the GPU is asked once more, and waited for where memory is short" { holds nears; }

@test "above the threshold what is idle is used before new memory is asked for, below it not" { holds threshold; }
