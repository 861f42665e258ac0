#!/usr/bin/env bats
# Mode compact: PyTorch's cache holds more addresses than the device has memory. Without a Python that empties the cache.
load common

# compact SCRIPT: on a device with 512 MiB beside its context, in a release that is known to ask again wherever it is refused.
compact() {
    VRAMGC_MODE=compact drive 2.15.0 "$1" --mem 768MiB
    [ "$status" = 0 ] && [ -z "$errors" ]
}

large() {
    lay_out 2.15.0 2.15.0
    export PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:100
}

# Unused segments of 100 MiB and more serve requests of nearly their own size only.
@test "PyTorch gives up one large segment, which it counts as no retry" {
    large
    compact 'alloc a 300MiB; alloc b 150MiB; free a; alloc c 250MiB; fill c 3; verify c 3; expect reserved_bytes == 400MiB;
        expect num_alloc_retries == 0; expect num_ooms == 0; expect vramgc.soft_ooms == 1'
    [ "$(fact alloc_retries)" = 0 ]
}

@test "large segments of another stream, or too few of them, are no reason" {
    large
    compact 'alloc a 300MiB stream=1; alloc b 150MiB; free a; alloc c 110MiB; expect num_alloc_retries == 0; expect vramgc.soft_ooms == 0'
    compact 'alloc a 110MiB; alloc b 100MiB; alloc n 50MiB count=4; free a; alloc c 140MiB; expect num_alloc_retries == 0; expect vramgc.soft_ooms == 0'
}

# They come from segments of their own, for which PyTorch would give up all that it does not use.
@test "small blocks are no reason" {
    large
    compact 'alloc a 300MiB; alloc b 212MiB; free a; alloc c 512KiB; expect num_alloc_retries == 0; expect vramgc.soft_ooms == 0'
}

@test "without large segments PyTorch gives up its cache, once, when that is an eighth more than there is memory" {
    lay_out 2.15.0 2.15.0
    compact 'alloc a 300MiB; alloc b 150MiB; free a; alloc c 320MiB; fill c 3; verify c 3; expect reserved_bytes == 470MiB;
        expect num_alloc_retries == 1; expect num_ooms == 0; expect vramgc.soft_ooms == 1'
    [ "$(fact alloc_retries)" = 1 ]
    compact 'alloc a 200MiB; alloc b 100MiB; free a; alloc c 230MiB; expect num_alloc_retries == 0; expect vramgc.soft_ooms == 0'
}

# In expandable segments that takes max_split_size_mb as well: large blocks that lie idle serve requests of nearly their own size only.
expandable() {
    export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True,max_split_size_mb:100
    VRAMGC_MODE=compact drive 2.15.0 "$1" --mem 768MiB
    [ "$status" = 0 ] && [ -z "$(but_for_pytorch | grep -v 'memory mapping failed with OOM')" ]
}

@test "expandable segments: PyTorch gives up its cache, once, when that is an eighth more than there is memory" {
    lay_out 2.15.0 2.15.0
    expandable 'alloc a 300MiB; alloc b 20MiB; free a; alloc c 330MiB; fill c 3; verify c 3; expect reserved_bytes == 360MiB;
        expect num_alloc_retries == 1; expect num_ooms == 0'
    [ "$(fact alloc_retries)" = 1 ]
    expandable 'alloc a 200MiB; alloc b 20MiB; free a; alloc c 330MiB; expect num_alloc_retries == 0; expect reserved_bytes == 560MiB'
}

@test "expandable segments: what is not to be had back is no reason" {
    lay_out 2.15.0 2.15.0
    local i script=
    for ((i = 0; i < 20; i++)); do script+="alloc a$i 18MiB; alloc b$i 2MiB; "; done
    for ((i = 0; i < 20; i++)); do script+="free a$i; "; done
    expandable "$script alloc c 130MiB; alloc d 70MiB; expect reserved_bytes == 600MiB; expect num_alloc_retries == 0"
}
