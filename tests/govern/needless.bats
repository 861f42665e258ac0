#!/usr/bin/env bats
# The program empties PyTorch's cache again and again, although compact leaves nothing in it: how often is counted, and the report says
# so, with what turns it off. And memory that vramgc left alone.
load common

setup() {
    begin
    export VRAMGC_MODE=compact VRAMGC_LOWVRAM=1
    collect='alloc t 64MiB; free t; empty_cache; '
    for _ in 1 2 3 4; do collect+=$collect; done # 16 times
}

report() { build/vramgc report "$BATS_TEST_TMPDIR/record.vramgc" | tr -s ' \n' ' '; }

@test "each time that the program empties the cache is one" {
    for version in $versions; do
        for conf in expandable_segments:False expandable_segments:True; do
            PYTORCH_CUDA_ALLOC_CONF=$conf drive "$version" "alloc m 500MiB; $collect empty_cache; alloc u 64MiB stream=1; alloc v 1MiB stream=1; free u v; empty_cache; _exit 0" --mem 2GiB
            [ "$(fact cache_empties)" = 17 ]
        done
        VRAMGC_MODE=flush drive "$version" "alloc m 500MiB; $collect _exit 0" --mem 2GiB
        [ "$(fact cache_empties)" = 0 ]
    done
}

# PyTorch empties its cache because the card is full, to ask again.
@test "what PyTorch does after a refusal is not the program's" {
    python3 tests/vm/full_card.py --seed 1 >"$BATS_TEST_TMPDIR/full"
    for version in $versions; do
        for conf in expandable_segments:False expandable_segments:True; do
            PYTORCH_CUDA_ALLOC_CONF=$conf drive "$version" "$BATS_TEST_TMPDIR/full" --mem 640MiB
            [ "$(fact cache_empties)" = 0 ]
        done
    done
}

@test "the report says it once, and not where memory was held, or a web UI has no setting for it" {
    local known="$BATS_TEST_TMPDIR/sdnext"
    mkdir "$known"
    for version in $versions; do
        drive "$version" "alloc m 500MiB; $collect _exit 0" --mem 2GiB
        [[ $(report) == *"The program itself emptied PyTorch's cache 16 times, for next to nothing: compact leaves no memory in it. Its own torch.cuda.empty_cache() can go."* ]]
        drive "$version" "alloc m 500MiB; alloc t 64MiB; free t; empty_cache; _exit 0" --mem 2GiB
        [[ $(report) != *'itself emptied'* ]]
        PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:100 drive "$version" "alloc m 500MiB; $collect _exit 0" --mem 2GiB
        [[ $(report) != *'itself emptied'* ]]
        VRAMGC_LOWVRAM=0 drive "$version" "alloc m 64MiB; alloc i 1GiB; free i; $collect _exit 0" --mem 2GiB
        [[ $(report) != *'itself emptied'* ]]
        ln -sf "$PWD/build/c10/$version/c10drive" "$PWD/build/c10/$version/libc10drive.so" "$known/"
        ln -sfn "$PWD/build/c10/$version/lib" "$known/lib"
        VRAMGC_LOWVRAM=0 drive "$version" "alloc m 500MiB; $collect _exit 0" --mem 2GiB
        [[ $(report) != *'itself emptied'* ]]
        DRIVER=$known/c10drive drive "$version" "alloc m 500MiB; $collect _exit 0" --mem 2GiB
        [[ $(report) != *'itself emptied'* ]]
    done
}

@test "where idle memory stayed below the threshold the note says that vramgc left it, and what takes it" {
    local untouched='300 MiB stayed idle at rest. The card was never over 80 % full, so vramgc left it alone. With --lowvram idle memory goes back at once.'
    version=${versions%% *}
    export VRAMGC_THRESHOLD=80 VRAMGC_MODE=flush VRAMGC_LOWVRAM=0 VRAMGC_TEST_REST=5ms
    note() {
        drive "$version" "alloc a 600MiB; alloc b $1MiB; free b; $(until_rest $((600 + $1))); _exit 0" --mem 8GiB
        build/vramgc report "$BATS_TEST_TMPDIR/record.vramgc" | tr -s ' \n' ' '
    }
    [[ $(note 300) == *"NOTE $untouched"* ]]
    [[ $(note 100) != *'stayed idle'* ]]
    [[ $(VRAMGC_LOWVRAM=1 note 300) != *'stayed idle'* ]]
    [[ $(VRAMGC_MODE=observe note 300) != *'stayed idle'* ]]
}
