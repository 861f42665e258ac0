#!/usr/bin/env bats
# scripts/simgpu: what it sets, what it refuses, and the real PyTorch on it under three allocator settings.
load ../surroundings

bats_require_minimum_version 1.5.0

setup() {
    cd "$BATS_TEST_DIRNAME/../.." || exit
    simgpu=scripts/simgpu
    python=${PYTHON:-build/venv/bin/python}
}

need_torch() {
    "$python" tests/sim/gen/find_torch.py >/dev/null 2>&1 || skip "no PyTorch here (scripts/setup-python)"
}

# last_line TEXT: the output's last line.
last_line() { [ "${lines[${#lines[@]} - 1]}" = "$1" ]; }

@test "the command runs with the knobs that were asked for" {
    run $simgpu --mem 6GiB --cc 8.6 --devices 2 --latency card --no-host-vmm --no-peer -- env
    [ "$status" -eq 0 ]
    [[ $output == *SIMGPU_MEM=6GiB* ]]
    [[ $output == *SIMGPU_CC=8.6* ]]
    [[ $output == *SIMGPU_DEVICES=2* ]]
    [[ $output == *SIMGPU_HOST_VMM=0* ]]
    [[ $output == *SIMGPU_PEER=0* ]]
    [[ $output == *SIMGPU_LATENCY=card* ]]
}

@test "defaults are a 24 GiB card; a variable of the environment wins over them, an option over both" {
    run $simgpu env
    [[ $output == *SIMGPU_MEM=24GiB* ]]
    [[ $output == *SIMGPU_DATA_LIMIT=64KiB* ]]
    SIMGPU_MEM=3GiB run $simgpu env
    [[ $output == *SIMGPU_MEM=3GiB* ]]
    SIMGPU_MEM=3GiB run $simgpu --mem=5GiB env
    [[ $output == *SIMGPU_MEM=5GiB* ]]
}

@test "calls fail as they are told to, several of them" {
    run $simgpu --fail cuMemCreate:3 --fail cuMemMap:1+:700@libtorch_cuda.so env
    [ "$status" -eq 0 ]
    [[ $output == *"SIMGPU_FAIL=cuMemCreate:3 cuMemMap:1+:700@libtorch_cuda.so"* ]]
}

@test "the user's own preload stays in front, and the search path behind ours is kept" {
    own=$PWD/build/sim/nvml/libnvidia-ml.so.1
    LD_PRELOAD=$own LD_LIBRARY_PATH=/opt/own run $simgpu --cuda 12 env
    [ "$status" -eq 0 ]
    [[ $output == *"LD_PRELOAD=$own $PWD/build/sim/rt12/libcudart.so.12"* ]]
    [[ $output == *"LD_LIBRARY_PATH=$PWD/build/sim/driver:"*":/opt/own"* ]]
}

@test "a wrong option is one clear line and 125" {
    for wrong in "--mem 0" "--mem much" "--mem 6XiB" "--cc 89" "--cc 8.9.1" "--devices 9" "--devices -1" \
        "--fail cuMemCreate" "--fail cuMemCreate:0" "--fail malloc:1" "--latency slow" "--cuda 10" "--log /no/such/folder/log" "--nosuch 1"; do
        # shellcheck disable=SC2086
        run $simgpu $wrong -- true
        [ "$status" -eq 125 ] || { echo "$wrong gave $status: $output"; false; }
        [ "${#lines[@]}" -eq 1 ]
        [[ $output == simgpu:\ * ]]
    done
    run $simgpu --mem
    [ "$status" -eq 125 ]
    run $simgpu
    [ "$status" -eq 125 ]
    [ "${#lines[@]}" -eq 1 ]
}

@test "the command's exit status is its own; missing 127, not executable 126" {
    run $simgpu -- sh -c 'exit 42'
    [ "$status" -eq 42 ]
    run -127 $simgpu -- no-such-command
    [ "$output" = "simgpu: 'no-such-command' is not found" ]
    run -127 $simgpu -- ./no-such-file
    run $simgpu -- ./Makefile
    [ "$status" -eq 126 ]
    [ "$output" = "simgpu: './Makefile' is not executable" ]
    run $simgpu -- ./tests
    [ "$status" -eq 126 ]
}

@test "a missing build is said with the target that makes it" {
    copy=$BATS_TEST_TMPDIR/copy
    mkdir -p "$copy/scripts"
    cp scripts/simgpu "$copy/scripts"
    run "$copy/scripts/simgpu" true
    [ "$status" -eq 125 ]
    [ "$output" = "simgpu: build/sim/driver/libcuda.so.1 is missing: run 'make sim' first" ]
}

@test "a checkout whose path the loader cannot take is used by a link" {
    copy="$BATS_TEST_TMPDIR/with space"
    mkdir -p "$copy/scripts" "$copy/build"
    cp scripts/simgpu scripts/plain-path "$copy/scripts"
    cp -r build/sim "$copy/build"
    for time in first second; do
        TMPDIR=$BATS_TEST_TMPDIR run "$copy/scripts/simgpu" --cuda 13 -- printenv LD_PRELOAD
        echo "$time: $output"
        [ "$status" -eq 0 ]
        [[ $output != *" "* && $output -ef $copy/build/sim/rt13/libcudart.so.13 ]]
    done
}

@test "each runtime has its SONAME, one version node of that name, and every name of the vendor's" {
    for soname in 11/libcudart.so.11.0 12/libcudart.so.12 13/libcudart.so.13; do
        ours=build/sim/rt$soname
        vendors=build/headers/cu${soname%%/*}/lib/${soname#*/}
        readelf -dW "$ours" | grep -q "SONAME.*\[${soname#*/}\]"
        nm -D --defined-only "$ours" | grep -q "T cudaMalloc@@${soname#*/}\$"
        lacking=$(comm -23 <(nm -D --defined-only "$vendors" | sed 's/.* //; s/@.*//' | grep -E '^(__)?cuda[A-Z]' | sort -u) \
            <(nm -D --defined-only "$ours" | sed 's/.* //; s/@.*//' | sort -u))
        [ -z "$lacking" ] || { echo "lacking: $lacking"; false; }
        ! nm -D --defined-only "$ours" | grep -E ' T rt_| T registry_'
    done
}

@test "the log tells what the device did" {
    need_torch
    log=$BATS_TEST_TMPDIR/log
    run $simgpu --log "$log" -- "$python" -c 'import torch; torch.empty(1 << 20, device="cuda")'
    [ "$status" -eq 0 ]
    [ -s "$log" ]
}

@test "NVML tells the device's memory and counts devices without initialising CUDA" {
    run $simgpu --mem 2GiB --devices 3 -- python3 tests/sim/nvml_check.py
    [ "$status" -eq 0 ] || { echo "$output"; false; }
}

@test "PyTorch says what it has reserved" {
    need_torch
    run $simgpu --mem 24GiB -- "$python" -c \
        'import torch; x = torch.empty(1 << 20, device="cuda"); print(torch.cuda.memory_reserved())'
    [ "$status" -eq 0 ]
    last_line 20971520
}

@test "PyTorch's layers, streams and graphs: default allocator" {
    need_torch
    run $simgpu --mem 6GiB -- "$python" tests/sim/bringup.py
    [ "$status" -eq 0 ] || { echo "$output"; false; }
    last_line OK
}

@test "PyTorch's layers, streams and graphs: expandable segments" {
    need_torch
    PYTORCH_ALLOC_CONF=expandable_segments:True run $simgpu --mem 6GiB -- "$python" tests/sim/bringup.py
    [ "$status" -eq 0 ] || { echo "$output"; false; }
    last_line OK
}

@test "PyTorch's layers, streams and graphs: cudaMallocAsync" {
    need_torch
    PYTORCH_ALLOC_CONF=backend:cudaMallocAsync run $simgpu --mem 6GiB -- "$python" tests/sim/bringup.py
    [ "$status" -eq 0 ] || { echo "$output"; false; }
    [[ $output == *OK* ]]
}

# How long the kernel takes is drawn, up to three seconds: a short one is over before it matters.
@test "the example: a block that fits waits for another stream, and PyTorch is out of memory once" {
    need_torch
    local try
    for try in 1 2 3 4; do
        SIMGPU_KERNEL_US=3000000 run $simgpu --mem 8GiB --latency card -- "$python" tests/sim/pending.py
        [[ $output == *'second try: got it' ]]
        [[ $output == *'first try: out of memory'* ]] && return
    done
    return 1
}

@test "PyTorch selects elements (CUB wants code that a wheel carries), whatever the card" {
    need_torch
    for capability in 8.0 8.6 8.9 9.0 12.0; do
        SIMGPU_D2H_ZERO=4KiB run $simgpu --cc $capability -- "$python" -c \
            'import torch; print(torch.ones(10, device="cuda").nonzero().shape[1])'
        [ "$status" -eq 0 ] || { echo "$capability: $output"; false; }
        last_line 1
    done
}

@test "the workspace of a convolution follows its knob; a wrong value is said and the default used" {
    need_torch
    check="tests/sim/bringup.py BringUp.test_a_convolution_takes_the_workspace_of_its_model"
    for factor in 0 0.5 2; do
        # shellcheck disable=SC2086
        SIMGPU_CONV_WS=$factor run $simgpu --mem 6GiB -- "$python" $check
        [ "$status" -eq 0 ] || { echo "$factor: $output"; false; }
    done
    SIMGPU_CONV_WS=much run $simgpu -- "$python" -c \
        'import torch; torch.nn.Conv2d(8, 8, 3).cuda()(torch.empty(1, 8, 16, 16, device="cuda"))'
    [ "$status" -eq 0 ]
    [ "$output" = "simgpu: SIMGPU_CONV_WS=much is not a factor from 0 to 1000; the default is used" ]
}

@test "a library call on freed memory is an illegal access" {
    need_torch
    for call in product linear convolution; do
        run $simgpu -- "$python" tests/sim/bad_operand.py $call
        [ "$status" -eq 0 ] || { echo "$call: $output"; false; }
        [[ $output == *"simgpu: ERROR illegal address"* ]]
    done
}

@test "a vendor function without a body says so and returns an error" {
    need_torch
    run $simgpu -- "$python" -c \
        'import ctypes; nccl = ctypes.CDLL("libnccl.so.2"); print([nccl.ncclCommCount(0), nccl.ncclCommCount(0)])'
    [ "$status" -eq 0 ]
    [ "${lines[0]}" = "simgpu: ncclCommCount is not simulated, it returns an error" ]
    [ "${lines[1]}" = "[1, 1]" ]
}

@test "a wheel that wants more of the runtime than there is stops the build" {
    torch=$BATS_TEST_TMPDIR/torch
    mkdir -p "$torch/lib" "$BATS_TEST_TMPDIR/rt13"
    echo 'extern int cudaNoSuchCall(void); int f(void) { return cudaNoSuchCall(); }' >"$torch/f.c"
    echo 'int cudaNoSuchCall(void) { return 0; }' >"$torch/rt.c"
    echo 'libcudart.so.13 { global: *; };' >"$torch/rt.map"
    cc -shared -fPIC -o "$torch/libcudart.so.13" "$torch/rt.c" -Wl,-soname,libcudart.so.13 -Wl,--version-script="$torch/rt.map"
    cc -shared -fPIC -o "$torch/lib/libf.so" "$torch/f.c" "$torch/libcudart.so.13"
    echo "cuda: Optional[str] = '13.2'" >"$torch/version.py"
    run python3 tests/sim/gen/vendor_stubs.py "$torch" "$BATS_TEST_TMPDIR/out" --runtimes build/sim
    [ "$status" -ne 0 ]
    [[ $output == *"vendor_stubs.py: the simulated runtime lacks cudaNoSuchCall"* ]]
}

@test "a PyTorch without CUDA, or none, needs nothing built for it" {
    mkdir -p "$BATS_TEST_TMPDIR/torch"
    printf "__version__ = '2.15.0+cpu'\ncuda: Optional[str] = None\n" >"$BATS_TEST_TMPDIR/torch/version.py"
    touch "$BATS_TEST_TMPDIR/torch/__init__.py"
    PYTHONPATH=$BATS_TEST_TMPDIR run python3 tests/sim/gen/find_torch.py
    [ "$status" -eq 1 ]
    PYTHONPATH=$BATS_TEST_TMPDIR run $simgpu python3 -c 'import os; print(os.environ.get("LD_PRELOAD"))'
    [ "$status" -eq 0 ]
    [ "$output" = None ]
}

@test "headers: a second run does nothing, a wrong major is refused" {
    before=$(stat -c %Y build/headers/cu12/include/cuda.h build/headers/cu13)
    run scripts/fetch-cuda-headers
    [ "$status" -eq 0 ]
    [ -z "$output" ]
    [ "$(stat -c %Y build/headers/cu12/include/cuda.h build/headers/cu13)" = "$before" ]
    run scripts/fetch-cuda-headers 9
    [ "$status" -eq 1 ]
    [ "${#lines[@]}" -eq 1 ]
}
