#!/usr/bin/env bats
# Small blocks that stay where larger ones go keep no more of the device than the pages in which they lie.
load common

# pattern: 36 x (64 MiB, 36 MiB, 1.5 MiB) are live at once on 4 GiB; then only the small ones stay.
pattern() {
    local i large=
    for ((i = 0; i < 36; i++)); do
        echo "alloc l$i 64MiB; alloc m$i 36MiB; alloc s$i 1536KiB; fill l$i 1; fill m$i 1; fill s$i $i;"
        large+=" l$i m$i"
    done
    echo "free $large; synchronize; empty_cache;"
}

# blocks COUNT: so many of 500 MiB come, one of which would not fit beside 340 MiB more; and nothing is lost.
blocks() {
    local i
    for ((i = 0; i < $1; i++)); do echo "alloc b$i 500MiB; fill b$i $i;"; done
    for ((i = 0; i < $1; i++)); do echo "verify b$i $i;"; done
    for ((i = 0; i < 36; i++)); do echo "verify s$i $i;"; done
}

# survive SETTING: all seven blocks fit; lowvram: nothing but the survivors' pages is held, two each at most.
survive() {
    local version
    export PYTORCH_CUDA_ALLOC_CONF=$1
    { pattern && blocks 7 && echo 'expect num_ooms == 0'; } >"$BATS_TEST_TMPDIR/all"
    { pattern && echo 'await vramgc.held_bytes <= 144MiB' && blocks 7; } >"$BATS_TEST_TMPDIR/lowvram"
    for version in $versions; do
        drive "$version" "$BATS_TEST_TMPDIR/all" --mem 4GiB
        [ "$status" = 0 ] || return 1
        [ "$(fact page_maps)" -gt 0 ] || return 1
        VRAMGC_LOWVRAM=1 drive "$version" "$BATS_TEST_TMPDIR/lowvram" --mem 4GiB
        [ "$status" = 0 ] || return 1
    done
}

@test "survivors: native segments" { survive ''; }
@test "survivors: max_split_size_mb" { survive max_split_size_mb:30; }
@test "survivors: expandable segments" { survive expandable_segments:True; }
@test "survivors: a stream-ordered pool" { VRAMGC_ASYNC=pages survive backend:cudaMallocAsync; }

# Between 16 MiB each lie 6.4 MiB that stay, on a card that has been half full at most. PyTorch's own segments leave room for 236 blocks
# of 27 MiB then; while small blocks shared PyTorch's steps there was room for 165 here.
@test "survivors: on a card that has room, too" {
    local version i large= script=$BATS_TEST_TMPDIR/roomy
    for ((i = 0; i < 196; i++)); do
        echo "alloc l$i 16MiB; alloc s$i 6553KiB;"
        large+=" l$i"
    done >"$script"
    echo "free $large; synchronize; empty_cache; alloc b 27MiB count=228; expect num_ooms == 0" >>"$script"
    for version in $versions; do
        PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True drive "$version" "$script" --mem 8GiB
        [ "$status" = 0 ] || return 1
    done
}

# PyTorch alone keeps 20 MiB of an expandable segment for each of them.
@test "survivors: PyTorch alone runs out with expandable segments, or the tests above say nothing" {
    { pattern && blocks 7; } >"$BATS_TEST_TMPDIR/all"
    PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True VRAMGC_MODE=observe drive "${versions##* }" "$BATS_TEST_TMPDIR/all" --mem 4GiB
    [[ $output == 'oom b6'* ]]
}
