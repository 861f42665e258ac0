# storm SECONDS OPERATIONS: storm.py on the release in $version.
storm() {
    mkdir -p "$BATS_TEST_TMPDIR/storm"
    STORM_PRELOAD=${FRONT:+$FRONT:}$library${BEHIND:+:$BEHIND} VRAMGC_MODE=compact VRAMGC_LOG=error \
        python3 tests/c10/storm.py "$BATS_TEST_TMPDIR/storm" "build/c10/$version/c10drive" "$(cuda_of "$version")" "$@"
}
