#!/usr/bin/env bats
# The engine alone under many threads (threads.c), with the sanitizers.

setup() { cd "$BATS_TEST_DIRNAME/../.." || exit; }

threads() { TSAN_OPTIONS=halt_on_error=1 timeout 60 "build/pages/threads-$1" "${SECONDS_EACH:-3}" "$2"; }

@test "threads, plain" { threads plain blocks && threads plain frugal && threads plain large && threads plain captures && threads plain grants && threads plain ahead && threads plain streams; }
@test "threads, ThreadSanitizer" { threads tsan blocks && threads tsan frugal && threads tsan large && threads tsan captures && threads tsan grants && threads tsan ahead && threads tsan streams; }
@test "threads, AddressSanitizer and UBSan" { threads asan blocks && threads asan frugal && threads asan large && threads asan captures && threads asan grants && threads asan ahead && threads asan streams; }

@test "an empty_cache storm costs no call into the driver; what is parked is bounded and times out" {
    threads plain storm && threads asan storm
}

@test "expandable segments: an empty_cache storm costs no call either; what is revoked for long goes, and addresses go last" {
    threads plain revoked && threads asan revoked
}

@test "large pieces: few calls, and none is held for a small block where memory is short" {
    threads plain pieces && threads asan pieces && threads plain small
}

@test "idle pages go back for no longer than a thread of the program may spend on it" {
    threads plain budget && threads asan budget
}

@test "lowvram: no more is held than live blocks have needed, though the GPU goes on working" {
    threads plain high && threads asan high && threads plain waits && threads asan waits &&
        threads plain refused && threads asan refused
}

@test "lowvram: where memory is plentiful a block in an expandable segment is in few pieces" {
    threads plain whole && threads asan whole
}

@test "in an expandable segment pieces grow with what it holds; where none can be made, idle ones come as they are" {
    threads plain growing && threads asan growing
}

@test "expandable segments: pieces are smaller again once little of the device is left" {
    threads plain last && threads asan last
}

@test "where a piece is refused the next is half as large" {
    threads plain halved && threads asan halved
}

@test "the next piece is made before it is asked for, where memory is plentiful, and is never missing" {
    local name
    for name in spare no-spare short-spare late-spare; do threads plain $name && threads asan $name || return 1; done
}

@test "before a capture the GPU is asked once more, and waited for where memory is short" {
    threads plain nears && threads tsan nears && threads asan nears
}

@test "above the threshold what is idle is used before new memory is asked for, below it not" {
    threads plain threshold && threads asan threshold
}
