# What proves that programs on one card that ask each other for memory (govern/peer_programs.h) bear each other's end.

# storm SECONDS OPERATIONS: eight programs ask each other for what they lack, and some are killed meanwhile, at least two in all.
storm() {
    local end=$((SECONDS + $1)) i round=0 killed=0 asked=0 pids=() record all
    all=$(step all "[ \$(ls $BATS_TEST_TMPDIR/ready.* | wc -l) = 8 ]")
    export VRAMGC_MODE=compact VRAMGC_LOG=error
    while [ $killed -lt 2 ] || [ $asked -eq 0 ] || [ $SECONDS -lt $end ]; do
        rm -f "$BATS_TEST_TMPDIR"/ready.*
        for i in 1 2 3 4 5 6 7 8; do # a context needs room
            echo "alloc c 1MiB; $(step "up$i" "touch $BATS_TEST_TMPDIR/ready.$i"); $all;
                random seed=$round$i ops=$2 max=512MiB live=12 fill=1 every=$2" >"$BATS_TEST_TMPDIR/storm.script.$i"
            LD_PRELOAD=${FRONT:+$FRONT:}$library${BEHIND:+:$BEHIND} VRAMGC_OUT=$BATS_TEST_TMPDIR/storm.$round.$i scripts/simgpu --cuda "$(cuda_of "$version")" --mem 8GiB -- \
                build/c10/"$version"/c10drive "$BATS_TEST_TMPDIR/storm.script.$i" >"$BATS_TEST_TMPDIR/storm.out.$i" 2>&1 3>&- &
            pids[i]=$!
        done
        until "$BATS_TEST_TMPDIR/step-all" 2>/dev/null; do sleep 0.01; done
        for i in 1 2 3; do
            sleep 0.$((RANDOM % 5))
            kill -KILL "${pids[RANDOM % 8 + 1]}" 2>/dev/null || true
        done
        for i in 1 2 3 4 5 6 7 8; do
            status=0
            wait "${pids[i]}" 2>/dev/null || status=$?
            record=$BATS_TEST_TMPDIR/storm.$round.$i
            if [ "$status" = 137 ]; then
                killed=$((killed + 1))
            else
                tail -n 3 "$BATS_TEST_TMPDIR/storm.out.$i"
                [ "$status" = 0 ]
                [ -z "$(grep -E 'Sanitizer|runtime error|ERROR' "$BATS_TEST_TMPDIR/storm.out.$i")" ]
                grep -q ' corrupted=0$' "$BATS_TEST_TMPDIR/storm.out.$i"
            fi
            [ ! -e "$record" ] || asked=$((asked + $(build/govern/show "$record" | sed -n 's/^peer_waits //p')))
            rm -f "$record"
        done
        round=$((round + 1))
    done
    echo "rounds=$round killed=$killed asked=$asked"
}
