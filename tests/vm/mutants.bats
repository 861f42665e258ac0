#!/usr/bin/env bats
# Takes the care out of the page engine, one piece at a time, and sees tests fail: so each piece is needed, and the tests can fail.
# bats file_tags=mutants
load common

# caught FILE PATTERN NAME SOURCE OLD NEW: with this change of src/SOURCE the tests of FILE.bats that match the pattern fail. On a busy
# machine one may pass by chance: it is tried a few times.
caught() {
    local mutant n
    mutant=$(build/vm/mutant "${@:3}")
    for n in 1 2 3 4; do
        run env VRAMGC_LIBRARY="$PWD/$mutant" C10DRIVE_PATIENCE_MS=5000 bats --filter "$2" "tests/vm/$1.bats"
        echo "try $n: $output"
        [ "$status" != 1 ] || break
    done
    [ "$status" = 1 ]
    [[ $output == *"not ok"* ]]
}

@test "the mutants are built right: with nothing changed, a mutant passes" {
    run env VRAMGC_LIBRARY="$PWD/$(build/vm/mutant)" bats --filter '^one stream' tests/vm/in_flight.bats
    echo "$output"
    [ "$status" = 0 ]
}

# --- the GPU ---

@test "the GPU is not waited for" {
    caught in_flight '^one stream works' now vm/fence.c \
        '(whole ? REAL(cuCtxSynchronize)() == CUDA_SUCCESS : wait_for_streams(vm, count))' true
}

@test "only one stream is waited for" {
    caught in_flight '^one stream works' one-stream vm/fence.c \
        'for (size_t i = 0; over && i < count; i++)' 'for (size_t i = 0; over && i < 1; i++)'
}

@test "events are not asked" {
    caught in_flight '^one stream works' events vm/fence.c 'if (all_passed(vm)) {' 'if (true) {'
}

@test "an event on one stream only" {
    caught in_flight '^one stream works' one-event vm/fence.c \
        'for (size_t i = 0; possible && i < fence->streams; i++)' 'for (size_t i = 0; possible && i < 1; i++)'
}

@test "victims are picked whether the GPU has finished or not" {
    caught in_flight '^one stream works' epoch vm/victim.c '.epoch = table->fenced_epoch' '.epoch = UINT64_MAX'
}

@test "a block that waits for another stream counts as free" {
    caught in_flight '^a stream without a segment' pending serve/device_vm.c 'if (event->pending)' 'if (false)'
}

@test "the default stream of whichever context is current is asked" {
    caught engine 'work in flight on one' context vm/fence.c \
        'REAL(cuCtxSetCurrent)(vm->context) == CUDA_SUCCESS' 'true'
}

@test "an ended segment is another stream's before the GPU has finished with it" {
    caught engine 'an ended segment' retained vm/page_table.c 'segment->end_epoch <= table->fenced_epoch;' 'true;'
}

@test "blocks freed during a capture count as done with" {
    caught engine 'a block freed during a capture' unsure vm/commit.c 'if (segment && !streams_done)' 'if (false)'
}

@test "the last work of a stream that has gone is not waited for" {
    caught python 'streams are destroyed' last-work vm/fence.c 'recorded ? SLOT_GONE : SLOT_FREE;' 'SLOT_FREE;'
}

@test "the default stream is taken for destroyed" {
    caught python 'the default stream' default-goes serve/serve.c 'stream <= STREAM_PER_THREAD' 'stream == UINT64_MAX'
}

@test "the device is not let in" { caught in_flight '^one stream$' open vm/access.c 'page->open_to < run.devices' false; }

# --- captures ---

@test "what a captured graph uses is not pinned" {
    caught vmm 'blocks handed out meanwhile' pin vm/commit.c 'else if (pin)' 'else if (false)'
}

@test "what is live when a capture begins is not pinned" {
    caught engine 'what was live when it began' pin-live vm/page_table.c '.live > 0;' '.live > UINT32_MAX - 1;'
}

@test "the GPU is not asked before a capture" {
    caught engine 'idle when it begins' nears-engine hook/calls.c 'serve_capture_prepare();' ';'
}

# --- what PyTorch is told, and errors ---

@test "the error of a block without pages is a plain one" {
    caught engine 'has taken what PyTorch has cached' plain-error cuda/errors.c 'find_constructor() && find_type()' 'false'
}

@test "cudaMemGetInfo says what the driver says" {
    caught python applications free serve/capacity.c \
        'return minus_u64(free_bytes + figures.physical_bytes + figures.failed_bytes,' 'return free_bytes; return minus_u64(0,'
}

@test "refused blocks are forgotten in the sum" {
    caught python applications refused serve/capacity.c 'free_bytes + figures.physical_bytes + figures.failed_bytes' \
        'free_bytes + figures.physical_bytes'
}

@test "more is granted than the card has, though PyTorch has not emptied its cache" {
    caught truth 'not before PyTorch has emptied' grant-early serve/capacity.c 'bool last = asked_again ||' 'bool last = true ||'
}

@test "more is granted than the card has, though a block waits for another stream" {
    caught truth 'not before blocks that wait' grant-pending serve/capacity.c \
        'figure_get(&stats->active_bytes.current) == figure_get(&stats->allocated_bytes.current)' 'true'
}

@test "PyTorch may map more than there is" {
    caught vmm 'runs out at cuMemCreate' could-back serve/capacity.c '!vm_could_back(vm, thread_state.unmapped_handle_bytes + bytes)' 'false'
}

@test "what PyTorch made for the same block before is not counted" {
    caught vmm 'runs out at cuMemCreate' ahead serve/capacity.c 'thread_state.unmapped_handle_bytes + bytes);' 'bytes);'
}

@test "callers of the runtime are not rescued" {
    caught engine '^rescue: what is kept' runtime-rescue hook/calls.c 'forget && retry' 'forget == hook_nothing_to_forget && retry'
}

@test "callers of the driver are not rescued" {
    caught python rescue driver-rescue hook/calls.c 'forget && retry' 'forget != hook_nothing_to_forget && forget && retry'
}

@test "the refusal before a rescue stays the runtime's latest error" {
    caught python rescue latest-error hook/calls.c 'if (rescued)' 'if (false)'
}

# --- when memory goes back ---

@test "each batch of idle pages is an action of its own" {
    caught engine 'a burst is one action' flood govern/decay.c 'burst->latest_ns <= latest_ns ||' 'true ||'
}

@test "only our own thread gives pages back" {
    caught engine 'nearly all is idle' own-thread govern/decay.c 'if (lowvram && !limits.attached_ns)' 'if (false)'
}

@test "where our thread does not run nobody does its work" {
    caught engine 'our thread does not run' no-help govern/decay.c 'else if (lowvram && now_ns > due_ns + LATE_NS)' 'else if (false)'
}

@test "what has just become idle goes at once" {
    caught engine 'our thread does not run' no-linger policy/policy.c 'return ns > (double)settings->quiet_ns ? settings->quiet_ns : (uint64_t)ns;' 'return 0;'
}

@test "pages go back below the threshold too" {
    caught engine 'threshold: idle pages' threshold policy/policy.c 'minus(excess(settings, idle), idle->retained_bytes)' 'idle->attached_bytes'
}

# --- the engine alone ---

# threads_caught CASE NAME SOURCE OLD NEW: the same for threads.c: so many short runs until one ends with a check that does not hold, or
# a segmentation fault.
threads_caught() {
    local mutant status=0 n
    mutant=$(build/vm/mutant "${@:2}")
    for ((n = 0; n < 30 && status == 0; n++)); do
        timeout 60 "$(dirname "$mutant")/threads" 1 "$1" || status=$?
    done
    echo "status $status in run $n"
    [ "$status" = 1 ] || [ "$status" = 139 ]
}

@test "the threshold is not looked at" {
    threads_caught above-threshold above vm/handle_cache.c '(100 - vm->threshold_percent) / 100' '0'
}

@test "memory that another thread is just giving back is not waited for" {
    threads_caught blocks moving vm/commit.c 'bool more = coming || vm->landed != then;' 'bool more = false;'
}

@test "a page that another thread is unmapping is not waited for" {
    threads_caught blocks working vm/commit.c 'if (page->state == PAGE_BUSY && page->attached) {' 'if (false) {'
}

@test "a capture may begin while the GPU is asked" {
    threads_caught captures begins vm/fence.c 'void vm_capture_begin(void) {' 'void vm_capture_begin(void) { return;'
}

@test "the GPU is asked during a capture" {
    threads_caught captures asks vm/fence.c '!(vm->capturing && vm->capturing())' true
}

@test "the GPU is not waited for before a capture" {
    threads_caught capture-nears nears-wait vm/commit.c \
        'if (newly_idle(vm) && vm_idle_bytes(vm) > room_below_threshold(vm, &room))' 'if (false)'
}

@test "the GPU is waited for before each capture" {
    threads_caught capture-nears nears-always vm/commit.c '&& vm_idle_bytes(vm) > room_below_threshold(vm, &room))' ')'
}

@test "before a capture the GPU is not asked where another thread is asking it" {
    threads_caught capture-nears nears-turn vm/fence.c 'while (atomic_load(&vm->fence.taken))' 'while (false)'
}

@test "a further device is let in to later pages only" { threads_caught attachments mapped vm/access.c 'room && open_mapped(vm)' room; }

@test "a page goes while a further device is let in to it" {
    threads_caught attachments opening vm/access.c '.opening = true;' '.opening = false;'
}

@test "a stream that has gone is still asked" {
    threads_caught streams gone vm/fence.c 'vm->streams.going ||' 'false ||'
}

@test "a stream that is being asked goes" {
    threads_caught streams going vm/fence.c '    while (atomic_load(&asking) > 0)
        sched_yield();
    struct question' '    struct question'
}

@test "the addresses of a range go while something is mapped there" {
    threads_caught attach-storm range-goes vm/page_table.c 'if (!segment->filled_count)' 'if (true)'
}

@test "what lies side by side is unmapped extent by extent" {
    threads_caught extents sort vm/unmap.c 'while (i + n < count &&' 'while (false &&'
}

@test "extents reach beyond the pages that are their block's alone" {
    threads_caught inner-pages inner vm/commit.c 'missing_run(block, block->largest, block->inner_end)' \
        'missing_run(block, block->largest, block->segment->page_count)'
}

@test "what shared extents keep for nobody has no bound" {
    threads_caught shared kept vm/commit.c 'vm->table.kept_pages * PAGE_BYTES <= room->total_bytes / KEPT_PART;' 'true;'
}

@test "an extent is as large as its block" {
    threads_caught largest-extent largest vm/commit.c 'min_u64(LARGEST_EXTENT, max_u64(room->total_bytes / DEVICE_PART / PAGE_BYTES, 1))' \
        'room ? LARGEST_EXTENT : 1'
}

@test "after an extent that was refused all are single" {
    threads_caught halved full-halved vm/commit.c 'block->largest = extent.npages / 2;' 'block->largest = 1;'
}

@test "a small block keeps the whole of an idle extent" {
    threads_caught replaced not-replaced vm/commit.c 'partly = is_partly_used(&block);' ';'
}

@test "an idle extent is replaced though the GPU has not finished with it" {
    threads_caught not-replaced replaced-early vm/victim.c 'page->idle_epoch > table->fenced_epoch ||' ''
}

@test "an extent of which PyTorch has given up a part is as what it has in its cache" {
    threads_caught attach-storm part vm/page_table.c 'if (!page->attached || lead->segment->ended)' 'if (lead->segment->ended)'
}

@test "what PyTorch has given up is not used before the driver is asked" {
    threads_caught order given-up vm/commit.c 'size_t retained = vm_decommit_fenced(vm, IDLE_RETAINED, wanted);' 'size_t retained = 0;'
}

@test "more is unmapped though what is cached will do" {
    threads_caught order cached vm/commit.c 'size_t wanted = minus_u64(block->missing, vm->cache.cached_pages);' 'size_t wanted = block->missing;'
}

@test "more is physical than PyTorch has reserved" {
    threads_caught above-reserved exceeds vm/commit.c 'if (!would_exceed(vm, block, wanted) ||' 'if (true ||'
}

@test "the GPU is waited for though no more would be physical than may be" {
    threads_caught above-reserved waits vm/commit.c 'if (!would_exceed(vm, block, wanted) ||' 'if ('
}

@test "lowvram: little blocks wait as well" {
    threads_caught needed little vm/commit.c 'most + most / LITTLE_PART' 'most'
}

@test "lowvram: what was needed once is forgotten" {
    threads_caught needed most vm/commit.c 'vm->most_needed = max_u64(vm->most_needed, block->needed);' ';'
}

@test "what PyTorch has given up stays though PyTorch moves no memory any more" {
    threads_caught decay-at-rest quiet vm/decay.c 'return quiet ? now_ns :' 'return'
}

@test "more of what PyTorch has cached goes back than is above the threshold" {
    threads_caught decay-amount amount vm/decay.c 'minus_u64(most, attached)' 'SIZE_MAX'
}

@test "a trim takes what others than the pool have in their cache" {
    threads_caught decay-of-pool untrimmed vm/page_table.c 'if (!page->segment->range || page->segment->counted)' 'if (false)'
}

# --- expandable segments ---

@test "no stream is known where blocks do not name theirs" {
    caught in_flight 'made before' unknown-streams serve/expandable.c 'stream_follow(device_if_ready(device));' ';'
}

@test "only the default stream is known where blocks do not name theirs" {
    caught in_flight 'made before' default-stream track/stream.c 'vm_stream_add(vm, batch.streams[i]);' ';'
}

@test "streams made after the first segment are not known" {
    caught in_flight 'made after' later-streams track/stream.c 'struct device *device = followed && recording_is_on()' \
        'struct device *device = false'
}

@test "what PyTorch made and has not mapped yet is told to be free" {
    caught vmm 'virtual handles answer' ahead-free serve/capacity.c 'return thread_state.unmapped_handle_bytes +' 'return 0 +'
}

@test "virtual memory counts as held" {
    caught vmm 'held is what is physical' held track/vmm.c '!device || vhandle_is(physical->key)' '!device'
}

@test "what the driver would refuse is granted" {
    caught vmm 'virtual handles answer' kinds serve/expandable.c 'borrowed.possible ? kind_of(properties, &kind)' 'borrowed.possible ? (kind_of(properties, &kind), 0)'
}

@test "virtual handles reach the driver" {
    caught vmm 'virtual handles answer' reach hook/driver_vmm.c 'vhandle_is(h) ? vhandle_export() : real ? real(os' 'real ? real(os'
}

@test "a thread without a context is refused" {
    caught vmm 'virtual handles answer' context-of-thread serve/expandable.c 'borrowed.context = context_primary(device_index(device));' ';'
}
