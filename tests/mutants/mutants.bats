#!/usr/bin/env bats
# Takes the care out of the source, one place at a time, and sees tests fail: so each place is needed, and the tests can fail. The
# places are those of the tables here, *.mutants (see ../README.md). `make mutants-check` builds what this needs.
load ../surroundings

setup() {
    cd "$BATS_TEST_DIRNAME/../.." || exit
    . tests/c10/releases
    export VRAMGC_LIBRARY=$PWD/build/mutants/libvramgc.so C10DRIVE_PATIENCE_MS=5000
}

# Once for all: `all`, or what has changed.
setup_file() {
    cd "$BATS_TEST_DIRNAME/../.." || exit
    scripts/changed >"$BATS_FILE_TMPDIR/files"
    scripts/changed --lines tests/mutants >"$BATS_FILE_TMPDIR/lines"
}

# wanted NAME TEST...: the test is skipped where nothing has changed of the source that the mutant is of, of the tests that see it, or
# of the lines here that name it. `make check-night` skips none.
wanted() {
    local name files=("${@:2}")
    grep -qx all "$BATS_FILE_TMPDIR/files" && return
    for name in ${1//,/ }; do
        grep -qw "$name" "$BATS_FILE_TMPDIR/lines" && return
        files+=("src/$(awk -v name="$name:" '/^[^ #]/ { path = $1 } $1 == name { print path; exit }' tests/mutants/*.mutants)")
    done
    printf '%s\n' "${files[@]}" | grep -qxFf - "$BATS_FILE_TMPDIR/files" || skip 'what it is of, and its test, are as they were'
}

# fails NAME COMMAND...: with this mutant the tests that the command runs fail. On a busy machine one may pass by chance: it is tried
# a few times.
fails() {
    local n
    for n in 1 2 3 4 5 6 7 8; do
        VRAMGC_MUTANT=$1 run "${@:2}"
        echo "try $n: $output"
        [ "$status" = 0 ] || break
    done
    [ "$status" = 1 ]
}

# caught NAME FILE PATTERN: those of FILE.bats in tests/ that match the pattern. What is tagged `python` takes a whole PyTorch, and
# seconds.
caught() {
    wanted "$1" "tests/$2.bats"
    fails "$1" bats --filter "$3" "tests/$2.bats"
    [[ $output == *"not ok"* ]]
}

# each_stream_asked: the driver has no event for a whole context.
each_stream_asked() { export SIMGPU_CONTEXT_EVENT=0; }

# not_caught: the same tests pass.
not_caught() {
    [ -z "$1" ] || wanted "$1" "tests/$2.bats"
    VRAMGC_MUTANT=$1 run bats --filter "$3" "tests/$2.bats"
    echo "$output"
    [ "$status" = 0 ]
    [[ $output == *"ok 1 "* ]]
}

# caught_alone NAME CASE: the same for the engine alone, of which a case takes milliseconds; where many threads race, so many runs of a
# second until a check does not hold, a segmentation fault, or nothing comes of it.
caught_alone() { wanted "$1" tests/vm/*.[ch] && ends_early "$1" build/vm/threads-mutants 1 "$2"; }
caught_pool() { wanted "$1" tests/vm/pool_threads.c && ends_early "$1" build/vm/pool_threads-mutants 1; }
caught_names() { wanted "$1" tests/sanitize/names.c && ends_early "$1" build/sanitize/mutants/names; }

# caught_unit NAME TEST: by tests/unit/test_TEST.c, which is told what time it is.
caught_unit() {
    wanted "$1" "tests/unit/test_$2.c"
    fails "$1" sh -c "build/mutants/unit/test_$2 || exit 1" # it says how many tests fail
    [[ $output == *FAILED* ]]
}

# caught_python NAME TEST: on a whole PyTorch. It fails by an assertion, not because nothing was run.
caught_python() {
    wanted "$1" tests/govern/test_python.py
    fails "$1" build/venv/bin/python -m unittest -k "$2" tests/govern/test_python.py
    [[ $output == *"AssertionError"* ]]
}

ends_early() {
    local status=0 n
    for ((n = 0; n < 20 && status == 0; n++)); do
        VRAMGC_MUTANT=$1 timeout "${patience_s:-60}" "${@:2}" || status=$?
    done
    echo "status $status in run $n"
    [ "$status" = 1 ] || [ "$status" = 124 ] || [ "$status" = 139 ]
}

@test "without a mutant what is built for them passes" {
    local name
    not_caught '' vm/in_flight '^one stream works'
    not_caught '' govern/refuse_not '^uncached: the path'
    for name in blocks streams captures attachments replaced; do build/vm/threads-mutants 1 "$name"; done
    build/vm/pool_threads-mutants 1
    build/sanitize/mutants/names
}

# --- the GPU: vm/fence.c ---

@test "the GPU is not waited for" { patience_s=10 caught_alone gpu_not_waited sleeps-for-nobody; }
@test "only one stream is asked" { caught one_stream_asked vm/in_flight 'cannot tell'; }
@test "events are not asked" { caught_alone events_not_asked not-replaced; }
@test "victims are picked whether the GPU has finished or not" { caught_alone unfenced_victim decay-unfinished; }
@test "what is idle is unmapped beside work, where that waits for kernels" { caught_alone unmaps_beside_work decay-unmaps-at-rest; }
@test "an idle extent is replaced though the GPU has not finished with it" { caught_alone replaced_early not-replaced; }
@test "the default stream of whichever context is current is asked" { caught other_context vm/engine 'work in flight on one'; }
@test "an ended segment is another stream's before the GPU has finished with it" { caught revived_early vm/engine 'an ended segment'; }
@test "a stream that has gone is still asked" { caught_alone gone_stream_asked streams; }
@test "a stream that is being asked goes" { caught_alone asked_stream_goes streams; }
@test "the last work of a stream that has gone is not waited for" { each_stream_asked; caught last_work_forgotten vm/python 'streams are destroyed'; }
@test "the default stream is taken for destroyed" { each_stream_asked; caught default_stream_goes vm/python 'the default stream'; }

# --- which streams are known: expandable segments do not name theirs ---

@test "no stream is known" { caught streams_unknown vm/in_flight 'made before'; }
@test "only the default stream is known" { caught default_stream_only vm/in_flight 'made before'; }
@test "streams made after the first segment are not known" { caught later_streams_unknown vm/in_flight 'made after'; }
@test "streams of a green context are not known" { caught green_streams_unknown vm/in_flight 'green context'; }

# --- captures ---

@test "a stream goes, and a capture begins, only when the GPU was waited for" { caught_alone stream_waits_for_gpu sleeps-for-nobody; }
@test "a capture begins just when the GPU is waited for" { caught_alone capture_while_waiting sleeps-for-nobody; }
@test "the GPU is waited for without end where there is memory still" { caught waits_without_end vm/held 'capture'; }
@test "PyTorch has to empty its cache though it would wait for the GPU" { caught flush_waits vm/held 'mode flush: above'; }
@test "the rest of a reclaim is given up where a GPU is at work" { caught_python rest_given_up test_asked_and_the_rest_of_a_refusal; }
@test "a library waits for PyTorch's cache as long as somebody has the GIL" { caught_python flush_awaited test_another_library; }
@test "a block that never got memory has an owner" { caught_python unbacked_owned test_a_block_that_never_got_memory; }
@test "a library that has the GIL waits for our thread, which needs it" { caught_python gil_awaited test_another_library; }
@test "a capture begins while the GPU is asked" { caught_alone capture_while_asking captures; }
@test "the GPU is asked during a capture" { caught_alone asks_in_capture captures; }
@test "the GPU is not waited for before a capture" { caught_alone capture_not_waited capture-nears; }
@test "the GPU is waited for before each capture" { caught_alone capture_always_waited capture-nears; }
@test "before a capture the GPU is not asked where another thread asks it" { caught_alone poll_out_of_turn capture-nears; }
@test "nobody hears of a capture that is about to begin" { caught capture_not_prepared vm/engine 'idle when it begins'; }
@test "what a captured graph uses is not pinned" { caught capture_not_pinned vm/vmm 'blocks handed out meanwhile'; }
@test "what is live when a capture begins is not pinned" { caught live_not_pinned vm/engine 'what was live when it began'; }

# `vramgc prove` runs the same engine: what it tries beside captures sees that, too.
prove_finds() {
    local n
    wanted "$1" src/prove/soak.c
    for n in 1 2 3 4; do
        VRAMGC_MUTANT=$1 XDG_STATE_HOME=$BATS_TEST_TMPDIR run tests/on_card --mem 1GiB -- build/mutants/vramgc prove --quick
        [[ $output != *"FAILED   soak captures"* ]] || return 0
    done
    echo "$output"
    return 1
}
@test "vramgc prove: an engine that asks in a capture, or pins nothing" { prove_finds asks_in_capture && prove_finds capture_not_pinned; }

# --- past the end of a block ---

@test "what kernels read past the end of a block goes" { caught_alone behind_is_idle behind; }
@test "a block comes without the page behind it" { caught_alone behind_not_mapped behind; }

# --- threads ---

@test "memory that another thread is just giving back is not waited for" { caught_alone landing_not_awaited blocks; }
@test "a page that another thread is unmapping is not waited for" { caught_alone busy_not_awaited blocks; }
@test "an extent lies where another thread is at work" { caught_alone extent_over_busy large; }
@test "a page goes while a further device is let in to it" { caught_alone opening_page_goes attachments; }
@test "a further device is let in to later pages only" { caught_alone mapped_stay_closed large-attachments; }
@test "nobody is let in" { caught_alone never_opened storm; }
@test "the addresses of a range go while something is mapped there" { caught_alone mapped_range_goes attach-storm; }

@test "a page on its way is spun for" { caught_alone page_spun_for sleeps; }
@test "a thread is in the loader's list while another forks" { caught forked_in_list hook/hook 'children that are forked'; }
@test "a forked child reads the loader's list" { caught child_reads_list hook/hook 'children that are forked'; }

# --- the driver refuses, or the machine ---

@test "a refused call is the end" { caught never_again vm/refusals '^cuMemSetAccess is refused once'; }
@test "addresses are asked for once" { caught addresses_asked_once vm/spill '^one refused call'; }
@test "the host is asked once" { caught host_asked_once vm/spill '^one refused call'; }
@test "idle memory stays when a mapping is refused" { caught idle_kept vm/refusals '^idle memory goes back'; }
@test "a reading of the card may be off by the pages that go meanwhile" { caught_alone reading_beside_moves reading-beside; }
@test "a reading is made as often as if it cost nothing" { caught_alone readings_are_cheap readings-cost; }
@test "pages decay while somebody reads the card" { caught_alone decay_beside_readers decay-beside; }
@test "so may what a program is told" { caught_alone told_beside_moves told-beside; }
@test "a reading may be off by what other threads are just allocating" { caught reading_beside_calls hook/hook 'what vramgc has not heard'; }
@test "what was read while memory came or went is an answer" { caught beside_is_answer hook/hook 'came or went is no answer'; }
@test "so is what was read while pages came or went" { caught_alone beside_is_answer reading-answers; }
@test "what a pool has grown by is taken for that of others" { caught grown_pool_is_others hook/hook 'what vramgc has not heard'; }
@test "a full card is taken for one that says nothing" { caught full_as_unknown govern/causes '^nothing is free'; }
@test "an illegal address is told as a lack of memory" { caught refused_as_full vm/refusals '^an illegal address'; }
@test "what cannot be opened stays as it is" { caught closed_pages_stay vm/refusals '^cuMemSetAccess is refused twice'; }
@test "a handle that the driver did not take back is forgotten" { caught handle_forgotten vm/refusals '^what the driver does not take back'; }
@test "a device that does not say what it has left has nothing" { caught unknown_as_none vm/refusals '^questions that are never answered'; }
@test "the trial frees addresses where something is mapped" { caught mapped_freed vm/refusals '^a trial that cannot unmap'; }
@test "a virtual handle is handed out that cannot be mapped" { caught range_without_books vm/refusals '^no memory for books'; }

# --- which memory a block gets ---

@test "what is used in part is idle" { caught_alone idle_in_part not-replaced; }
@test "what lies side by side is unmapped extent by extent" { caught_alone unmapped_one_by_one extents; }
@test "extents reach beyond the pages that are their block's alone" { caught_alone extent_beyond_block inner-pages; }
@test "an extent begins with the page behind another block" { caught_alone behind_in_extent survivors; }
@test "the page behind a block keeps the extent of which it is" { caught_alone behind_keeps_extent survivors; }
@test "an extent is as large as its block" { caught_alone extent_of_any_size largest-extent; }
@test "after an extent that was refused all are single" { caught_alone single_after_refusal halved; }
@test "a small block keeps the whole of an idle extent" { caught_alone never_replaced replaced; }
@test "an extent of which PyTorch has given up a part is as what it has in its cache" { caught_alone part_not_given_up attach-storm; }
@test "what PyTorch has given up is not used before the driver is asked" { caught_alone given_up_not_used order; }
@test "more is unmapped though what is cached will do" { caught_alone cached_not_counted order; }
@test "more is physical than PyTorch has reserved" { caught_alone exceeds_never above-reserved; }
@test "the GPU is waited for though no more would be physical than PyTorch has reserved" { caught_alone exceeds_always above-reserved; }
@test "the threshold is not looked at" { caught_alone no_threshold above-threshold; }

# --- when memory goes back ---

@test "what PyTorch has given up stays however long it is idle" { caught_alone returned_for_ever decay-by-age; }
@test "what PyTorch has given up goes though it has just become so" { caught_alone returned_too_young decay-of-returned; }
@test "for a block the longest idle goes first" { caught_unit oldest_first page_rules; }
@test "a range that ended comes back before the GPU is past it" { caught_unit revived_early page_rules; }
@test "a range that ended is not used again" { caught range_not_again vm/vmm 'had again at the same'; }
@test "memory comes in small pieces though the card is roomy" { caught_alone in_small_pieces roomy; }
@test "memory comes in large pieces though the card is not roomy" { caught_alone always_roomy roomy; }
@test "a card that was full counts as one that never was" { caught_alone never_filled roomy; }
@test "a card that would have been full counts as one that was" { caught_alone full_by_what_is_wanted roomy; }
@test "what lies side by side goes apart" { caught_unit neighbours_apart page_rules; }
@test "memory comes in large pieces though the card has become full" { caught_alone large_though_full roomy; }
@test "extents are no larger where the card is roomy" { caught_alone small_extents roomy; }
@test "more of what PyTorch has cached goes back than is above the threshold" { caught_alone decay_without_bound decay-amount; }
@test "a trim takes what others than the pool have in their cache" { caught_alone trim_takes_all decay-of-pool; }
@test "what was trimmed is kept for ever" { caught_alone trimmed_is_kept decay-of-pool; }
@test "pages go back below the threshold too" { caught_unit below_threshold_too policy_decay; }
@test "what has just become idle goes at once" { caught_unit lowvram_at_once policy_decay; }
@test "what PyTorch has returned stays as long above the threshold" { caught_unit returned_stays policy_decay; }
@test "what is idle since the latest reclaim never arms the threshold" { caught_unit idle_never_arms policy; }
@test "each batch of idle pages is an action of its own" { caught each_batch_told vm/engine 'an action tells all'; }
@test "our thread is not told of what becomes idle" { caught asleep,used_not_noted,idle_not_noted vm/engine 'our own thread hears'; }
@test "our thread is not told of what PyTorch gives up" { caught asleep,used_not_noted,given_up_not_noted vm/engine 'our own thread hears'; }
@test "our thread is not told that more is in use" { caught asleep,used_not_noted vm/engine 'other code takes memory'; }
@test "a thread of ours that only looks when it is told to hears of all" {
    not_caught asleep,used_not_noted vm/engine 'our own thread hears'
    not_caught asleep vm/engine 'other code takes memory'
}
@test "what goes at rest because PyTorch's cache was emptied is not told" { caught flush_untold vm/python 'at rest, above'; }
@test "what lies behind large blocks stays though a request is refused" { caught behind_kept vm/engine 'behind large blocks goes'; }
@test "at rest PyTorch keeps its addresses" { caught addresses_kept_at_rest vm/python 'at rest, above'; }

@test "a pool is trimmed of what the program comes back to" { caught pool_trimmed_to_use govern/pools '^threshold: what the program comes'; }

# --- what PyTorch is told ---

@test "cudaMemGetInfo says what the driver says" { caught free_as_driver_says vm/vmm 'virtual handles answer'; }
@test "a quota library is gone round" { caught interposer_passed govern/mode 'another interposer'; }
@test "access refused once is refused" { caught access_asked_once vm/steps 'access refused'; }
@test "ranges that PyTorch has freed keep their addresses" { caught addresses_kept govern/alloc_conf 'do not keep them'; }
@test "an array's tiles are mapped to a handle that the driver does not know" { caught tiles_reach_driver vm/vmm 'virtual handles answer'; }
@test "what is kept is not free for those who ask" { caught kept_not_free vm/steps 'each call'; }
@test "what PyTorch rounds up has to be there, too" { caught step_backed_whole vm/vmm 'as many blocks fit'; }
@test "what PyTorch rounds up is risked again and again" { caught step_risked_again vm/vmm 'as many blocks fit'; }
@test "the last block is refused for the page behind it" { caught own_behind_kept vm/vmm 'as many blocks fit'; }
@test "what is cached or given up stays where PyTorch tells of a refusal" { caught given_up_beside_refusal vm/python 'says of a refusal'; }
@test "weights are dropped before idle memory" { caught_python weights_before_idle beside_aimdo; }
@test "a tensor of the part around one outlives it" { caught_python outer_is_rogue beside_aimdo; }
@test "a tensor in memory that other code has mapped counts twice" { caught lent_counts_twice govern/pools 'what other code has mapped'; }
@test "blocks that were refused are forgotten in the sum" { caught failed_forgotten vm/python 'applications'; }
@test "what PyTorch made and has not mapped yet is told to be free" { caught made_is_free vm/vmm 'virtual handles answer'; }
@test "more is granted than the card has, though PyTorch has not emptied its cache" { caught granted_early vm/truth 'not before PyTorch'; }
@test "more is granted than the card has, though a block waits for another stream" { caught granted_while_pending vm/truth 'not before blocks that wait'; }
@test "what others have just freed is not seen" { caught readings_last,old_reading vm/truth 'just freed'; }
@test "readings that last do no harm, as a new one is taken before a request is refused" { not_caught readings_last vm/truth 'just freed'; }
@test "PyTorch has emptied its cache, and is refused all the same" { caught retry_not_known vm/truth 'something left'; }
@test "a request is refused by what cuMemGetInfo says, though the driver has the memory" { caught reading_believed vm/hard 'told a tenth'; }
@test "PyTorch may map more than there is" { caught granted_without_limit vm/vmm 'runs out at cuMemCreate'; }
@test "what PyTorch made for the same block before is not counted" { caught made_not_counted vm/vmm 'runs out at cuMemCreate'; }
@test "virtual memory counts as held" { caught virtual_is_held vm/vmm 'held is what is physical'; }
@test "what the driver would refuse is granted" { caught any_kind vm/vmm 'virtual handles answer'; }
@test "virtual handles reach the driver" { caught handle_reaches_driver vm/vmm 'virtual handles answer'; }
@test "a thread without a context is refused" { caught thread_without_context vm/vmm 'virtual handles answer'; }

# --- errors ---

@test "PyTorch's error cannot be raised" { caught no_error_to_raise vm/engine 'has taken what PyTorch has cached'; }
@test "callers of the runtime are not rescued" { caught no_rescue vm/engine '^rescue: what is kept'; }
@test "the refusal before a rescue stays the runtime's latest error" { caught error_not_forgotten vm/python rescue; }

# --- the stream-ordered pool ---

@test "another stream has a block before the GPU is past its end" { caught_pool pool_not_fenced; }
@test "a block belongs to the default stream, whoever gave it back" { caught_pool pool_one_owner; }
@test "the last piece given back does not grow" { caught_pool edge_not_extended; }
@test "pages are not told that a block has left them" { caught pool_never_idle vm/async 'lowvram: idle pages go back'; }
@test "pages are not told that a block lies in them" { caught pool_without_pages vm/async 'fits by its live'; }
@test "PyTorch's figures are those of the driver's pool" { caught pool_use_untold vm/async 'calls that programs'; }
@test "what the pool holds counts as free" { caught pool_is_free vm/async 'calls that programs'; }
@test "another pool is taken for the default one" { caught any_pool vm/async 'calls that programs'; }
@test "memory is handed out to a captured stream" { caught pool_in_capture vm/async 'calls that programs'; }
@test "the driver's pool keeps what a block of ours would need" { caught driver_pool_kept vm/async 'pool keeps goes back'; }
@test "a request in vain fills the card" { caught pool_fills_card vm/async 'in vain'; }
@test "what PyTorch asks the pool twice are two refusals" { caught pool_retry_is_new govern/causes 'one error'; }
@test "a thread without a context stays without" { caught pool_without_context vm/async 'calls that programs'; }

# --- VRAMGC_HEADROOM and VRAMGC_CAP ---

@test "what the limits do not leave is given" { caught gate_open govern/limits '^cap: a card of that size'; }
@test "pages on their way count as nothing" { caught pages_not_counted_yet govern/limits '^compact: a limit that came later'; }
@test "that others grow is not seen" { caught others_not_watched govern/limits '^head-room holds'; }

# --- names and jobs ---

@test "what was idle before our thread had the GIL is emptied" { caught stale_gain govern/figures "^what has become too little"; }
@test "an error after which blocks went counts as work that went on" { caught unwound_goes_on govern/causes '^work that goes on'; }
@test "what PyTorch's cache would have kept without us is told as the driver's refusal" { caught own_as_drivers govern/causes '^a request that'; }
@test "an error after which the cache was emptied counts as work that went on" { caught emptied_goes_on govern/causes '^work that goes on'; }
@test "an error after which the program trimmed the pool counts as work that went on" { caught trimmed_goes_on govern/causes '^cudaMallocAsync: one error'; }
@test "PyTorch catches a refusal itself, and it is an error" { caught_python caught_is_error test_work_that_goes_on; }
@test "errors that something keeps count as work that went on" { caught_python kept_goes_on test_work_that_goes_on; }
@test "an error that Python handles counts as work that went on" { caught_python handled_goes_on test_what_a_refusal_came_from; }
@test "a server's next request counts as work that went on" { caught_python request_goes_on test_what_a_refusal_came_from; }
@test "how much there is to load is not read" { caught_python weights_not_read test_what_a_refusal_came_from; }
@test "the owners of an error stay, though the work went on" { caught_python oom_owners_stay test_work_that_goes_on; }
@test "NVML lists more than is used of a cap" { caught more_listed_than_used govern/limits "NVML's memory"; }
@test "a thread takes addresses that are short" { caught addresses_taken govern/alloc_conf 'reserves none'; }
@test "the program's collector runs in our thread" { caught collector_runs govern/frames 'no hook'; }
@test "the first tensor comes before functions are named" { caught_python first_not_named test_the_first_tensor; }
@test "a function is told by its address alone" { caught_names name_of_another; }
@test "a model that is loaded is a job" { caught load_is_job govern/while_running 'a model that is loaded'; }
@test "of a job only what a look finds is known" { caught job_peak_of_look govern/while_running 'on request each job'; }
@test "a job of which nothing is left ends no sooner" { caught next_job_awaited govern/while_running 'of which nothing is left'; }
@test "a rest between two looks ends no job" { caught rest_not_seen govern/while_running 'of which nothing is left'; }
@test "what the program is at when it ends is no job" { caught last_job_lost govern/while_running 'when it ends'; }

# --- soft out-of-memory: where two checks cover a case both are taken out ---

@test "not the allocator" { caught soft_oom_not_allocator,soft_oom_uncached govern/refuse_not '^not the allocator: an extension'; }
@test "uncached" { caught soft_oom_uncached govern/refuse_not '^uncached: the path without'; }
@test "capturing" { caught soft_oom_capturing govern/refuse_not '^capturing: another stream'; }
@test "retry" { caught soft_oom_retry govern/refuse_not '^retry: a memory fraction'; }
@test "induced" { caught soft_oom_under_way govern/refuse_not '^refused: the same request'; }
@test "expandable" { caught soft_oom_expandable govern/refuse_not '^expandable: a native segment'; }
@test "broken" { C10_VERSIONS=$OLDER_RELEASE caught soft_oom_broken govern/refuse_not '^broken: a refusal became'; }

# --- what is started, and said ---

@test "what a program that was told to stop frees counts as a rest" { caught rest_while_stopping e2e/modes 'told to stop'; }
@test "a thread of ours that Python has ended is waited for" { caught ended_thread_awaited govern/figures 'Python ends our thread'; }
@test "a child between vfork and exec ends for its parent, too" { caught child_ends_parent e2e/lifetime '^vfork: a child'; }
@test "our threads get no stack for what others declare as thread-local" { caught small_stack e2e/store 'thread-local memory'; }
@test "that nothing is put in host memory is not said" { caught spill_unsaid vm/spill 'not proven'; }
@test "a block that never got memory is recorded as live" { caught refused_is_live e2e/whatif 'never got memory'; }
@test "older events go without the blocks that are live then" { caught live_not_carried e2e/whatif 'older ones go'; }
@test "blocks of a MemPool are recorded as of none" { caught pool_untold e2e/whatif 'MemPools'; }
@test "blocks of a captured graph are recorded as of no pool" { caught capture_untold e2e/whatif 'MemPools'; }
@test "a pool that has gone is kept in the record" { caught pool_left_unsaid e2e/whatif 'MemPools'; }
@test "all blocks are recorded as of one stream" { caught of_one_stream e2e/whatif 'what is cut'; }

# --- PyTorch's own steps, kept for a moment: vm/steps.c, serve/expandable.c ---

@test "memory of any kind lies where steps are kept" { caught properties_ignored vm/steps 'each call'; }
@test "a kept step serves two handles" { caught promise_untold vm/steps 'each call'; }
@test "an unmapped step is promised to nobody" { caught step_gone_twice vm/steps 'each call'; }
@test "a step of another size stays in the way" { caught other_step_in_the_way vm/steps 'each call'; }
@test "a step that another process has is kept" { caught shared_forgotten vm/steps 'exported'; }
@test "a step that somebody retains is kept" { caught retained_forgotten vm/steps 'retains'; }
@test "steps are kept though the device was reset" { caught kept_after_reset vm/steps 'each call'; }
@test "kept steps that do not fit stay" { caught more_than_pytorch_had vm/steps 'each call'; }
@test "steps stay though PyTorch does not want them" { C10DRIVE_PATIENCE_MS=3000 caught steps_stay vm/steps 'does not want'; }
@test "kept steps stay though somebody asks for memory" { C10DRIVE_PATIENCE_MS=3000 caught kept_though_asked vm/steps 'somebody asks'; }
@test "what a reclaim gives back is kept" { caught reclaim_kept vm/steps 'asked for'; }
@test "what PyTorch has given up counts for the block that is being made" { caught given_up_still_ahead govern/figures 'a refused page is judged'; }

@test "a program that is gone is asked for memory" { caught dead_peer_lives govern/peers 'was killed'; }
@test "another process of the number is taken for who brings a program back" { caught pid_alone govern/peers 'nobody takes memory'; }
@test "nobody sees that memory is just being taken" { caught gate_untold govern/peers 'just taking'; }
@test "a program that hangs is waited for longer" { caught peer_waited_for govern/peers 'hangs'; }
@test "a program that hangs is waited for again" { caught late_peer_asked govern/peers 'hangs'; }
@test "others give before what is idle here goes" { caught peers_before_own govern/peers 'in vain'; }
@test "others give what will not be enough" { caught asked_in_vain govern/peers 'in vain'; }
@test "what is idle above a cap goes bit by bit" { caught_python spare_cut_off test_limits; }
@test "others give what VRAMGC_CAP forbids" { caught limit_ignored govern/peers 'in vain'; }
@test "what is not hooked wakes no parked program" { caught entry_unseen hook/hook 'every call of the driver wakes'; }
@test "a parked program is asked for memory" { C10DRIVE_PATIENCE_MS=3000 caught parked_gives govern/peers 'a parked program is not asked'; }
@test "another program's file is used" { caught foreign_file_used govern/peers 'left alone'; }
