#!/usr/bin/env bats
# Takes the care out of the page engine, one piece at a time, and sees tests fail: so each piece is needed, and the tests can fail.
# bats file_tags=mutants
load common

# caught FILE PATTERN NAME SOURCE OLD NEW: with this change of src/SOURCE the tests of FILE.bats that match the pattern fail. Races
# are lost by chance: so many seeds are tried until one shows it, and all of them again.
caught() {
    local mutant n
    mutant=$(build/vm/mutant "${@:3}")
    for n in 1 2 3 4; do
        run env VRAMGC_LIBRARY="$PWD/$mutant" SEEDS=30 C10DRIVE_PATIENCE_MS=5000 bats --filter "$2" "tests/vm/$1.bats"
        echo "try $n: $output"
        [ "$status" != 1 ] || break
    done
    [ "$status" = 1 ]
    [[ $output == *"not ok"* ]]
}

@test "the mutants are built right: with nothing changed, a mutant passes" {
    run env VRAMGC_LIBRARY="$PWD/$(build/vm/mutant)" SEEDS=1 bats tests/vm/in_flight.bats
    echo "$output"
    [ "$status" = 0 ]
}

@test "the GPU is not waited for" {
    caught in_flight 'four streams' now vm/fence.c \
        '(whole ? REAL(cuCtxSynchronize)() == CUDA_SUCCESS : wait_for_streams(vm, count))' true
}

@test "only one stream is waited for" {
    caught in_flight 'four streams' one-stream vm/fence.c \
        'for (size_t i = 0; over && i < count; i++)' 'for (size_t i = 0; over && i < 1; i++)'
}

@test "events are not asked" { caught in_flight 'four streams' events vm/fence.c 'if (all_passed(vm)) {' 'if (true) {'; }

@test "an event on one stream only" {
    caught in_flight 'four streams' one-event vm/fence.c \
        'for (size_t i = 0; possible && i < fence->streams; i++)' 'for (size_t i = 0; possible && i < 1; i++)'
}

@test "pages are picked whether the GPU has finished or not" {
    caught in_flight 'four streams' tick vm/victim.c \
        'epoch < table->fenced_epoch ? epoch : table->fenced_epoch' 'epoch'
}

@test "a block that waits for another stream keeps its pages whatever happens" {
    caught engine 'waits for another stream makes room' pending-kept serve/device_vm.c \
        '(!capture_active() && leave_pending(event->device, vm)' '(false'
}

@test "a block that waits for another stream loses its pages at once" {
    caught engine 'waits for another stream makes room' pending-gone serve/device_vm.c \
        'mark_idle(vm, batch[i].address, batch[i].bytes, false);' 'mark_idle(vm, batch[i].address, batch[i].bytes, true);'
}

@test "the cache is emptied by a refusal where our thread could" {
    caught python 'outgrows the device' no-thread govern/overcommit.c '!python_may_empty() ||' 'true ||'
}

@test "our thread does not empty the cache" {
    caught python 'outgrows the device' no-flush govern/overcommit.c 'if (!atomic_exchange(&device->overcommitted, true))' 'if (false)'
}

# overcommit_caught PATTERN NAME OLD NEW: the same for what tests/govern has on overcommit.c.
overcommit_caught() { caught ../govern/overcommit "$1" "$2" govern/overcommit.c "$3" "$4"; }

@test "what PyTorch gives up without a retry is not known" {
    overcommit_caught 'one large segment' oversize 'if (may_refuse && gives_up_oversize' 'if (false && gives_up_oversize'
}

@test "large segments of another stream count" { overcommit_caught 'another stream' oversize-stream 'run->stream == oversize->stream' 'true'; }

@test "one large segment counts as enough" {
    overcommit_caught 'too few' oversize-few '>= max_u64(bytes, oversize.least_bytes)' '>= oversize.least_bytes'
}

@test "large segments count for small blocks" { overcommit_caught 'small blocks' oversize-small '|| bytes <= SMALL_SEGMENT_BYTES' ''; }

@test "the cache may grow without bounds" { overcommit_caught 'without large segments' unbounded 'cannot_wait(device, &excess) && may_refuse' 'false'; }

@test "expandable segments may grow without bounds" {
    overcommit_caught 'gives up its cache, once' unbounded-expandable 'cannot_wait(device, &excess) && always_asks_again' 'false && always_asks_again'
    overcommit_caught 'not to be had' live-expandable 'stats.releasable_bytes.current) >= part;' 'stats.releasable_bytes.current) >= 0;'
    caught python 'expandable segments outgrow' stale-memory govern/overcommit.c 'device_free_bytes(device) +' 'atomic_load(&device->free_bytes) +'
}

@test "the error of a block without pages is a plain one" {
    caught engine 'out of memory at a block event' plain-error cuda/errors.c 'find_constructor() && find_type()' 'false'
}

@test "our thread is not woken by what becomes idle" {
    caught engine 'a burst is one action' asleep govern/decay.c 'if (!vm || !excess(' 'if (true || !excess('
}

@test "each batch of idle pages is an action of its own" {
    caught engine 'a burst is one action' flood govern/decay.c \
        'burst->latest_ns <= latest_ns ||' 'true ||'
}

@test "only our own thread gives pages back" {
    caught engine 'nearly all is idle' own-thread govern/decay.c 'due.bytes && !due.linger_ns && help(' 'false && help('
}

@test "where our thread does not run nobody does its work" {
    caught engine 'our thread does not run' no-help govern/decay.c '    else if (since_ns && now_ns >' '    else if (false && now_ns >'
}

@test "what has just become idle goes at once" {
    caught engine 'our thread does not run' no-linger govern/decay.c 'now_ns > since_ns + due.linger_ns + LATE_NS' 'true'
}

@test "pages go back below the threshold too" {
    caught engine 'threshold: idle pages' threshold policy/policy.c 'if (total_bytes == 0 || excess <= 0)' 'if (false)'
}

@test "the device is not let in" {
    caught in_flight 'one stream' open vm/access.c 'page->open_to < run.devices' false
}

@test "a block that waits for another stream counts as free" {
    caught in_flight 'four streams' pending serve/device_vm.c 'if (event->pending)' 'if (false)'
}

@test "what a captured graph uses is not pinned" { caught python graphs pin vm/commit.c 'else if (pin)' 'else if (false)'; }

@test "cudaMemGetInfo says what the driver says" {
    caught python applications free serve/capacity.c \
        'return minus_u64(free_bytes + figures.physical_bytes + figures.failed_bytes,' 'return free_bytes; return minus_u64(0,'
}

@test "refused blocks are forgotten in the sum" {
    caught python applications refused serve/capacity.c 'free_bytes + figures.physical_bytes + figures.failed_bytes' \
        'free_bytes + figures.physical_bytes'
}

@test "the default stream of whichever context is current is asked" {
    caught engine 'work in flight on one' context vm/fence.c \
        'REAL(cuCtxSetCurrent)(vm->context) == CUDA_SUCCESS' 'true'
}

# threads_caught CASE NAME SOURCE OLD NEW: the same for threads.c: so many short runs until one ends with a check that does not hold, or
# a segmentation fault.
threads_caught() {
    local mutant status=0 n
    mutant=$(build/vm/mutant "${@:2}")
    for ((n = 0; n < 60 && status == 0; n++)); do
        timeout 60 "$(dirname "$mutant")/threads" 1 "$1" || status=$?
    done
    echo "status $status in run $n"
    [ "$status" = 1 ] || [ "$status" = 139 ]
}

@test "the threshold is not looked at" {
    threads_caught threshold threshold vm/extent_size.c '(100 - vm->threshold_percent) / 100' '0'
}

@test "memory that another thread is just giving back is not waited for" {
    threads_caught blocks moving vm/commit.c 'in_flight || vm->landed != then' 'false'
}

@test "a page that another thread is unmapping is not waited for" {
    threads_caught blocks working vm/commit.c 'if (page->state == PAGE_BUSY && page->attached) {' 'if (false) {'
}

@test "what is live when a capture begins is not pinned" {
    caught python 'graphs of torch.compile' pin-live vm/page_table.c '.live > 0;' '.live > UINT32_MAX - 1;'
}

@test "a capture may begin while the GPU is asked" {
    threads_caught captures begins vm/fence.c 'void vm_capture_begin(void) {' 'void vm_capture_begin(void) { return;'
}

@test "the GPU is not asked before a capture" {
    caught engine 'idle when it begins' nears-engine hook/calls.c 'serve_capture_prepare();' ';'
    caught vmm 'idle when it begins' nears-vmm hook/calls.c 'serve_capture_prepare();' ';'
}

@test "the GPU is not waited for before a capture" {
    caught vmm 'idle when it begins' nears-wait vm/commit.c 'if (newly_idle(vm) && extent_size_is_short(vm))' 'if (false)'
}

@test "the GPU is waited for before each capture" {
    threads_caught nears nears-always vm/commit.c 'newly_idle(vm) && extent_size_is_short(vm)' 'newly_idle(vm)'
}

@test "before a capture the GPU is not asked where another thread is asking it" {
    threads_caught nears nears-turn vm/fence.c 'while (atomic_load(&vm->fence.taken))' 'while (false)'
}

@test "the GPU is asked during a capture" {
    threads_caught captures asks vm/fence.c '!(vm->capturing && vm->capturing())' true
}

@test "a parked segment is another stream's before the GPU has finished with it" {
    caught engine 'an ended segment' parked vm/page_table.c 'segment->end_epoch > table->fenced_epoch)))' 'false)))'
}

@test "what was revoked for long stays mapped" {
    threads_caught revoked revoked-stays vm/decommit.c 'vm_decommit_detached(vm, epoch);' ';'
}

@test "the addresses of a range go while something is mapped there" {
    threads_caught grants range-goes vm/page_table.c 'if (!segment->filled_count)' 'if (true)'
}

@test "a piece of memory is idle as soon as one block in it has gone" {
    threads_caught revoked piece-idle vm/page_table.c '--lead->used == 0' '(--lead->used, !lead->idle)'
}

@test "a piece of memory lies where another thread is working" {
    threads_caught ahead piece-over vm/commit.c 'block->segment->pages[block->next + count].state == PAGE_EMPTY' 'true'
}

@test "pieces never lie across what is granted at a time" {
    threads_caught revoked across vm/extent_size.c 'limits->end = block->segment->page_count;' ';'
}

@test "pieces in segments are as large as in ranges" {
    threads_caught small in-segments vm/extent_size.c 'limit_in_segment(&block->limits, missing, left, room.total_bytes);' \
        '(void)limit_in_segment;'
}

@test "a further device is let in to later pages only" { threads_caught grants mapped vm/access.c 'room && open_mapped(vm)' room; }

@test "a page goes while a further device is let in to it" { threads_caught grants opening vm/access.c '.opening = true;' '.opening = false;'; }

@test "a stream that has gone is still asked" {
    threads_caught streams gone vm/fence.c 'vm->sync_context || vm->going || ' 'vm->sync_context || '
}

@test "a stream that is being asked goes" {
    threads_caught streams going vm/fence.c '    while (atomic_load(&asking) > 0)
        sched_yield();
    struct question' '    struct question'
}

@test "the last work of a stream that has gone is not waited for" {
    caught python 'streams are destroyed' last-work vm/fence.c 'recorded ? SLOT_GONE : SLOT_FREE;' 'SLOT_FREE;'
}

@test "the default stream is taken for destroyed" {
    caught python 'the default stream' default-goes serve/serve.c 'stream <= STREAM_PER_THREAD' 'stream == UINT64_MAX'
}

@test "blocks freed during a capture count as done with" {
    caught engine 'a block freed during a capture' unsure vm/commit.c 'if (segment && !streams_done)' 'if (false)'
}

@test "callers of the runtime are not rescued" {
    caught python rescue runtime-rescue hook/calls.c 'forget && retry' 'forget == hook_nothing_to_forget && retry'
}

@test "callers of the driver are not rescued" {
    caught python rescue driver-rescue hook/calls.c 'forget && retry' 'forget != hook_nothing_to_forget && forget && retry'
}

@test "the refusal before a rescue stays the runtime's latest error" {
    caught python rescue latest-error hook/calls.c 'if (rescued)' 'if (false)'
}

# --- expandable segments ---

@test "no stream is known where blocks do not name theirs" {
    caught vmm 'in flight: streams made before' unknown-streams serve/expandable.c 'stream_follow(device_if_ready(device));' ';'
}

@test "only the default stream is known where blocks do not name theirs" {
    caught vmm 'in flight: streams made before' default-stream track/stream.c 'vm_stream_add(vm, batch.streams[i]);' ';'
}

@test "streams made after the first segment are not known" {
    caught vmm 'in flight: streams made after' later-streams track/stream.c 'struct device *device = followed && recording_is_on()' \
        'struct device *device = false'
}

@test "PyTorch may map more than there is" {
    caught vmm 'runs out at cuMemCreate' could-back serve/capacity.c '!vm_could_back(vm, thread_state.unmapped_handle_bytes + bytes)' 'false'
}

@test "what PyTorch made for the same block before is not counted" {
    caught vmm 'runs out at cuMemCreate' ahead serve/capacity.c 'thread_state.unmapped_handle_bytes + bytes);' 'bytes);'
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

@test "a small block holds a large piece where memory is short" {
    threads_caught pieces partly vm/commit.c '(vm->under_pressure || vm->lowvram) &&' 'false &&'
}

@test "what lies side by side is unmapped piece by piece" { threads_caught pieces sort vm/decommit.c 'while (i + n < count &&' 'while (false &&'; }

@test "lowvram: the GPU is not waited for before more is held than ever was needed" {
    threads_caught high high-wait vm/commit.c '&& extent_size_exceeded(vm, block, block->limit))' '&& false)'
}

@test "lowvram: the GPU is asked once for a block" {
    threads_caught high high-ask vm/commit.c '!vm_decommit_fenced(vm, block->missing) && extent_size_exceeded' 'extent_size_exceeded'
}

@test "lowvram: little blocks wait as well" {
    threads_caught high high-little vm/extent_size.c 'block->limit += block->limit / LITTLE_PART;' ';'
}

@test "lowvram: where no large piece is to be had a page more is" {
    threads_caught refused high-refused vm/extent_size.c '.cached = 1, .new = 1' '.cached = 1, .new = 0'
}

@test "lowvram: what was needed once is forgotten" {
    threads_caught high high-most vm/extent_size.c 'vm->most_needed = max_u64(vm->most_needed, block->need);' ';'
}

@test "lowvram: the GPU is waited for though more is needed than ever before" {
    threads_caught waits high-need vm/extent_size.c 'block->limit = max_u64(vm->most_needed, block->need);' \
        'block->limit = vm->most_needed;'
}

@test "lowvram: more is unmapped though what is kept will do, or make room" {
    threads_caught waits high-kept vm/extent_size.c 'vm->handle_count - cached +' 'vm->handle_count +'
}

@test "lowvram: pieces are small though memory is plentiful" {
    threads_caught whole whole-part vm/extent_size.c 'block->segment->range && plenty ? 1 : LARGE_PART' 'LARGE_PART'
}

@test "lowvram: pieces are large though memory is short" {
    threads_caught whole whole-short vm/extent_size.c 'block->segment->range && plenty ? 1 : LARGE_PART' \
        'block->segment->range ? 1 : LARGE_PART'
}

@test "expandable segments: the first pieces are as large as those after them" {
    threads_caught growing range-part vm/extent_size.c 'LAST_RANGE_PART : RANGE_PART' 'LAST_RANGE_PART : LARGE_PART'
}

@test "expandable segments: pieces are small though hardly anything of the device is in use" {
    threads_caught growing range-unused vm/extent_size.c '|| left > room->total_bytes - room->total_bytes / UNUSED_PART' ''
}

@test "expandable segments: pieces are small though half of the device is left" {
    threads_caught growing range-early vm/extent_size.c 'left > room->total_bytes / 2' 'false'
}

@test "expandable segments: a large block comes in small pieces" {
    threads_caught growing range-block vm/extent_size.c 'max_u64(most, wanted / LARGE_PART)' 'most'
}

@test "expandable segments: a huge block comes in pieces as a large one" {
    threads_caught growing range-huge vm/extent_size.c '        if (is_huge(room, block))' '        if (false)'
}

@test "expandable segments: a huge block's pieces are as small a part of it as others'" {
    threads_caught growing range-huge-part vm/extent_size.c 'is_huge(room, block) ? LARGE_PART : limits->part_beyond' 'limits->part_beyond'
}

@test "expandable segments: pieces stay as large though little of the device is left" {
    threads_caught last range-last vm/extent_size.c 'LAST_RANGE_PART : RANGE_PART' 'RANGE_PART : RANGE_PART'
}

@test "a full device: after a piece that was refused all are single" {
    threads_caught halved full-halved vm/extent_size.c 'refused / 2' '1'
}

@test "a spare piece is never made" {
    threads_caught spare spare-none vm/extent_size.c 'block->fresh <= block->may_prefetch ? block->fresh : 0' '0'
}

@test "our own thread makes no spare piece" {
    caught engine 'before a block asks for it' no-spares govern/background_thread.c '        prefetch_all();' ''
}

@test "our own thread is not called when there is a spare piece to make" {
    caught vmm 'before a block asks for it' spare-call serve/device_vm.c 'if (UNLIKELY(vm_prefetch_wanted(vm)))
        background_thread_wake();' ''
}

@test "a spare piece that was taken is not made again" {
    threads_caught spare spare-once vm/commit.c 'vm_prefetch_take(vm, made);
        block->fresh = made' 'vm_prefetch_take(vm, made);
        block->fresh = extent.handle ? 0 : made'
}

@test "who looks for what to give back, and finds nothing, wants no spare piece" {
    threads_caught spare spare-unwanted vm/handle_cache.c 'if (want)
        vm_prefetch_cancel' 'vm_prefetch_cancel'
}

@test "a spare piece is made while memory goes back" {
    threads_caught spare spare-back vm/handle_cache.c '        vm_prefetch_cancel(vm);' '        ;'
}

@test "a spare piece is kept for ever" {
    threads_caught spare spare-kept vm/handle_cache.c 'vm->cached[size].count || vm->cached[size].prefetched' 'vm->cached[size].count'
}

@test "two spare pieces of one size" {
    threads_caught spare spare-two vm/prefetch.c 'npages && vm->cached' 'false && vm->cached'
}

@test "a spare piece is made above the threshold" {
    threads_caught no-spare spare-threshold vm/extent_size.c 'max_u64(above_threshold(vm, room), room->total_bytes / PLENTY_PART)' 'room->total_bytes / PLENTY_PART'
}

@test "a spare piece is made where little is left" {
    threads_caught short-spare spare-short vm/extent_size.c 'max_u64(above_threshold(vm, room), room->total_bytes / PLENTY_PART)' 'above_threshold(vm, room)'
}

@test "a spare piece is made where memory was refused" {
    threads_caught budget spare-scarce vm/extent_size.c 'return room->under_pressure ? 0 :' 'return'
}

@test "a block is refused while its memory is a spare piece" {
    threads_caught late-spare spare-race vm/commit.c 'handle = handle ? handle : vm_prefetch_take(vm, 1);' ''
}

@test "a segment is refused while a spare piece is being made" {
    threads_caught late-spare spare-told vm/reserve.c '|| !prefetching ||' '|| true ||'
}

@test "a block is refused while a spare piece is being made" {
    threads_caught late-spare spare-making vm/commit.c 'vm->opening + vm->prefetching +' 'vm->opening +'
}

@test "a full device: what is kept in large pieces goes back to the driver and comes in single ones" {
    threads_caught growing full-kept vm/extent_size.c '    if (vm->lowvram)
        block->limits = extent_size' '    if (true)
        block->limits = extent_size'
}

@test "a full device: all that is kept goes back to the driver for a single page" {
    threads_caught growing full-release vm/commit.c 'vm_cache_trim(vm, 1, 1)' 'vm_cache_trim(vm, still_missing, 1)'
}
