#!/usr/bin/env bash
# mutant.sh [NAME FILE OLD NEW]: builds libvramgc.so from a src/FILE in which OLD, which must stand there exactly once, is NEW, and
# prints the library's path; where FILE is in src/vm, threads with that engine lies beside it. Without arguments nothing is
# changed. Called through build/vm/mutant, which knows the compiler's options.
set -eu

name=${1:-NONE} file=${2:-vm/fence.c} old=${3:-} new=${4:-}
folder=build/vm-mutants/$name-$$
mkdir -p "$folder"
OLD=$old NEW=$new awk '
    { text = text $0 "\n" }
    END {
        old = ENVIRON["OLD"]
        at = old == "" ? 0 : index(text, old)
        if (old != "" && (!at || index(substr(text, at + length(old)), old))) exit 1
        if (at) text = substr(text, 1, at - 1) ENVIRON["NEW"] substr(text, at + length(old))
        printf "%s", text
    }
' "src/$file" >"$folder/mutant.c" || { echo "mutant.sh: not exactly once in src/$file: $old" >&2; exit 1; }
others=()
for object in $OBJECTS; do
    [[ $object == *"/obj/$file.o" ]] || others+=("$object")
done
# shellcheck disable=SC2086 # these are lists of words
{
    $COMPILE -Wno-unused -Wno-error "-Isrc/$(dirname "$file")" -c "$folder/mutant.c" -o "$folder/mutant.o"
    ${COMPILE%% *} -shared -o "$folder/libvramgc.so" "${others[@]}" "$folder/mutant.o" $LINK
}
# The engine alone as well, with its callers.
if [[ $file == vm/* ]]; then
    engine=("$folder/mutant.o")
    for object in "${others[@]}"; do
        [[ $object != */obj/vm/* && $object != */obj/base/lock.c.o ]] || engine+=("$object")
    done
    # shellcheck disable=SC2086
    ${COMPILE%% *} $CALLERS "${engine[@]}" -o "$folder/threads" -pthread
fi
echo "$folder/libvramgc.so"
