#!/usr/bin/env bats
# VRAMGC_ALLOC_CONF: the setting of PyTorch's allocator is chosen where nobody chose one and the version is known to be sound,
# and never otherwise. PyTorch's libraries are laid out as in a wheel: torch/lib and torch/version.py.
load common

script='alloc a 100MiB; alloc b 1MiB; snapshot; free a b; empty_cache; expect reserved_bytes == 0'

# becomes VALUE WHY EXPANDABLE: what vramgc says, and what PyTorch's allocator does.
becomes() {
    [ "$status" = 0 ] || return 1
    [ "$(fact conf)" = "$1" ] || return 1
    [[ "$(fact why)" == $2 ]] || return 1
    [[ $output == *'"is_expandable": '$3* ]]
}

@test "auto: expandable segments where nobody chose, and PyTorch has them" {
    unset VRAMGC_ALLOC_CONF
    for version in $versions; do
        lay_out "$version" "$version+cu128"
        drive "$version" "$script"
        becomes "$(choice_for "$version")" 'chosen by vramgc: none was set' true
        [ "$(fact torch)" = "$version+cu128" ]
    done
}

@test "auto is left alone: a version that is not sound, not known, or not to be read" {
    local given
    unset VRAMGC_ALLOC_CONF
    for version in $versions; do
        for given in 2.13.0+cu130 2.0.1 1.13.1+cu117 nonsense ''; do
            lay_out "$version" "$given"
            drive "$version" "$script"
            becomes '' 'left alone: *' false
            [ "$(fact torch)" = "$given" ]
        done
    done
}

# 8 GiB, of which 3000 and 230 x 19 MiB are live, then every other one of these goes. In steps of 20 MiB almost every one keeps two.
@test "where the card is not proven, what fits without vramgc beside tensors that stay fits with it" {
    local i rows='alloc m 100MiB count=30; alloc a 19MiB count=230'
    for ((i = 1; i < 230; i += 2)); do rows+="; free a.$i"; done
    unset VRAMGC_ALLOC_CONF
    for version in $versions; do
        lay_out "$version" "$version"
        [[ $(choice_for "$version") == *large_segment_size_mb* ]] || continue
        VRAMGC_MODE=flush drive "$version" "$rows; alloc d 1200MiB; expect num_ooms == 0" --mem 8GiB
        [ "$status" = 0 ]
        [ "$(fact conf)" = "$(choice_for "$version")" ]
        VRAMGC_MODE=flush drive "$version" 'alloc m 88MiB count=46; alloc x 3884MiB; expect num_ooms == 0' --mem 8GiB
        [ "$status" = 0 ]
    done
}

# What vramgc leaves in the environment of a process, for one that was started by it.
@test "what was chosen in the parent process is chosen anew: not where it would not be sound" {
    unset VRAMGC_ALLOC_CONF
    export VRAMGC_CHOSE_ALLOC_CONF=garbage_collection_threshold:0.80,expandable_segments:True
    export PYTORCH_CUDA_ALLOC_CONF=$VRAMGC_CHOSE_ALLOC_CONF VRAMGC_GIVEN_CUDA_ALLOC_CONF=garbage_collection_threshold:0.80
    for version in $versions; do
        lay_out "$version" "$version"
        drive "$version" "$script"
        becomes "garbage_collection_threshold:0.80,$(choice_for "$version")" "the environment's choice; vramgc added expandable_segments:True" true
        lay_out "$version" 2.13.0+cu130
        drive "$version" "$script"
        becomes garbage_collection_threshold:0.80 "the environment's choice" false
        [[ $errors != *vramgc* ]]
    done
}

@test "keep" {
    for version in $versions; do
        lay_out "$version" "$version"
        VRAMGC_ALLOC_CONF=keep drive "$version" "$script"
        becomes '' VRAMGC_ALLOC_CONF=keep false
    done
}

@test "a setting of one's own" {
    for version in $versions; do
        lay_out "$version" "$version"
        VRAMGC_ALLOC_CONF=expandable_segments:True,max_split_size_mb:256 drive "$version" "$script"
        becomes expandable_segments:True,max_split_size_mb:256 VRAMGC_ALLOC_CONF true
        VRAMGC_ALLOC_CONF=max_split_size_mb:256 PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True drive "$version" "$script"
        becomes max_split_size_mb:256 VRAMGC_ALLOC_CONF false
    done
}

@test "the user's choice wins, under either name" {
    local name
    unset VRAMGC_ALLOC_CONF
    for version in $versions; do
        lay_out "$version" "$version"
        for name in PYTORCH_CUDA_ALLOC_CONF PYTORCH_ALLOC_CONF; do
            export "$name=garbage_collection_threshold:0.80,expandable_segments:False"
            drive "$version" "$script"
            becomes garbage_collection_threshold:0.80,expandable_segments:False "the environment's choice" false
            unset "$name"
        done
    done
}

@test "a choice that says nothing of expandable segments gets them, under either name, in the place of max_split_size_mb" {
    local name
    unset VRAMGC_ALLOC_CONF
    for version in $versions; do
        lay_out "$version" "$version"
        for name in PYTORCH_CUDA_ALLOC_CONF PYTORCH_ALLOC_CONF; do
            export "$name=garbage_collection_threshold:0.80,max_split_size_mb:512"
            drive "$version" "$script"
            becomes "garbage_collection_threshold:0.80,$(choice_for "$version")" '*in the place of max_split_size_mb' true
            VRAMGC_ALLOC_CONF=keep drive "$version" "$script"
            becomes garbage_collection_threshold:0.80,max_split_size_mb:512 "the environment's choice" false
            VRAMGC_MODE=observe drive "$version" "$script"
            becomes garbage_collection_threshold:0.80,max_split_size_mb:512 "the environment's choice" false
            unset "$name"
        done
    done
}

@test "observe and off never set it" {
    unset VRAMGC_ALLOC_CONF
    for version in $versions; do
        lay_out "$version" "$version"
        VRAMGC_MODE=observe drive "$version" "$script"
        becomes '' 'left alone: mode observe changes nothing' false
        VRAMGC_MODE=off drive "$version" "$script"
        [ "$status" = 0 ]
        [[ $output == *'"is_expandable": false'* ]]
    done
}


# 8 GiB: each stream and kind of block takes 9 GiB of addresses. What one GPU's streams gave up another GPU's can not have again.
@test "addresses are short: ranges that PyTorch has freed do not keep them" {
    local mode switch='free a; empty_cache; alloc a 100MiB'
    export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True SIMGPU_MAX_ADDRESSES=10GiB
    for version in $versions; do
        lay_out "$version" "$version"
        for mode in off flush compact; do
            VRAMGC_MODE=$mode drive "$version" "alloc a 100MiB stream=1; $switch stream=2; $switch stream=3; device 1; $switch; expect num_ooms == 0" --mem 8GiB --devices 2
            [ "$status" = 0 ]
        done
    done
}

@test "addresses are short: nothing is chosen under ulimit -v, and what fits alone fits" {
    local option
    unset VRAMGC_ALLOC_CONF
    ulimit -S -v $((20 << 20))
    for version in $versions; do
        lay_out "$version" "$version"
        for option in '' --proven; do
            drive "$version" "$script; alloc c 40MiB stream=1; alloc d 40MiB stream=2; expect num_ooms == 0" --mem 8GiB $option
            becomes '' 'left alone: addresses are limited (ulimit -v), *' false
        done
    done
}

# takes [OPTION-OF-SIMGPU]: MiB of addresses that the program has, and its threads.
takes() {
    XDG_STATE_HOME=$BATS_TEST_TMPDIR/state$1 tests/on_card --cuda 13 --mem 512MiB $1 -- build/venv/bin/python tests/govern/python/addresses.py
}

@test "addresses are short: vramgc reserves none ahead, as a thread does that allocates" {
    local alone option with
    ulimit -S -v $((2 << 20))
    alone=$(takes '')
    for option in '' --proven; do
        with=$(LD_PRELOAD=$library takes "$option")
        echo "$option: alone $alone, with $with"
        [ "${with#* }" -eq "${alone#* }" ]
        [ $((${alone% *} - ${with% *})) -le 16 ] # its own code and tables
    done
}

# As many as native segments have room for, to the byte; those that grow by 12 MiB at a time have room for one less.
@test "a memory fraction in the setting: nothing is chosen, and what fits alone fits" {
    local option
    only_since 2.15 # earlier ones do not know the name
    unset VRAMGC_ALLOC_CONF
    export PYTORCH_CUDA_ALLOC_CONF=per_process_memory_fraction:0.244140625 # 1000 MiB
    for version in $versions; do
        lay_out "$version" "$version"
        for option in '' --proven; do
            drive "$version" "$(printf 'alloc x%s 50MiB; ' {1..20}) expect num_ooms == 0; snapshot" --mem 4GiB $option
            becomes "$PYTORCH_CUDA_ALLOC_CONF" "the environment's choice" false
        done
    done
}
