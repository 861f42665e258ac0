#!/usr/bin/env bats
# The page engine under a whole PyTorch: graphs that are replayed, and the sums that web UIs make of cudaMemGetInfo.
# bats file_tags=python
load common

python_passes() {
    python_says "$1 ok" "$@"
    [ -z "$errors" ]
}

@test "graphs replay after everything was freed and given back" { python_passes graphs 1500MiB; }

@test "graphs of torch.compile replay after their inputs were freed and given back" { python_passes graph_trees 1500MiB; }

# bats test_tags=random
@test "what applications compute from cudaMemGetInfo is what can be had" { python_passes formulas 2GiB; }

# VRAMGC_COOLDOWN=60s: what is cached, or given up, stays for seconds.
@test "what PyTorch says of a refusal is no more than the card has" {
    local setting mode
    for setting in expandable_segments:False expandable_segments:True; do
        for mode in flush compact; do
            PYTORCH_CUDA_ALLOC_CONF=$setting VRAMGC_MODE=$mode VRAMGC_COOLDOWN=60s python_says 'refused_text ok' refused_text 8GiB || return 1
        done
    done
}

# bats test_tags=random
@test "what cudaMemGetInfo and PyTorch's counters say is what they say without the mode, on a full card" {
    local setting mode
    for setting in expandable_segments:False expandable_segments:True; do
        for mode in observe compact; do
            PYTORCH_CUDA_ALLOC_CONF=$setting VRAMGC_MODE=$mode VRAMGC_THRESHOLD=100 PYTHONPATH=tests/vm/python \
                LD_PRELOAD="$library" VRAMGC_OUT="$BATS_TEST_TMPDIR/$mode.vramgc" tests/on_card --mem 768MiB -- \
                build/venv/bin/python tests/vm/python/sums.py >"$BATS_TEST_TMPDIR/$mode" 2>"$BATS_TEST_TMPDIR/err" && continue
            # With another seed PyTorch alone may run out of memory: then there is nothing to compare.
            [ -n "${SEED:-}" ] && [ "$mode" = observe ] && grep -q OutOfMemoryError "$BATS_TEST_TMPDIR/err" && continue 2
            return 1
        done
        [ -n "${SEED:-}" ] || grep -q 'retries 1 ' "$BATS_TEST_TMPDIR/observe" # with another there may be none
        diff "$BATS_TEST_TMPDIR/observe" "$BATS_TEST_TMPDIR/compact"
        [ "$(build/govern/show "$BATS_TEST_TMPDIR/compact.vramgc" | sed -n 's/^page_maps //p')" -gt 0 ]
    done
}

# at_rest WORD: 768 MiB, of which 256 are the context's and 400 PyTorch's. Emptied addresses are no reclaim of memory.
at_rest() {
    ARGUMENT=$1 python_passes at_rest 768MiB
    [ "$(actions flush)" = 0 ]
}

@test "at rest, lowvram: PyTorch's cache of addresses is emptied" {
    VRAMGC_LOWVRAM=1 VRAMGC_TEST_REST=20ms at_rest empties
    [ "$(fact flushes)" -ge 1 ]
    [ "$(fact cache_empties)" = 0 ] # not by the program
}

@test "at rest, above the threshold as the program sees it: PyTorch's cache of addresses is emptied" {
    VRAMGC_THRESHOLD=80 VRAMGC_TEST_REST=20ms at_rest empties
    [ "$(fact flushes)" = 1 ]
    [[ $facts == *"action pages threshold "* ]] # what goes by that is a reclaim
    [ "$(fact reclaimed_bytes)" -ge $((250 << 20)) ] && [ "$(fact reclaimed_bytes)" -le $((302 << 20)) ]
}

@test "at rest, below the threshold: PyTorch's cache stays" {
    VRAMGC_THRESHOLD=90 VRAMGC_TEST_REST=20ms at_rest stays
    [ "$(fact flushes)" = 0 ]
}

@test "a block that waits for another stream makes room: cudaMemGetInfo tells no more than there is" { python_passes pending 768MiB; }

@test "streams are destroyed, the process forks, the device is reset" { python_passes streams 768MiB; }

# The simulated device complains of each of the three handles.
@test "the default stream cannot be destroyed, and is asked as before" {
    local setting
    for setting in False True; do
        PYTORCH_CUDA_ALLOC_CONF=expandable_segments:$setting python_says 'default_stream ok' default_stream 768MiB
        [ "$(grep -c '^simgpu: ERROR' <<<"$errors")" = 3 ]
        [[ $errors != *"vramgc: "* ]]
    done
}

@test "rescue: other callers get what is kept or idle" { python_passes rescue 768MiB; }

@test "full at a block event: torch.OutOfMemoryError, and what is smaller works" { python_passes full 768MiB; }

@test "addresses are described as memory of cudaMalloc, and stay for who takes hold of them" { python_passes places 768MiB; }

@test "two devices that are peers, in both orders" {
    ARGUMENT=peers python_passes peers 768MiB --devices 2
    ARGUMENT=early python_passes peers 768MiB --devices 2
}

@test "two devices that are no peers copy as they do without vramgc" { ARGUMENT=none python_passes peers 768MiB --devices 2 --no-peer; }

@test "other processes: the driver refuses, and one line says which mode serves them" {
    python_says 'share refused' share 768MiB
    [ "$(grep -c 'sharing with another process or device is not possible .* VRAMGC_MODE=flush leaves' <<<"$errors")" = 1 ]
    [ "$(fact impossible_calls)" -gt 0 ]
    VRAMGC_MODE=flush python_passes share 768MiB
}
