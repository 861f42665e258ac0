#!/usr/bin/env bats
# PyTorch is told what the card itself would have told it, and no more is held than without vramgc. Beyond what the card holds memory is
# granted only where PyTorch, having emptied its cache, would otherwise report out of memory.
load common

# 768 MiB, of which the context takes 256.
small=(--mem 768MiB)

# passes as in common.bash, but PyTorch says something of its own of each refusal, and of the machine.
passes() {
    local version
    for version in $versions; do
        drive "$version" "$@"
        [ "$status" = 0 ] || return 1
        errors=$(grep -vE 'mapping failed with OOM on device|nvmlDeviceGetGpuFabricInfoV failed|PYTORCH_CUDA_ALLOC_CONF is deprecated' <<<"$errors" || true)
        [ -z "$errors" ] || return 1
    done
}

# counters: PyTorch's own, of the `stats` at the end of the script.
counters() { tail -n 1 <<<"$output" | tr ',' '\n' | grep -vE 'vramgc|device\.used'; }

# as_without SETTING [WORD-OF-full_card.py...]: PyTorch's counters are as they are without the mode, and no more is held at any time, on
# a card that is full again and again, and on one that never is. A page is rounded up at each end of a block.
as_without() {
    local seed mode memory retries=0 alone held
    export PYTORCH_CUDA_ALLOC_CONF=$1
    for ((seed = ${first:-1}; seed <= ${first:-1} + ${SEEDS:-1}; seed++)); do
        python3 tests/vm/full_card.py --seed "$seed" "${@:2}" >"$BATS_TEST_TMPDIR/script" || return 1
        for memory in 768MiB 8GiB; do
            VRAMGC_MODE=observe passes "$BATS_TEST_TMPDIR/script" --mem $memory || return 1
            alone=$(counters) held=$(fact held_bytes_peak)
            retries=$((retries + $(sed -n 's/.*num_alloc_retries": //p' <<<"$alone")))
            VRAMGC_MODE=compact passes "$BATS_TEST_TMPDIR/script" --mem $memory || return 1
            [ "$(counters)" = "$alone" ] || return 1
            [ "$(fact page_maps)" -gt 0 ] || return 1
            [ "$(fact held_bytes_peak)" -le $((held + (4 << 20))) ] || return 1
        done
    done
    echo "$retries retries"
    [ -n "${SEED:-}" ] || [ "$retries" -gt 0 ] # with another seed the card may have room
}

# bats test_tags=random
@test "PyTorch retries as it does alone" { as_without ''; }
# bats test_tags=random
@test "PyTorch retries as it does alone: the program empties its cache all the time" { first=5 as_without '' --empty-cache 0.02; }
# bats test_tags=random
@test "PyTorch retries as it does alone: max_split_size_mb" { as_without max_split_size_mb:30; }
# bats test_tags=random
@test "PyTorch retries as it does alone: expandable segments" { as_without expandable_segments:True --live 300; }
# bats test_tags=random
@test "PyTorch retries as it does alone: expandable segments, max_split_size_mb" { as_without expandable_segments:True,max_split_size_mb:30; }

# Of w's 300 MiB the 50 of s are live; they keep the segment.
cut='alloc w 300MiB; free w; alloc s 50MiB; fill s 7;'

@test "beyond the card: what PyTorch alone would be refused is granted, and there is memory behind it" {
    VRAMGC_MODE=observe passes "$cut expect_oom 300MiB" "${small[@]}"
    passes "$cut alloc b 300MiB; fill b 1; verify b 1; verify s 7; expect reserved_bytes == 600MiB; expect num_ooms == 0;
        expect num_alloc_retries == 0; expect vramgc.held_bytes <= 512MiB" "${small[@]}"
    [ "$(fact refusals)" = 0 ]
}

@test "beyond the card: not before PyTorch has emptied its cache" {
    passes "$cut alloc c 60MiB stream=1; free c; alloc b 300MiB; fill b 1; verify b 1; verify s 7; expect reserved_bytes == 600MiB;
        expect num_alloc_retries == 1; expect num_ooms == 0" "${small[@]}"
    [ "$(fact refusals)" = 1 ]
    [ "$(fact reclaims)" = 0 ]
}

# A block that waits for another stream may be what PyTorch frees next.
@test "beyond the card: not before blocks that wait for another stream have come back" {
    passes "$cut alloc c 60MiB; fill c 2; record c 3; fill c 9 stream=3; free c; alloc b 300MiB; fill b 1; verify b 1;
        expect num_alloc_retries == 1; expect num_ooms == 0" "${small[@]}"
}

# The engine's reading of the card, a new one after 10 ms, is of just before x goes. With c in PyTorch's cache nothing is granted beyond the card.
# How long a reading will do goes by what it cost: on a busy machine it seems dear now and then.
@test "what others have just freed is seen" {
    local n
    for n in 1 2 3 4 5; do
        ! passes 'alloc c 60MiB stream=1; free c; cuda_malloc x 400MiB; sleep 20; alloc a 30MiB; free x; alloc b 300MiB; fill b 1; verify b 1;
            expect num_alloc_retries == 0; expect num_ooms == 0' "${small[@]}" || break
    done
    [ "$status" = 0 ]
}

# A graph keeps g, which PyTorch cannot give up.
@test "beyond the card: when PyTorch has emptied its cache, though it has something left" {
    passes "stream 2; capture_begin; alloc g 60MiB; free g; capture_end; stream 0; $cut alloc b 300MiB; fill b 1; verify b 1; verify s 7;
        expect num_alloc_retries == 1; expect num_ooms == 0; expect vramgc.releasable_bytes >= 60MiB" "${small[@]}"
}

@test "beyond the card: what cannot be had is torch's own out-of-memory, and smaller ones go on" {
    passes "$cut expect_oom 470MiB; expect num_ooms == 1; alloc b 300MiB; alloc c 100MiB; fill b 1; fill c 2; verify b 1; verify c 2;
        verify s 7; expect num_ooms == 1" "${small[@]}"
}

# PyTorch asks for its pieces of 20 MiB, each of twelve keeps a tensor of 3 MiB.
@test "beyond the card: expandable segments" {
    local i script=
    for ((i = 0; i < 12; i++)); do script+="alloc f$i 37MiB; alloc s$i 3MiB; fill s$i $i;"; done
    for ((i = 0; i < 12; i++)); do script+="free f$i;"; done
    export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
    VRAMGC_MODE=observe passes "$script expect_oom 300MiB" "${small[@]}"
    passes "$script alloc b 300MiB; fill b 1; verify b 1; verify s0 0; verify s11 11; expect num_alloc_retries == 1; expect num_ooms == 0;
        expect reserved_bytes == 540MiB; expect vramgc.held_bytes <= 512MiB; expect_oom 200MiB; expect num_ooms == 1;
        alloc c 100MiB; fill c 2; verify c 2; verify b 1" "${small[@]}"
}

# What PyTorch gives up in a retry serves the request: the driver is asked for the rest only.
@test "a retry costs addresses, not memory" {
    passes 'alloc a 300MiB; fill a 1; free a; alloc b 400MiB; fill b 2; verify b 2; expect num_alloc_retries == 1;
        expect vramgc.held_bytes <= 400MiB' "${small[@]}"
    [ "$(fact page_maps)" = 350 ]
    [ "$(fact held_bytes_peak)" -le $((400 << 20)) ]
}
