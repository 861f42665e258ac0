# What the tests of the page engine share: they drive PyTorch's own allocator in mode compact.
load ../c10/drive

setup() {
    begin
    export VRAMGC_MODE=compact SIMGPU_STRICT=report
}

# capture_finds PASSES: idle memory takes the whole card when a capture begins, nobody has asked the GPU about it, and the capture
# wants some. First the GPU has finished with it by then; then it has not, and is waited for once: the simulated one works until it is
# waited for, or asked a second time.
capture_finds() {
    local fill='alloc a 300MiB; alloc b 180MiB stream=1; fill b 2 stream=1; fill a 1; free a; free b;'
    local capture='stream 2; capture_begin; alloc g 200MiB; capture_end; expect num_ooms == 0'
    export VRAMGC_THRESHOLD=100 VRAMGC_TEST_SAMPLE=10s
    "$1" "$fill synchronize; $capture" --mem 768MiB || return 1
    [ "$(fact page_waits)" = 0 ] || return 1
    SIMGPU_ASKED=1000 "$1" "$fill $capture" --mem 768MiB || return 1
    [ "$(fact page_waits)" = 1 ] || return 1
    # Where there is enough it goes on at once.
    SIMGPU_ASKED=1000 "$1" "$fill $capture" --mem 8GiB || return 1
    [ "$(fact page_waits)" = 0 ]
}

# python_says WORDS SCRIPT MEMORY [OPTION-OF-SIMGPU...]: under a whole PyTorch the script of tests/vm/python ends well and says just these
# words; ARGUMENT is its own. Sets errors (but for out-of-memory lines) and facts as `drive` does.
python_says() {
    local ended=0 file=$BATS_TEST_TMPDIR/record.vramgc
    PYTHONPATH=tests/vm/python LD_PRELOAD=$library VRAMGC_OUT=$file \
        timeout 900 tests/on_card --mem "$3" "${@:4}" -- build/venv/bin/python "tests/vm/python/$2.py" ${ARGUMENT:+"$ARGUMENT"} \
        >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" || ended=$?
    cat "$BATS_TEST_TMPDIR/out" "$BATS_TEST_TMPDIR/err"
    errors=$(but_for_ooms <"$BATS_TEST_TMPDIR/err")
    facts=$(build/govern/show "$file")
    [ "$ended" = 0 ]
    [ "$(cat "$BATS_TEST_TMPDIR/out")" = "$1" ]
}
