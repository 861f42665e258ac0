#!/usr/bin/env bats
# What the page engine does at its edges, on PyTorch's real allocator.
load common

# 768 MiB, of which the context takes 256.
small=(--mem 768MiB)

@test "idle pages serve a block of another segment: what fits by its live tensors fits" {
    passes 'alloc a 300MiB; fill a 1; free a; alloc b 150MiB; fill b 2; alloc c 350MiB; fill c 3; verify b 2; verify c 3;
        expect num_ooms == 0; expect vramgc.held_bytes <= 512MiB' "${small[@]}"
    [ "$(fact page_maps)" -gt 0 ]
}

# Addresses, sixteen extents of 20 MiB, each made and mapped, and the device let in once; then pages go back in one piece.
@test "a large block costs few calls of the driver" {
    for version in $versions; do
        drive "$version" 'alloc a 320MiB; fill a 1; verify a 1' --mem 24GiB
        [ "$(fact page_maps)" -ge 160 ]
        (($(fact page_calls) >= 18 && $(fact page_calls) <= 36))
    done
}

@test "PyTorch runs out at cudaMalloc: torch's own out-of-memory, and smaller ones go on" {
    passes 'alloc a 300MiB; expect_oom 300MiB; expect_oom 300MiB; alloc b 150MiB; fill b 2; verify b 2; free a; alloc c 300MiB; fill c 3;
        verify c 3; expect num_ooms == 2' "${small[@]}"
}

# What PyTorch has cached is memory that others may take: then it is the block event that finds the device full.
@test "somebody else has taken what PyTorch has cached: PyTorch's own error, told, and smaller ones go on; twice" {
    passes 'alloc a 300MiB; fill a 1; free a; cuda_malloc x 350MiB; fill x 7; expect_oom 300MiB; expect num_ooms == 0; alloc c 50MiB; fill c 3; verify c 3;
        free c; cuda_malloc y 130MiB; expect_oom 50MiB; expect num_ooms == 0; alloc d 20MiB; fill d 4; verify d 4; verify x 7' "${small[@]}"
    [ "$(fact ooms)" = 2 ]
    [ "$(fact refused_block_bytes)" = $((350 << 20)) ]
    [ "$(grep -c '^refusal full granted=0 request=314572800 ' <<<"$facts")" = 1 ]
    [ "$(grep -c '^refusal .* hook=cuMemCreate ' <<<"$facts")" = 2 ]
}

# PyTorch has addresses for d, but the pages are a's. The simulated device works on a until it is waited for, or asked a second time.
@test "a block that only waits for another stream makes room in the last step before a refusal" {
    passes 'alloc w 300MiB; free w; alloc s 50MiB; fill s 7; alloc b 300MiB; free b; alloc a 300MiB; fill a 1; record a 3; fill a 9 stream=3;
        free a; alloc d 250MiB; fill d 2; verify d 2; verify s 7; expect num_alloc_retries == 0; expect num_ooms == 0' "${small[@]}"
    [ "$(fact pending_frees)" = 1 ]
    [ "$(fact ooms)" = 0 ]
}

@test "rescue: what is kept or idle goes to whoever calls cudaMalloc himself" {
    passes 'alloc a 400MiB; fill a 1; free a; cuda_malloc x 400MiB; fill x 7; verify x 7; expect vramgc.held_bytes <= 512MiB' "${small[@]}"
    [[ $output != *oom* ]]
    passes 'alloc a 400MiB; alloc b 50MiB; fill b 3; free a; empty_cache; cuda_malloc x 400MiB; fill x 7; verify x 7; verify b 3' "${small[@]}"
    [[ $output != *oom* ]]
    grep "^action pages refused device=0 observed=0 request=$((400 << 20)) " <<<"$facts"
    [ "$(fact reclaims)" = 1 ]
    [ "$(fact reclaimed_bytes)" -ge $((338 << 20)) ] # 62 MiB were free
}

@test "what PyTorch gives up goes back, and is no reclaim of ours; what it has cached stays" {
    VRAMGC_COOLDOWN=10ms VRAMGC_TEST_SAMPLE=20ms passes 'alloc b 50MiB; fill b 3; alloc a 250MiB; fill a 1; free a; sleep 300; expect vramgc.held_bytes == 300MiB;
        empty_cache; await vramgc.held_bytes == 50MiB; verify b 3; expect vramgc.reclaims == 0' "${small[@]}"
    [ "$(fact reclaims)" = 0 ]
    [ "$(actions '')" = 0 ]
}

@test "rescue has its limits: live blocks are nobody else's" {
    passes 'alloc a 400MiB; fill a 1; cuda_malloc x 200MiB; verify a 1; alloc b 60MiB; fill b 2; verify b 2; verify a 1' "${small[@]}"
    [ "$output" = 'oom x' ]
}

@test "capture: blocks handed out meanwhile stay, and cudaMalloc goes to the driver" {
    passes 'alloc w 200MiB; free w; stream 2; capture_begin; alloc g 60MiB; free g; capture_end; stream 0; reclaim; sleep 100;
        expect vramgc.held_bytes >= 60MiB; alloc a 400MiB; fill a 1; verify a 1; free a; reclaim; await vramgc.held_bytes <= 100MiB;
        expect vramgc.held_bytes >= 60MiB; graph_release; empty_cache; reclaim;
        await vramgc.held_bytes == 0' "${small[@]}"
    [ "$(fact segment_allocs)" -gt 1 ]
}

# CUDA graph trees (torch.compile) free a graph's inputs in its pool, once it has been captured: each replay reads and writes there.
@test "capture: what was live when it began stays, though it is freed" {
    VRAMGC_LOWVRAM=1 passes 'alloc x 60MiB; fill x 7; stream 2; capture_begin; alloc g 20MiB; capture_end; stream 0; free x; reclaim; sleep 300;
        expect vramgc.held_bytes >= 80MiB; graph_release; free g; empty_cache; await vramgc.held_bytes == 0'
}

@test "captures stay valid while pages go back all the time" {
    local script='alloc w 300MiB; fill w 1; free w;' i
    for i in 1 2 3 4 5 6 7 8; do
        script+=" alloc w$i 100MiB; fill w$i $i; free w$i; stream 2; capture_begin; alloc g$i 20MiB; alloc h$i 1MiB; sleep 5;
            free g$i; free h$i; capture_end; stream 0; alloc v$i 50MiB; fill v$i $i; verify v$i $i; free v$i; graph_release; empty_cache;"
    done
    BEHIND=$PWD/build/vm/libconstant_reclaim.so passes "$script" "${small[@]}"
}

@test "capture: what is idle when it begins is had" { capture_finds passes; }

@test "a full device under capture: what the GPU has been found to have finished with is had" {
    passes 'alloc a 400MiB; fill a 1; free a; reclaim; await vramgc.held_bytes == 0; stream 2; capture_begin; alloc g 400MiB; capture_end;
        expect num_ooms == 0' "${small[@]}"
}

# PyTorch alone has memory there. What the simulated device does not have mapped it refuses to copy.
# bats test_tags=random
@test "what kernels read past the end of a tensor is there, as far as its segment goes" {
    local conf
    for conf in max_split_size_mb:512 expandable_segments:True; do
        for VRAMGC_LOWVRAM in 0 1; do
            export VRAMGC_LOWVRAM PYTORCH_CUDA_ALLOC_CONF=$conf
            for version in $versions; do
                drive "$version" 'random ops=3000 streams=3 max=64MiB live=100 every=100 fill=1 overread=1 seed=5' --mem 32GiB
                [ "$status" = 0 ]
                [[ $output == *"corrupted=0"* ]]
                [ "$(fact page_unmaps)" -gt 0 ] || [ "$VRAMGC_LOWVRAM" = 0 ]
            done
        done
    done
}

# PyTorch alone has nothing there once it has emptied its cache: each of these fills a segment of its own.
@test "what lies behind large blocks goes before a request is refused" {
    local version small=() i
    for i in {1..55}; do small+=("alloc b$i 30MiB;"); done
    for i in {1..55..2}; do small+=("fill b$i 3;"); done
    for i in {2..55..2}; do small+=("free b$i;"); done
    for PYTORCH_CUDA_ALLOC_CONF in max_split_size_mb:512 expandable_segments:True; do
        export PYTORCH_CUDA_ALLOC_CONF
        for version in $versions; do
            drive "$version" "${small[*]} alloc c 900MiB; fill c 2; overread; verify c 2; verify b55 3; expect num_ooms == 0" --mem 2GiB
            [ "$status" = 0 ] || return 1
        done
    done
}

# 500 of 2,600 blocks are refused, PyTorch alone 640; a block comes with the page behind it, or not at all.
# bats test_tags=random
@test "so it is on a full card" {
    local seed
    export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
    for seed in 1 2 3; do
        for version in $versions; do
            drive "$version" "random ops=4000 streams=4 max=20MiB live=2000 every=50 overread=1 seed=$seed" --mem 2GiB
            [ "$status" = 0 ]
        done
    done
}

@test "two devices: each its own engine; freeing under the other device's context waits for the right streams" {
    passes 'alloc a 300MiB; fill a 1; device 1; alloc b 300MiB; fill b 2; alloc c 20MiB; fill c 3; free b; device 0; empty_cache;
        free a; empty_cache; alloc d 450MiB; fill d 4; verify d 4; device 1; verify c 3; alloc e 400MiB; fill e 5; free e; device 0; reclaim;
        sleep 50; device 1; alloc f 400MiB; fill f 6; verify f 6; verify c 3; expect num_ooms == 0' "${small[@]}" --devices 2
}

@test "two devices: idle pages of both go back while only one works" {
    VRAMGC_LOWVRAM=1 VRAMGC_TEST_REST=5ms VRAMGC_COOLDOWN=0 passes 'device 1; alloc b 300MiB; fill b 2; device 0; alloc a 300MiB; fill a 1;
        free b; free a; synchronize; await vramgc.held_bytes == 0; device 1; await vramgc.held_bytes == 0' "${small[@]}" --devices 2
}

# Our thread comes from the other device, whose default stream has the same handle and nothing to do.
@test "two devices: work in flight on one is waited for, though the other has none" {
    VRAMGC_LOWVRAM=1 VRAMGC_TEST_REST=5ms VRAMGC_COOLDOWN=0 passes 'device 0; alloc a 300MiB; device 1; alloc b 100MiB; fill b 2; synchronize; free b;
        await vramgc.held_bytes == 0; device 0; fill a 1; device 1; free a; sleep 100; device 0; alloc c 300MiB; fill c 3; verify c 3' "${small[@]}" --devices 2
}

@test "cudaMallocAsync: the engine is idle, the pool is trimmed as ever" {
    for version in $versions; do
        PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync drive "$version" \
            'alloc a 300MiB; fill a 1; verify a 1; free a; synchronize; reclaim; await vramgc.held_bytes == 0; alloc b 400MiB; fill b 2; verify b 2' "${small[@]}"
        [ "$status" = 0 ]
        [[ $errors != *simgpu* && $errors != *vramgc* ]]
        [ "$(fact page_maps)" = 0 ]
    done
}

# Every third request is refused: the first two are the extension's, the third is the trial's, the sixth PyTorch's own, which empties
# its cache and asks again.
@test "a device that fails the trial: one warning, and PyTorch has the driver's memory" {
    for version in $versions; do
        SIMGPU_OOM_NTH=3 drive "$version" 'cuda_malloc x 1MiB; cuda_malloc y 1MiB; alloc a 200MiB; fill a 1; verify a 1; free a;
            alloc b 100MiB stream=1; fill b 2 stream=1; alloc c 100MiB stream=2; expect num_alloc_retries == 1; expect num_ooms == 0;
            stream 1; verify b 2' --mem 4GiB
        [ "$status" = 0 ]
        [ "$(grep -c 'cannot map memory page by page; mode flush is used there' <<<"$errors")" = 1 ]
        [ "$(wc -l <<<"$errors")" = 1 ]
        [ "$(fact page_maps)" = 0 ]
    done
}

# In lowvram nothing has gone back by then, which takes 4 ms. The first answer of an event may be that it has not passed, for which no
# block waits: on a busy machine a few times in a row.
@test "lowvram: idle pages are used before more is asked of the driver" {
    local n
    local script='alloc a 100MiB; fill a 1; free a; synchronize; alloc b 100MiB stream=1; fill b 2 stream=1; stream 1; verify b 2'
    for n in 1 2 3 4 5; do
        ! VRAMGC_LOWVRAM=1 VRAMGC_TEST_REST=10s passes "$script; expect vramgc.held_bytes <= 110MiB" || break
    done
    [ "$status" = 0 ]
    VRAMGC_TEST_REST=10s passes "$script; expect vramgc.held_bytes >= 200MiB"
}

# The program allocates and frees all the time, so it never rests; our thread has had its first look before anything is idle.
@test "lowvram: idle pages go back while the program works, and a burst is one action" {
    local script='alloc a 400MiB; fill a 1; sleep 200; free a; synchronize;' i
    for i in 1 2 3 4 5 6 7 8; do script+=" alloc b$i 2MiB; sleep 5; free b$i;"; done
    VRAMGC_LOWVRAM=1 VRAMGC_TEST_REST=10s VRAMGC_TEST_SAMPLE=10s passes "$script alloc c 100MiB; await vramgc.held_bytes <= 110MiB"
    [ "$(actions 'pages lowvram')" = 1 ]
    [ "$(fact reclaims)" = 1 ]
}

# Else it would look half a second later. With the first its thread may only just have begun to look.
@test "our own thread hears of what becomes idle, lowvram, and of what PyTorch gives up" {
    local i lowvram= given_up=
    for i in 1 2 3; do
        lowvram+="alloc a$i 20MiB; fill a$i 1; alloc b$i 4MiB; synchronize; free a$i b$i; await vramgc.held_bytes == 0;"
        given_up+="alloc a$i 20MiB; fill a$i 1; synchronize; free a$i; empty_cache; await vramgc.held_bytes == 0;"
    done
    VRAMGC_LOWVRAM=1 VRAMGC_TEST_REST=10s VRAMGC_TEST_SAMPLE=10s passes "$lowvram"
    build/vramgc report --json "$BATS_TEST_TMPDIR/record.vramgc" | python3 -c 'import json, sys # one action, which lasts to its last batch
assert any(a["until_ns"] > a["time_ns"] + a["took_ns"] for a in json.load(sys.stdin)["processes"][0]["actions"])'
    VRAMGC_COOLDOWN=1ms VRAMGC_TEST_SAMPLE=10s passes "$given_up"
}

# Else it would be made anew each time, in five milliseconds.
@test "lowvram: what blocks need again and again stays" {
    local script= i
    for ((i = 0; i < 1000; i++)); do script+='alloc a 400MiB; free a; sleep 1; '; done
    VRAMGC_LOWVRAM=1 SIMGPU_LATENCY=card passes "$script await vramgc.held_bytes == 0; _exit 0"
    echo "maps $(fact page_maps)"
    [ "$(fact page_maps)" -lt $((1000 * 200 / 2)) ]
}

# The action would go on for another second without anything given back.
@test "lowvram: what has gone back is told though the process ends at once and without a word" {
    VRAMGC_LOWVRAM=1 VRAMGC_TEST_REST=10s VRAMGC_TEST_SAMPLE=10s passes 'alloc a 400MiB; fill a 1; sleep 200; free a; synchronize;
        await vramgc.held_bytes == 0; _exit 0'
    [ "$(actions 'pages lowvram')" = 1 ]
    [ "$(fact reclaims)" = 1 ]
}

# Ten batches one after the other; the machine may take a second over some.
@test "lowvram: an action tells all that went back, though memory was taken meanwhile" {
    local script='sleep 200;' i
    for i in 0 1 2 3 4 5 6 7 8 9; do script+=" alloc a$i 40MiB; fill a$i 1; free a$i; synchronize; await vramgc.held_bytes == 0;"; done
    VRAMGC_LOWVRAM=1 VRAMGC_TEST_REST=10s VRAMGC_TEST_SAMPLE=10s passes "$script _exit 0"
    [ "$(actions 'pages lowvram')" -lt 10 ]
    [ "$(fact reclaims)" -lt 10 ]
    [ "$(fact reclaimed_bytes)" -ge $((400 << 20)) ]
    [ "$(sed -n 's/^action pages .* before=\([0-9]*\) after=\([0-9]*\) .*/\1 \2/p' <<<"$facts" | awk '{ sum += $1 - $2 } END { print sum }')" = "$(fact reclaimed_bytes)" ]
}

# The context takes 256 of 1024 MiB: 75 % are reached with 512 MiB of segments.
@test "threshold: idle pages go back down to it after the cool-down, while the program works or rests; below it, or before, nothing does" {
    local script='alloc z 100KiB; alloc a 600MiB; fill a 1; free a; synchronize;' work= i
    for i in 1 2 3 4 5 6 7 8; do work+=" alloc b$i 100KiB; sleep 5; free b$i;"; done # in z's page
    export VRAMGC_TEST_REST=20ms VRAMGC_TEST_SAMPLE=20ms
    VRAMGC_THRESHOLD=75 passes "$script await vramgc.held_bytes <= 512MiB; expect vramgc.held_bytes >= 500MiB" --mem 1GiB
    VRAMGC_THRESHOLD=75 VRAMGC_COOLDOWN=0 passes "$script $work await vramgc.held_bytes <= 514MiB; expect vramgc.held_bytes >= 500MiB" --mem 1GiB
    [ "$(actions 'pages threshold')" = 1 ]
    VRAMGC_THRESHOLD=90 VRAMGC_COOLDOWN=0 passes "$script $work sleep 200; expect vramgc.held_bytes >= 600MiB" --mem 1GiB
    [ "$(fact page_unmaps)" = 0 ]
    VRAMGC_THRESHOLD=75 VRAMGC_COOLDOWN=60s passes "$script $work sleep 200; expect vramgc.held_bytes >= 600MiB" --mem 1GiB
    [ "$(fact page_unmaps)" = 0 ]
}

# Else our thread would look half a second after its last look. The context takes 256 of 1024 MiB.
@test "threshold: what has been idle for long goes at once where other code takes memory" {
    VRAMGC_THRESHOLD=75 VRAMGC_COOLDOWN=50ms passes 'alloc a 400MiB; fill a 1; free a; synchronize; sleep 100; expect vramgc.held_bytes == 400MiB;
        cuda_malloc x 300MiB; await vramgc.held_bytes <= 512MiB' --mem 1GiB
}

@test "without the mode nothing is paged" {
    VRAMGC_MODE=flush passes 'alloc a 300MiB; fill a 1; verify a 1; free a' "${small[@]}"
    [ "$(fact page_maps)" = 0 ]
}

# PyTorch records its events for such a block only after the capture; stream 3 has no segment of its own, so nobody asks it.
@test "a block freed during a capture that a stream without segments still works on: its pages go when the GPU is past that" {
    passes 'alloc a 300MiB; fill a 1; stream 2; capture_begin relaxed; record a 3; fill a 9 stream=3; free a; capture_end; stream 0;
        alloc b 120MiB stream=1; fill b 2 stream=1; alloc c 200MiB stream=1; fill c 3 stream=1; stream 1; verify b 2; verify c 3' "${small[@]}"
    [ "$(fact page_unmaps)" -gt 0 ]
}

# The work of stream 1 is not over when its segment ends.
@test "an ended segment is another stream's only when the GPU has finished with it" {
    local script='' i
    for i in 1 2 3 4 5 6 7 8; do
        script+=" alloc a$i 60MiB stream=1; fill a$i 1 stream=1; fill a$i 1 stream=1; free a$i; empty_cache;
            alloc b$i 60MiB stream=2; fill b$i $i stream=2; stream 2; verify b$i $i; synchronize; verify b$i $i; free b$i; empty_cache;"
    done
    passes "$script" --mem 8GiB
}
