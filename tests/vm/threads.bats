#!/usr/bin/env bats
# The engine alone on a small driver: under many threads (threads.c), and call by call (alone.c, decay.c). BUILDS: which builds of it
# (plain, tsan, asan; standard: plain); SECONDS_EACH: how long many threads work on it.
# WHOLE=whole: the driver tells of the whole context at once.
load ../surroundings

setup() { cd "$BATS_TEST_DIRNAME/../.." || exit; }

# holds CASE...: in all builds.
holds() {
    local build name
    for build in ${BUILDS:-plain}; do
        for name; do
            TSAN_OPTIONS=halt_on_error=1 timeout 300 "build/vm/threads-$build" "${SECONDS_EACH:-1}" "$name" ${WHOLE:+"$WHOLE"} || return 1
        done
    done
}

# bats test_tags=random
@test "blocks come and go" { holds blocks large; }
# bats test_tags=random
@test "lowvram: blocks come and go" { holds lowvram; }
@test "captures begin and end" { holds captures; }
# bats test_tags=random
@test "further devices are let in, and ranges grow and go" { holds attachments large-attachments; }
# bats test_tags=random
@test "mode flush: steps are made, mapped and unmapped" { holds steps; }
# bats test_tags=random
@test "streams come and go" { holds streams; }
# bats test_tags=random
@test "the whole context is asked: blocks, streams and captures come and go" { WHOLE=whole holds blocks streams captures; }

@test "each of 128 streams is asked, and none where nothing became idle" { holds many-streams; }
@test "one event for all streams, and nobody is waited for" { holds context-event; }
@test "a driver that refuses that event is asked once" { holds context-refused; }

@test "who needs a page that another thread is unmapping sleeps" { holds sleeps; }
@test "a stream ends, and a capture begins, while another thread waits for the GPU, whose work waits for them" { holds sleeps-for-nobody; }

@test "an empty_cache storm costs no call into the driver" { holds storm; }
@test "expandable segments: an empty_cache storm costs no call either; the addresses go last" { holds attach-storm; }

@test "a large block costs few calls" { holds extents; }
@test "an extent is of the pages that are its block's alone" { holds inner-pages; }
@test "a block that stays keeps its own pages only, whatever came and goes around it" { holds survivors; }
@test "what kernels read past the end of a block is mapped while it lives, as far as its segment goes" { holds behind; }
@test "an extent is at most a 256th of the device" { holds largest-extent; }
@test "where an extent is refused the next is half as large" { holds halved; }
@test "while the card is roomy memory comes in large pieces" { holds roomy; }
@test "a range that ended is had again, with its memory, once the GPU is past it" { holds range-again; }

@test "an idle extent that a block would use in part is replaced by pages" { holds replaced; }
@test "where the GPU is not past it, it is used as it lies" { holds not-replaced; }

@test "cached handles are used first, then what PyTorch has given up, then, above the threshold, what it has cached" { holds order; }
@test "above the threshold what is idle is used, down to it" { holds above-threshold; }
@test "cached handles that do not fit go back before new ones are made" { holds unfitting; }
@test "no more is physical than PyTorch has reserved: the GPU is waited for" { holds above-reserved; }
@test "lowvram: the GPU is asked, and not waited for while there is memory" { holds not-waited; }
@test "what the card itself would have free, and what can be had" { holds as-the-card; }
@test "a reading of the card beside pages that go is made again" { holds reading-beside; }
@test "the more a reading costs the longer it will do" { holds readings-cost; }
@test "a reading beside which pages moved is no answer" { holds reading-answers; }
@test "what goes back because it is old waits for who reads the card" { holds decay-beside; }
@test "where pages go beside it the driver is asked again for what a program is told" { holds told-beside; }

@test "before a capture the GPU is asked once more, and waited for where memory is short" { holds capture-nears; }

@test "each kind of idle memory goes at its time and not before, cached handles too" { holds decay-by-age; }
@test "of what PyTorch has given up the oldest goes; what it takes again and again stays" { holds decay-of-returned; }
@test "of what PyTorch has cached no more goes than is above the threshold" { holds decay-amount; }
@test "a trimmed pool's idle memory goes as what PyTorch has given up" { holds decay-of-pool; }
@test "what the GPU has not finished with stays, and nobody waits" { holds decay-unfinished; }
@test "what is on its way to the driver is idle until it is there" { holds decay-leaving; }
@test "few pages leave at once where the driver is slow, and many where it is fast" { holds decay-batches; }
