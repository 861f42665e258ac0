#!/usr/bin/env bats
# Every hook by every road to it, look-ups, other people's dlsym, and frees that are refused. Built by `make hook`.
load ../c10/drive # but_for_ooms

setup() {
    root=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
    hook=$root/build/hook
    library=${VRAMGC_LIBRARY:-$root/build/libvramgc.so}
    scratch=$BATS_TEST_TMPDIR
    export VRAMGC_OUT=$scratch/run.vramgc
}

# on FOLDER... -- COMMAND...: the libraries in the folders, and vramgc in front. It gets no thread: the background thread adds what a pool
# keeps to what is held, whenever it looks, and that must not be in the middle of a check.
on() {
    local path=
    while [ "$1" != -- ]; do
        path=$path${path:+:}$root/build/$1
        shift
    done
    shift
    LD_LIBRARY_PATH=$path LD_PRELOAD="${PRELOAD:-$library} $hook/libno_thread.so" run "$@"
    printf '%s\n' "$output"
    [ "$status" -eq 0 ]
    [[ $output == *" checks, 0 failed"* ]]
}

device() {
    # As new as the headers: what is built with them asks for no older driver.
    SIMGPU_DRIVER=${SIMGPU_DRIVER:-13020} on sim/driver sim/rt11 sim/rt12 sim/rt13 -- "$@"
}

@test "a program linked with CUDA 11, 12 or 13 is counted once" {
    device "$hook/linked-11"
    rm "$VRAMGC_OUT"
    device "$hook/linked-12"
    rm "$VRAMGC_OUT"
    device "$hook/linked-13"
}

@test "a library opened RTLD_LOCAL that is linked with CUDA 11, 12 or 13 is counted once" {
    device "$hook/routes" local "$hook/libclient-11.so"
    rm "$VRAMGC_OUT"
    device "$hook/routes" local "$hook/libclient-12.so"
    rm "$VRAMGC_OUT"
    device "$hook/routes" local "$hook/libclient-13.so"
}

@test "dlopen and dlsym of the runtime of CUDA 11, 12 or 13 is counted once" {
    device "$hook/routes" dlsym libcudart.so.11.0
    rm "$VRAMGC_OUT"
    device "$hook/routes" dlsym libcudart.so.12
    rm "$VRAMGC_OUT"
    device "$hook/routes" dlsym libcudart.so.13
}

@test "the driver linked, linked by a library opened RTLD_LOCAL, or by dlopen and dlsym" {
    device "$hook/linked-driver"
    rm "$VRAMGC_OUT"
    device "$hook/routes" local "$hook/libclient-driver.so"
    rm "$VRAMGC_OUT"
    device "$hook/routes" dlsym libcuda.so.1
}

@test "the driver by cuGetProcAddress, in both forms" {
    device "$hook/routes" proc4
    rm "$VRAMGC_OUT"
    device "$hook/routes" proc5
}

@test "the driver by cuGetProcAddress asked for itself, at 11030 and 12000" {
    device "$hook/routes" self11030
    rm "$VRAMGC_OUT"
    device "$hook/routes" self12000
}

@test "the driver by cudaGetDriverEntryPoint of CUDA 11, 12 and 13, and by version" {
    local major
    for major in 11.0 12 13; do
        SIMGPU_DRIVER=13000 device "$hook/routes" entry "libcudart.so.$major" # a newer one has another form of two names
        rm "$VRAMGC_OUT"
    done
    for major in 12 13; do
        device "$hook/routes" entry-version "libcudart.so.$major"
        rm "$VRAMGC_OUT"
    done
}

@test "without vramgc the same program finds nothing counted: the checks can fail" {
    LD_LIBRARY_PATH=$root/build/sim/driver:$root/build/sim/rt13 run "$hook/linked-13"
    [ "$status" -ne 0 ]
    [[ $output == *FAILED* ]]
}

@test "wrappers change no argument and no error, whatever the arguments are" {
    on hook/echo -- "$hook/passthrough"
}

@test "look-ups answer as the driver does: names, versions, flags, status, and nothing else happens" {
    device "$hook/lookup"
}

@test "dlsym keeps its meaning: RTLD_NEXT, RTLD_DEFAULT in a local library, constructors; -O0 and -O2" {
    device "$hook/next" "$hook/liblocal-O0.so" "$hook/liblocal-O2.so"
}

@test "another interposer of cudaMalloc in front and behind: each call passes once, counted once" {
    local o
    for o in O0 O2; do
        PRELOAD="$library $hook/libinterposer-$o.so" device "$hook/chain"
        rm "$VRAMGC_OUT"
        PRELOAD="$hook/libinterposer-$o.so $library" device "$hook/chain"
        rm "$VRAMGC_OUT"
    done
}

@test "a thread that is cancelled in the first CUDA call leaves no lock behind" {
    device "$hook/cancel"
}

@test "libraries that were closed are not called: one that exports CUDA's names, and a stub of the driver" {
    device "$hook/closed" "$hook/stub/libother.so" "$hook/stub/libcuda.so.1"
}

@test "a driver that looks up its own functions gets its own functions" {
    on hook/own -- "$hook/own_names"
}

# What the runtime calls is what it has looked up. Linked, opened, or looked up.
@test "every call of the driver wakes a program that is parked at rest, but for questions, and its arguments are as they were" {
    on hook/every -- "$hook/entries"
}

@test "two devices: each has its own sums, and a reset of one leaves the other" {
    SIMGPU_DEVICES=2 device "$hook/two_devices"
}

@test "blocks of libc10 in both manglings: the original is called once, host memory is not counted" {
    VRAMGC_MODE=flush on hook/c10 sim/driver sim/rt13 -- "$hook/c10_blocks"
}

@test "no thread can be had: one warning, and everything is recorded all the same" {
    device "$hook/linked-13"
    [ "$(but_for_ooms <<<"$output" | grep -c '^vramgc:')" -eq 1 ]
    [[ $output == *"no thread could be started"* ]]
}

# passes PRELOAD COMMAND...: the same with PRELOAD behind vramgc, and a libc10 at hand.
passes() {
    PRELOAD="$library $1" on sim/driver sim/rt11 sim/rt12 sim/rt13 hook/c10 -- "${@:2}"
}

@test "a block is reported while a constructor holds the loader's lock and waits for the allocator" {
    passes "" "$hook/loader_lock" "$hook/libloader_lock.so"
}

@test "where no CUDA is loaded dlsym says so, and leaves the error" {
    passes "" "$hook/no_cuda"
}

@test "a driver that another thread loads while a function is looked for" {
    passes "" "$hook/late_driver"
}

@test "children that are forked while other threads are in the loader's list do not hang" {
    device "$hook/forked"
}

@test "an interposer of the driver behind vramgc is called once where the driver is linked" {
    passes "$hook/libdriver_interposer.so" "$hook/driver_interposer-linked"
}

@test "an interposer of the driver behind vramgc is not called where nobody called it before" {
    passes "$hook/libdriver_interposer.so" "$hook/driver_interposer-opened"
}

@test "an interposer behind vramgc that hooks dlsym is called as without us, and each call is counted once" {
    passes "$hook/libhook_dlsym.so" "$hook/hook_dlsym"
    rm "$VRAMGC_OUT"
    passes "$hook/libquota-BY_QUESTION.so" "$hook/hook_dlsym" by_question
}

@test "a snapshot for a program that knows fewer fields, or more" {
    passes "" "$hook/snapshot_size"
}

@test "two or three runtimes: each library's calls go to its own" {
    passes "" "$hook/runtimes" "$hook"/libruntimes_client-{12,11,13}.so
}

@test "what vramgc has not heard of yet is not taken for the memory of others" {
    passes "$hook/libreading_race.so" "$hook/reading_race"
}

@test "what was read while memory came or went is no answer for who is refused afterwards" {
    passes "$hook/libreading_race.so" "$hook/reading_race" answers
    rm "$VRAMGC_OUT"
    VRAMGC_HEADROOM=1GiB passes "$hook/libreading_race.so" "$hook/reading_race" limited
}

@test "another thread maps addresses anew before the one that unmapped them has heard of it" {
    passes "$hook/libunmap_race.so" "$hook/unmap_race"
}
