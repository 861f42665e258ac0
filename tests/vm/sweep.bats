#!/usr/bin/env bats
# Every call of the library into the driver and into libc fails in turn (sweep.py): the program sees what it sees without the library.
# bats file_tags=deep
load common

# sweep OPTION...: it tries, finds no difference, and says how many calls it let fail.
sweep() {
    local version
    for version in $versions; do
        VRAMGC_LIBRARY=$library python3 tests/vm/sweep.py --version "$version" --full "${SWEEP_FULL:-10}" "$@" || return 1
    done
}

@test "each driver call is refused in turn" { sweep; }
# Not async: after such an error PyTorch's allocator on cudaMallocAsync ends by a segmentation fault, also without the library.
@test "each driver call reports an illegal address, or an unknown error, in turn" {
    sweep --full 5 --codes 700,999 native native-lowvram native-spill expandable expandable-lowvram expandable-spill
}
@test "each call into libc fails in turn, once and always" { sweep --libc; }
