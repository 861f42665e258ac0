#!/usr/bin/env bats
# The page engine under a whole PyTorch: graphs that are replayed, and the sums that web UIs make of cudaMemGetInfo.
load common

python_passes() {
    run env PYTHONPATH=tests/pages/python PYTHONPYCACHEPREFIX=build/pycache LD_PRELOAD="$library" \
        VRAMGC_OUT="$BATS_TEST_TMPDIR/record.vramgc" timeout 120 scripts/simgpu --mem "$2" -- build/venv/bin/python "tests/pages/python/$1.py"
    echo "$output"
    [ "$status" = 0 ]
    [ "$output" = "$1 ok" ]
}

@test "graphs replay after everything was freed and given back" { python_passes graphs 1500MiB; }

@test "what applications compute from cudaMemGetInfo is what can be had" { python_passes formulas 2GiB; }

@test "streams are destroyed, the process forks, the device is reset" { python_passes streams 768MiB; }

@test "rescue: other callers get what is kept or idle" { python_passes rescue 768MiB; }

@test "full at a block event: torch.OutOfMemoryError, and what is smaller works" { python_passes full 768MiB; }
