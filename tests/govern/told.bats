#!/usr/bin/env bats
# One program of a whole PyTorch for each kind of answer that once led astray and that no stand-in for PyTorch shows. What it checks is in
# test_python.py, which has more of them.
load common

setup() {
    begin
    python=${PYTHON:-$PWD/build/venv/bin/python}
    [ -x "$python" ] || skip "no PyTorch under build/venv"
    VRAMGC_LIBRARY=$(scripts/plain-path)/build/libvramgc.so
    export VRAMGC_LIBRARY
}

# is_right TEST: that of test_python.py.
is_right() { "$python" tests/govern/test_python.py -k "WholePyTorch.$1"; }

@test "a load under way or done before, LoRAs and gradients that stay, a try beside a failed one, what an error leaves" {
    is_right test_what_a_refusal_came_from_is_told
}

@test "a convolution that does without its workspace" {
    is_right test_work_that_goes_on_without_memory_is_no_out_of_memory
}

@test "blocks of autograd's own thread" {
    is_right test_what_autograd_made_is_told
}

@test "a kernel that has no room for its code" {
    is_right test_a_kernel_without_room_is_told
}

@test "RAM that one job keeps" {
    is_right test_what_one_job_keeps_in_ram_is_told
}

@test "models that are moved without need" {
    is_right test_models_that_are_moved_without_need_are_told
}
