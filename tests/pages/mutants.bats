#!/usr/bin/env bats
# Takes the care out of the page engine, one piece at a time, and sees tests fail: so each piece is needed, and the tests can fail.
load common

# caught FILE PATTERN NAME SOURCE OLD NEW: with this change of src/SOURCE the tests of FILE.bats that match the pattern fail. Races
# are lost by chance: so many seeds are tried until one shows it, and all of them again.
caught() {
    local mutant n
    mutant=$(build/pages/mutant "${@:3}")
    for n in 1 2 3 4; do
        run env VRAMGC_LIBRARY="$PWD/$mutant" SEEDS=30 bats --filter "$2" "tests/pages/$1.bats"
        echo "try $n: $output"
        [ "$status" != 1 ] || break
    done
    [ "$status" = 1 ]
    [[ $output == *"not ok"* ]]
}

@test "the mutants are built right: with nothing changed, a mutant passes" {
    run env VRAMGC_LIBRARY="$PWD/$(build/pages/mutant)" SEEDS=1 bats tests/pages/in_flight.bats
    echo "$output"
    [ "$status" = 0 ]
}

@test "the GPU is not waited for" {
    caught in_flight 'four streams' now pages/settle.c \
        '(whole ? REAL(cuCtxSynchronize)() == CUDA_SUCCESS : wait_for_streams(pages, count))' true
}

@test "only one stream is waited for" {
    caught in_flight 'four streams' one-stream pages/settle.c \
        'for (size_t i = 0; over && i < count; i++)' 'for (size_t i = 0; over && i < 1; i++)'
}

@test "events are not asked" { caught in_flight 'four streams' events pages/settle.c 'if (all_passed(pages)) {' 'if (true) {'; }

@test "an event on one stream only" {
    caught in_flight 'four streams' one-event pages/settle.c \
        'for (size_t i = 0; possible && i < settling->streams; i++)' 'for (size_t i = 0; possible && i < 1; i++)'
}

@test "pages are picked whether the GPU has finished or not" {
    caught in_flight 'four streams' tick pages/pick.c \
        'tick < table->settled_tick ? tick : table->settled_tick' 'tick'
}

@test "a block that waits for another stream keeps its pages whatever happens" {
    caught engine 'waits for another stream makes room' pending-kept record/blocks.c \
        '(!record_capturing() && leave_pending(device)' '(false'
}

@test "a block that waits for another stream loses its pages at once" {
    caught engine 'waits for another stream makes room' pending-gone record/blocks.c \
        'paged_leave(device, batch[i].key, batch[i].bytes, false);' 'paged_leave(device, batch[i].key, batch[i].bytes, true);'
}

@test "the cache is emptied by a refusal where our thread could" {
    caught python 'outgrows the device' no-thread record/overcommit.c '!python_may_empty() ||' 'true ||'
}

@test "our thread does not empty the cache" {
    caught python 'outgrows the device' no-flush record/overcommit.c 'if (!atomic_exchange(&device->overcommitted, true))' 'if (false)'
}

# overcommit_caught PATTERN NAME OLD NEW: the same for what tests/reclaim has on overcommit.c.
overcommit_caught() { caught ../reclaim/overcommit "$1" "$2" record/overcommit.c "$3" "$4"; }

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
    caught python 'expandable segments outgrow' stale-memory record/overcommit.c 'device_free_bytes(device) +' 'atomic_load(&device->free_bytes) +'
}

@test "the error of a block without pages is a plain one" {
    caught engine 'out of memory at a block event' plain-error real/errors.c 'find_constructor() && find_type()' 'false'
}

@test "our thread is not woken by what becomes idle" {
    caught engine 'a burst is one action' asleep record/returns.c 'if (!pages || !excess(' 'if (true || !excess('
}

@test "each batch of idle pages is an action of its own" {
    caught engine 'a burst is one action' flood record/returns.c \
        'burst->latest_ns <= latest_ns ||' 'true ||'
}

@test "only our own thread gives pages back" {
    caught engine 'nearly all is idle' own-thread record/returns.c 'due.bytes && !due.linger_ns && help(' 'false && help('
}

@test "where our thread does not run nobody does its work" {
    caught engine 'our thread does not run' no-help record/returns.c '    else if (since_ns && now_ns >' '    else if (false && now_ns >'
}

@test "what has just become idle goes at once" {
    caught engine 'our thread does not run' no-linger record/returns.c 'now_ns > since_ns + due.linger_ns + LATE_NS' 'true'
}

@test "pages go back below the threshold too" {
    caught engine 'threshold: idle pages' threshold policy/policy.c 'if (total_bytes == 0 || excess <= 0)' 'if (false)'
}

@test "the device is not let in" {
    caught in_flight 'one stream' open pages/open.c 'page->open_to < run.devices' false
}

@test "a block that waits for another stream counts as free" {
    caught in_flight 'four streams' pending record/blocks.c 'if (bytes < 0 && !pending)' 'if (bytes < 0)'
}

@test "what a captured graph uses is not pinned" { caught python graphs pin pages/engine.c 'else if (pin)' 'else if (false)'; }

@test "cudaMemGetInfo says what the driver says" {
    caught python applications free record/paged.c \
        'return minus_u64(free_bytes + figures.physical_bytes + figures.refused_bytes,' 'return free_bytes; return minus_u64(0,'
}

@test "refused blocks are forgotten in the sum" {
    caught python applications refused record/paged.c 'free_bytes + figures.physical_bytes + figures.refused_bytes' \
        'free_bytes + figures.physical_bytes'
}

@test "the default stream of whichever context is current is asked" {
    caught engine 'work in flight on one' context pages/settle.c \
        'REAL(cuCtxSetCurrent)(pages->context) == CUDA_SUCCESS' 'true'
}

# threads_caught CASE NAME SOURCE OLD NEW: the same for threads.c: so many short runs until one ends with a check that does not hold, or
# a segmentation fault.
threads_caught() {
    local mutant status=0 n
    mutant=$(build/pages/mutant "${@:2}")
    for ((n = 0; n < 60 && status == 0; n++)); do
        timeout 60 "$(dirname "$mutant")/threads" 1 "$1" || status=$?
    done
    echo "status $status in run $n"
    [ "$status" = 1 ] || [ "$status" = 139 ]
}

@test "the threshold is not looked at" {
    threads_caught threshold threshold pages/limits.c '(100 - pages->threshold_percent) / 100' '0'
}

@test "memory that another thread is just giving back is not waited for" {
    threads_caught blocks moving pages/engine.c 'moving || pages->moved != then' 'false'
}

@test "a page that another thread is unmapping is not waited for" {
    threads_caught blocks working pages/engine.c 'if (page->state == PAGE_WORKING && page->granted) {' 'if (false) {'
}

@test "what is live when a capture begins is not pinned" {
    caught python 'graphs of torch.compile' pin-live pages/table.c '.live > 0;' '.live > UINT32_MAX - 1;'
}

@test "a capture may begin while the GPU is asked" {
    threads_caught captures begins pages/settle.c 'void pages_capture_begins(void) {' 'void pages_capture_begins(void) { return;'
}

@test "the GPU is not asked before a capture" {
    caught engine 'idle when it begins' nears-engine record/capture.c 'paged_capture_nears((unsigned)device);' ';'
    caught vmm 'idle when it begins' nears-vmm record/capture.c 'paged_capture_nears((unsigned)device);' ';'
}

@test "the GPU is not waited for before a capture" {
    caught vmm 'idle when it begins' nears-wait pages/engine.c 'if (newly_idle(pages) && limits_short(pages))' 'if (false)'
}

@test "the GPU is waited for before each capture" {
    threads_caught nears nears-always pages/engine.c 'newly_idle(pages) && limits_short(pages)' 'newly_idle(pages)'
}

@test "before a capture the GPU is not asked where another thread is asking it" {
    threads_caught nears nears-turn pages/settle.c 'while (atomic_load(&pages->settling.taken))' 'while (false)'
}

@test "the GPU is asked during a capture" {
    threads_caught captures asks pages/settle.c '!(pages->capturing && pages->capturing())' true
}

@test "a parked segment is another stream's before the GPU has finished with it" {
    caught engine 'an ended segment' parked pages/table.c 'segment->end_tick > table->settled_tick)))' 'false)))'
}

@test "what was revoked for long stays mapped" {
    threads_caught revoked revoked-stays pages/unmap.c 'pages_purge_revoked(pages, tick);' ';'
}

@test "the addresses of a range go while something is mapped there" {
    threads_caught grants range-goes pages/table.c 'if (!segment->filled_count)' 'if (true)'
}

@test "a piece of memory is idle as soon as one block in it has gone" {
    threads_caught revoked piece-idle pages/table.c '--lead->used == 0' '(--lead->used, !lead->idle)'
}

@test "a piece of memory lies where another thread is working" {
    threads_caught ahead piece-over pages/engine.c 'block->segment->pages[block->next + count].state == PAGE_EMPTY' 'true'
}

@test "pieces never lie across what is granted at a time" {
    threads_caught revoked across pages/limits.c 'allowed->end = block->segment->page_count;' ';'
}

@test "pieces in segments are as large as in ranges" {
    threads_caught small in-segments pages/limits.c 'limit_in_segment(&block->allowed, missing, left, room.total_bytes);' \
        '(void)limit_in_segment;'
}

@test "a further device is let in to later pages only" { threads_caught grants mapped pages/open.c 'room && open_mapped(pages)' room; }

@test "a page goes while a further device is let in to it" { threads_caught grants opening pages/open.c '.opening = true;' '.opening = false;'; }

@test "a stream that has gone is still asked" {
    threads_caught streams gone pages/settle.c 'pages->whole_context || pages->going || ' 'pages->whole_context || '
}

@test "a stream that is being asked goes" {
    threads_caught streams going pages/settle.c '    while (atomic_load(&asking) > 0)
        sched_yield();
    struct question' '    struct question'
}

@test "the last work of a stream that has gone is not waited for" {
    caught python 'streams are destroyed' last-work pages/settle.c 'recorded ? STREAM_GONE : STREAM_NONE;' 'STREAM_NONE;'
}

@test "the default stream is taken for destroyed" {
    caught python 'the default stream' default-goes record/paged.c 'stream <= STREAM_PER_THREAD' 'stream == UINT64_MAX'
}

@test "blocks freed during a capture count as done with" {
    caught engine 'a block freed during a capture' unsure pages/engine.c 'if (segment && !sure)' 'if (false)'
}

@test "callers of the runtime are not rescued" {
    caught python rescue runtime-rescue hook/calls.c 'forget && record' 'forget == hook_nothing_to_forget && record'
}

@test "callers of the driver are not rescued" {
    caught python rescue driver-rescue hook/calls.c 'forget && record' 'forget != hook_nothing_to_forget && forget && record'
}

@test "the refusal before a rescue stays the runtime's latest error" {
    caught python rescue latest-error hook/calls.c 'if (rescued)' 'if (false)'
}

# --- expandable segments ---

@test "no stream is known where blocks do not name theirs" {
    caught vmm 'in flight: streams made before' unknown-streams record/paged_vmm.c 'streams_follow(device, borrowed.context);' ';'
}

@test "only the default stream is known where blocks do not name theirs" {
    caught vmm 'in flight: streams made before' default-stream record/streams.c 'pages_know_stream(pages, batch.streams[i]);' ';'
}

@test "streams made after the first segment are not known" {
    caught vmm 'in flight: streams made after' later-streams record/streams.c 'struct device *device = followed && record_is_on()' \
        'struct device *device = false'
}

@test "PyTorch may map more than there is" {
    caught vmm 'runs out at cuMemCreate' could-back record/paged_vmm.c '!pages_could_back(pages, wanted_bytes)' 'false'
}

@test "what PyTorch made for the same block before is not counted" {
    caught vmm 'runs out at cuMemCreate' ahead record/paged_vmm.c 'record_thread.pages_ahead_bytes + bytes;' 'bytes;'
}

@test "what PyTorch made and has not mapped yet is told to be free" {
    caught vmm 'virtual handles answer' ahead-free record/paged.c 'record_thread.pages_ahead_bytes +' '0 +'
}

@test "virtual memory counts as held" {
    caught vmm 'held is what is physical' held record/vmm.c '!device || physical->flags & FLAG_VIRTUAL' '!device'
}

@test "what the driver would refuse is granted" {
    caught vmm 'virtual handles answer' kinds record/paged_vmm.c 'borrowed.possible ? kind_of(properties, &kind)' 'borrowed.possible ? (kind_of(properties, &kind), 0)'
}

@test "virtual handles reach the driver" {
    caught vmm 'virtual handles answer' reach hook/driver_vmm.c 'virtual_is(h) ? virtual_export() : real ? real(os' 'real ? real(os'
}

@test "a thread without a context is refused" {
    caught vmm 'virtual handles answer' context-of-thread record/paged_vmm.c 'borrowed.context = record_primary(device_index(device));' ';'
}

@test "a small block holds a large piece where memory is short" {
    threads_caught pieces partly pages/engine.c '(pages->scarce || pages->frugal) &&' 'false &&'
}

@test "what lies side by side is unmapped piece by piece" { threads_caught pieces sort pages/unmap.c 'while (i + n < count &&' 'while (false &&'; }

@test "lowvram: the GPU is not waited for before more is held than ever was needed" {
    threads_caught high high-wait pages/engine.c '&& limits_exceeded(pages, block, block->limit))' '&& false)'
}

@test "lowvram: the GPU is asked once for a block" {
    threads_caught high high-ask pages/engine.c '!pages_purge_settled(pages, block->missing) && limits_exceeded' 'limits_exceeded'
}

@test "lowvram: little blocks wait as well" {
    threads_caught high high-little pages/limits.c 'block->limit += block->limit / LITTLE_PART;' ';'
}

@test "lowvram: where no large piece is to be had a page more is" {
    threads_caught refused high-refused pages/limits.c '.kept = 1, .new = 1' '.kept = 1, .new = 0'
}

@test "lowvram: what was needed once is forgotten" {
    threads_caught high high-most pages/limits.c 'pages->most_needed = max_u64(pages->most_needed, block->need);' ';'
}

@test "lowvram: the GPU is waited for though more is needed than ever before" {
    threads_caught waits high-need pages/limits.c 'block->limit = max_u64(pages->most_needed, block->need);' \
        'block->limit = pages->most_needed;'
}

@test "lowvram: more is unmapped though what is kept will do, or make room" {
    threads_caught waits high-kept pages/limits.c 'pages->handle_count - kept +' 'pages->handle_count +'
}

@test "lowvram: pieces are small though memory is plentiful" {
    threads_caught whole whole-part pages/limits.c 'block->segment->range && plenty ? 1 : LARGE_PART' 'LARGE_PART'
}

@test "lowvram: pieces are large though memory is short" {
    threads_caught whole whole-short pages/limits.c 'block->segment->range && plenty ? 1 : LARGE_PART' \
        'block->segment->range ? 1 : LARGE_PART'
}

@test "expandable segments: the first pieces are as large as those after them" {
    threads_caught growing range-part pages/limits.c 'LAST_RANGE_PART : RANGE_PART' 'LAST_RANGE_PART : LARGE_PART'
}

@test "expandable segments: pieces are small though hardly anything of the device is in use" {
    threads_caught growing range-unused pages/limits.c '|| left > room->total_bytes - room->total_bytes / UNUSED_PART' ''
}

@test "expandable segments: pieces are small though half of the device is left" {
    threads_caught growing range-early pages/limits.c 'left > room->total_bytes / 2' 'false'
}

@test "expandable segments: a large block comes in small pieces" {
    threads_caught growing range-block pages/limits.c 'max_u64(most, wanted / LARGE_PART)' 'most'
}

@test "expandable segments: a huge block comes in pieces as a large one" {
    threads_caught growing range-huge pages/limits.c '        if (is_huge(room, block))' '        if (false)'
}

@test "expandable segments: a huge block's pieces are as small a part of it as others'" {
    threads_caught growing range-huge-part pages/limits.c 'is_huge(room, block) ? LARGE_PART : allowed->part_beyond' 'allowed->part_beyond'
}

@test "expandable segments: pieces stay as large though little of the device is left" {
    threads_caught last range-last pages/limits.c 'LAST_RANGE_PART : RANGE_PART' 'RANGE_PART : RANGE_PART'
}

@test "a full device: after a piece that was refused all are single" {
    threads_caught halved full-halved pages/limits.c 'refused / 2' '1'
}

@test "a spare piece is never made" {
    threads_caught spare spare-none pages/limits.c 'block->fresh <= block->may_spare ? block->fresh : 0' '0'
}

@test "our own thread makes no spare piece" {
    caught engine 'before a block asks for it' no-spares record/ticker.c '        make_spares();' ''
}

@test "our own thread is not called when there is a spare piece to make" {
    caught vmm 'before a block asks for it' spare-call record/paged.c 'if (UNLIKELY(pages_wants_spare(pages)))
        ticker_wake();' ''
}

@test "a spare piece that was taken is not made again" {
    threads_caught spare spare-once pages/engine.c 'pages_take_spare(pages, made);
        block->fresh = made' 'pages_take_spare(pages, made);
        block->fresh = piece.handle ? 0 : made'
}

@test "who looks for what to give back, and finds nothing, wants no spare piece" {
    threads_caught spare spare-unwanted pages/memory.c 'if (want)
        pages_want_no_spare' 'pages_want_no_spare'
}

@test "a spare piece is made while memory goes back" {
    threads_caught spare spare-back pages/memory.c '        pages_want_no_spare(pages);' '        ;'
}

@test "a spare piece is kept for ever" {
    threads_caught spare spare-kept pages/memory.c 'pages->kept[size].count || pages->kept[size].spare' 'pages->kept[size].count'
}

@test "two spare pieces of one size" {
    threads_caught spare spare-two pages/spare.c 'span && pages->kept' 'false && pages->kept'
}

@test "a spare piece is made above the threshold" {
    threads_caught no-spare spare-threshold pages/limits.c 'max_u64(above_threshold(pages, room), room->total_bytes / PLENTY_PART)' 'room->total_bytes / PLENTY_PART'
}

@test "a spare piece is made where little is left" {
    threads_caught short-spare spare-short pages/limits.c 'max_u64(above_threshold(pages, room), room->total_bytes / PLENTY_PART)' 'above_threshold(pages, room)'
}

@test "a spare piece is made where memory was refused" {
    threads_caught budget spare-scarce pages/limits.c 'return room->scarce ? 0 :' 'return'
}

@test "a block is refused while its memory is a spare piece" {
    threads_caught late-spare spare-race pages/engine.c 'handle = handle ? handle : pages_take_spare(pages, 1);' ''
}

@test "a segment is refused while a spare piece is being made" {
    threads_caught late-spare spare-told pages/segment.c '|| !making ||' '|| true ||'
}

@test "a block is refused while a spare piece is being made" {
    threads_caught late-spare spare-making pages/engine.c 'pages->opening + pages->making +' 'pages->opening +'
}

@test "a full device: what is kept in large pieces goes back to the driver and comes in single ones" {
    threads_caught growing full-kept pages/limits.c '    if (pages->frugal)
        block->allowed = limits' '    if (true)
        block->allowed = limits'
}

@test "a full device: all that is kept goes back to the driver for a single page" {
    threads_caught growing full-release pages/engine.c 'pages_release(pages, 1, 1)' 'pages_release(pages, still_missing, 1)'
}
