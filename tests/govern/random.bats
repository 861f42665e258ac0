#!/usr/bin/env bats
# Many random operations: the shadow heap equals PyTorch's own snapshot block for block, while memory is being reclaimed; and
# nothing that lives is ever touched.
load common

# Reclaims all the time, wherever it may.
export_eager() {
    export VRAMGC_THRESHOLD=${1:-10} VRAMGC_COOLDOWN=0 VRAMGC_TEST_HYSTERESIS=0 VRAMGC_TEST_MIN_GAIN=1MiB VRAMGC_TEST_REST=1ms
}

# equal CONF RANDOM-OPTIONS: no differences, nothing corrupted, no error of the device, nothing unmatched.
equal() {
    local version
    for version in $versions; do
        PYTORCH_CUDA_ALLOC_CONF=$1 drive "$version" "random $2 compare=1 fill=1; compare; expect vramgc.reserved_bytes == reserved_bytes;
            expect vramgc.allocated_bytes == allocated_bytes; expect num_ooms == 0"
        [ "$status" = 0 ] || return 1
        [ -z "$(but_for_pytorch)" ] || return 1
        [ "$(fact unmatched_blocks)" = 0 ] || return 1
        [ "$(fact internal_errors)" = 0 ] || return 1
        [ "$(fact lost_frees)" = 0 ] || return 1
    done
}

# bats test_tags=random
@test "native, one thread" { export_eager; equal '' 'ops=50000 max=256MiB'; }
# bats test_tags=random
@test "native, four threads" { export_eager; equal '' 'ops=50000 threads=4 max=256MiB every=1000'; }
# bats test_tags=random
@test "max_split_size_mb, one thread" { export_eager; equal max_split_size_mb:64 'ops=50000 max=256MiB'; }
# bats test_tags=random
@test "max_split_size_mb, four threads" { export_eager; equal max_split_size_mb:64 'ops=50000 threads=4 max=256MiB every=1000'; }
# bats test_tags=random
@test "expandable, one thread" { export_eager; equal expandable_segments:True 'ops=50000 max=256MiB'; }
# bats test_tags=random
@test "expandable, four threads" { export_eager; equal expandable_segments:True 'ops=50000 threads=4 max=256MiB every=1000'; }

# bats test_tags=random
@test "soak: thirty runs, now at the threshold, now lowvram, with contents checked" {
    local seed conf
    export_eager
    for seed in {1..15}; do
        case $((seed % 3)) in
            0) conf='' ;;
            1) conf=max_split_size_mb:128 ;;
            2) conf=expandable_segments:True ;;
        esac
        VRAMGC_THRESHOLD=$((seed * 4)) VRAMGC_LOWVRAM=$((seed % 2)) equal "$conf" \
            "seed=$seed ops=4000 threads=$((seed % 4 + 1)) max=$((seed * 60))MiB live=60 every=2000"
    done
}
