#!/usr/bin/env bash
# mutant.sh CHECK...: builds libvramgc.so from a soft_oom.c without the named checks (UNCACHED, RETRY, ...), each of which is an
# `if` and the line that returns its verdict, and prints the library's path. Called through build/govern/mutant, which knows
# the compiler's options.
set -eu

name=$(IFS=-; echo "${*:-NONE}")
folder=build/govern/without-$name-$$
mkdir -p "$folder"
cp src/govern/soft_oom.c "$folder/soft_oom.c"
for check in "$@"; do
    # The verdict's line and the condition above it, which may take several lines.
    awk -v verdict="return SOFT_OOM_$check;" '
        { lines[NR] = $0 }
        index($0, verdict) { for (i = NR; i > 0; i--) { drop[i] = 1; if (lines[i] ~ /^    if \(/) break } found = 1 }
        END { for (i = 1; i <= NR; i++) if (!drop[i]) print lines[i]; exit !found }
    ' "$folder/soft_oom.c" >"$folder/next.c" || { echo "mutant.sh: no check $check in soft_oom.c" >&2; exit 1; }
    mv "$folder/next.c" "$folder/soft_oom.c"
done
# shellcheck disable=SC2086 # these are lists of words
{
    $COMPILE -c "$folder/soft_oom.c" -o "$folder/soft_oom.o"
    ${COMPILE%% *} -shared -o "$folder/libvramgc.so" $OBJECTS "$folder/soft_oom.o" $LINK
}
echo "$folder/libvramgc.so"
