#!/usr/bin/env bats
# libvramgc.so as a whole, built with the sanitizers, in front of PyTorch's own allocator, while another thread asks it for all that
# can be asked (host.c). No line of a sanitizer, of the library or of the simulated device may be written. The simulated device and
# PyTorch are not instrumented: what they do wrong in memory of their own is not seen here.
# bats file_tags=deep
load ../c10/drive
load ../c10/storm

setup() { begin; }

# with asan|tsan: the library and what has to be loaded around it.
with() {
    local folder=$PWD/build/sanitize/$1
    library=$folder/libvramgc.so
    FRONT=$folder/lib$1.so:$folder/libfirst.so
    BEHIND=$PWD/build/sanitize/libhost.so
    export SIMGPU_STRICT=report
    export UBSAN_OPTIONS=print_stacktrace=1 ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=1:strict_string_checks=1
    export TSAN_OPTIONS="suppressions=$PWD/tests/hook/tsan.supp halt_on_error=1 die_after_fork=0 report_thread_leaks=0 atexit_sleep_ms=0 history_size=5"
}

# What PyTorch itself says without us: about its setting's name, requests that were refused, a card that is not a large one.
but_for_pytorch() { grep -vE '^\[W.* CUDA[A-Za-z]*Allocator\.cpp|is deprecated|nvmlDeviceGetGpuFabricInfoV' <<<"$errors" || true; }

# each_is CHECK SCRIPT [OPTION-OF-SIMGPU...]: on every release, under both, the check holds and vramgc counts no error of its own.
each_is() {
    local version build
    for build in asan tsan; do
        with "$build"
        for version in $versions; do
            drive "$version" "${@:2}"
            "$1" || return 1
            [ "$(fact internal_errors)" = 0 ] || return 1
        done
    done
}

# clean SCRIPT [OPTION-OF-SIMGPU...]: nobody has anything to complain about.
clean() { each_is ended_well "$@"; }
ended_well() { [ "$status" = 0 ] && [ -z "$(but_for_pytorch)" ]; }

# clean_exit SCRIPT [OPTION-OF-SIMGPU...]: the same of a process that ends while its threads work: to those the driver says that it
# shuts down, with us and without, and PyTorch ends the process.
clean_exit() { each_is ended_somehow "$@"; }
ended_somehow() {
    [ "$status" = 0 ] || [[ $errors == *"terminate called"* ]] || return 1
    ! grep -E 'Sanitizer|runtime error' <<<"$errors"
}

# noticed BUILD HOST SENTENCE: what host.c does wrong is seen inside the library.
noticed() {
    with "$1"
    HOST=$2 drive "${versions%% *}" 'alloc a 3MiB count=30; await vramgc.blocks >= 30; sleep 60000'
    [ "$status" != 0 ]
    grep -A 4 -F "$3" <<<"$errors" | grep -E 'src/|libvramgc'
}

compact() { export VRAMGC_MODE=compact VRAMGC_LOWVRAM=1 VRAMGC_TEST_REST=2ms VRAMGC_COOLDOWN=0; }
eager() { export VRAMGC_THRESHOLD=10 VRAMGC_COOLDOWN=0 VRAMGC_TEST_HYSTERESIS=0 VRAMGC_TEST_MIN_GAIN=1MiB VRAMGC_TEST_REST=1ms; }

# four_threads SEED [WORD...]
four_threads() {
    echo "random seed=$1 ops=2000 threads=4 streams=8 max=96MiB live=180 every=500 compare=0 fill=1 ${*:2}; free_all; synchronize"
}

small=(--mem 1600MiB)

@test "the sanitizers are there: a race is noticed" { noticed tsan racy 'ThreadSanitizer: data race'; }
@test "the sanitizers are there: a write beyond the end is noticed" { noticed asan overflow 'AddressSanitizer: heap-buffer-overflow'; }

@test "names: threads ask where they are, of functions that come and go" {
    for build in asan tsan; do
        with "$build"
        "build/sanitize/$build/names"
    done
}
@test "compact, lowvram: threads, streams, native segments" { compact && clean "$(four_threads 1)" "${small[@]}"; }
@test "compact, lowvram: private pools" { compact && clean "$(four_threads 2 pools=1)" "${small[@]}"; }
@test "compact, lowvram: expandable segments" {
    compact && PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True clean "$(four_threads 3)" "${small[@]}"
}
@test "compact, at the threshold, a card's latencies" {
    compact && VRAMGC_LOWVRAM=0 VRAMGC_THRESHOLD=60 SIMGPU_LATENCY=card clean "$(four_threads 4)" "${small[@]}"
}
@test "compact: pieces of segments, two devices" {
    local random='ops=1000 threads=2 streams=4 max=96MiB live=180 every=500 compare=0 fill=1; free_all; synchronize'
    compact && PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:64 clean "random seed=5 $random; device 1; random seed=6 $random" "${small[@]}" --devices 2
}
@test "compact: tensors that are freed while work on them is under way" {
    compact && python3 tests/vm/in_flight.py --seed 7 --streams 4 >"$BATS_TEST_TMPDIR/script"
    clean "$BATS_TEST_TMPDIR/script" --mem 768MiB
}
@test "compact: captures" {
    local script='alloc w 300MiB; fill w 1; free w;' i
    for i in 1 2 3 4; do
        script+=" alloc w$i 100MiB; fill w$i $i; free w$i; stream 2; capture_begin; alloc g$i 20MiB; alloc h$i 1MiB; sleep 5;
            free g$i; free h$i; capture_end; stream 0; alloc v$i 50MiB; fill v$i $i; verify v$i $i; free v$i; graph_release; empty_cache;"
    done
    compact && clean "$script" --mem 768MiB
}
@test "compact: spill" {
    compact && VRAMGC_SPILL=1GiB clean 'random seed=8 ops=1500 streams=4 max=256MiB live=100 every=500 compare=1 fill=1' --mem 2900MiB
}
@test "compact: cudaMallocAsync from our pool" {
    compact && VRAMGC_ASYNC=pages PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync clean "$(four_threads 9)" "${small[@]}"
}
@test "compact: forks" { compact && HOST=fork clean "$(four_threads 10)" "${small[@]}"; }
@test "compact: exit while PyTorch's threads work" { compact && HOST=exit clean_exit "$(four_threads 11)" "${small[@]}"; }
@test "compact: an extension's threads, beyond the end of main" { compact && HOST=extension clean "$(four_threads 12)" "${small[@]}"; }
@test "flush: native segments" { eager && VRAMGC_MODE=flush clean "$(four_threads 13)"; }
@test "flush: expandable segments, forks" {
    eager && VRAMGC_MODE=flush HOST=fork PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True clean "$(four_threads 14)"
}
@test "flush: expandable segments, retries and steps that are kept" {
    VRAMGC_MODE=flush VRAMGC_THRESHOLD=100 PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True clean "$(four_threads 18)" "${small[@]}"
    [ "$(fact handle_reuses)" -gt 0 ]
}
@test "flush: the driver's pool is trimmed" {
    eager && VRAMGC_MODE=flush PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync clean "$(four_threads 15)"
}
@test "flush: refused requests on a full card" { VRAMGC_MODE=flush clean "$(four_threads 16)" "${small[@]}"; }
@test "observe" { eager && VRAMGC_MODE=observe clean "$(four_threads 17)"; }

@test "eight programs ask each other for memory while some are killed" {
    local build
    export SIMGPU_CARD=$BATS_TEST_TMPDIR/card
    for build in asan tsan; do
        with "$build"
        BEHIND=
        version=${versions%% *}
        rm -f "$SIMGPU_CARD"
        storm 0 1500
    done
}
