#!/usr/bin/env bats
# shellcheck disable=SC2154,SC2016,SC2238,SC2034,SC2030,SC2031,SC2209
# What is read and said: report, diff, env, help; good files and bad ones.

load helpers

scenarios='plain fragmented full two-devices unknown observe compact pool pool-idle others others-idle limit'

make() {
    "$make_file" "$@"
}

@test "head-room, a cap, and what programs gave each other: the report, the page, JSON, Prometheus and top tell" {
    local gave='lacked memory, and got 3.0 GiB from llama-server (1234) and others in 4.0 ms'
    local left='head-room: 2.0 GiB stay free for others'
    make shared shared.vramgc
    run "$vramgc" report shared.vramgc
    contains "$(tr -s ' \n' ' ' <<<"$output")" "$gave."
    contains "$(tr -s ' \n' ' ' <<<"$output")" "limits $left; cap: 20.0 GiB at most"
    contains "$output" 'to comfyui (4321), which lacked memory'
    run "$vramgc" report --html shared.vramgc
    contains "$output" "$gave"
    contains "$output" ">$left"
    contains "$output" 'peer: to comfyui (4321)'
    run "$vramgc" report --json shared.vramgc
    for field in '"headroom_bytes": 2147483648' '"cap_bytes": 21474836480' '"giver_pid": 1234' '"giver_name": "llama-server"'; do
        contains "$output" "$field"
    done
    run "$vramgc" export --prometheus shared.vramgc
    contains "$output" '} 2147483648'
    contains "$output" 'vramgc_headroom_bytes{'
    contains "$output" 'vramgc_cap_bytes{'
}

@test "report: the page of each kind of file is as it should be" {
    for scenario in $scenarios hostile; do
        make "$scenario" "$scenario.vramgc"
        run "$vramgc" report "$scenario.vramgc"
        equal "$status" 0
        golden "$scenario.txt" "$(without_version <<<"$output")"
    done
}

@test "report: out of memory that nobody was asked for is told from a full card" {
    make limit limit.vramgc
    equal "$("$vramgc" report --json limit.vramgc | grep -o '"code": "[a-z]*"')" '"code": "limit"'
    make limit-and-full both.vramgc
    run "$vramgc" report both.vramgc
    contains "$output" 'OUT OF MEMORY 3x, last at'
    contains "$output" 'CAUSE    The card is too small for this'
    contains "$(tr -s ' \n' ' ' <<<"$output")" "Of the latest 2 this was the cause 1x, a limit set for PyTorch 1x."
}

@test "report: a limit is named where PyTorch asked nobody, but not where the request alone is larger than the card" {
    make limit limit.vramgc
    contains "$("$vramgc" report limit.vramgc)" ' a limit set for PyTorch
'
    "$make_file" set limit.vramgc refusals[0].request_bytes 30000000000
    run "$vramgc" report limit.vramgc
    contains "$output" 'CAUSE    The request alone, 27.9 GiB, is larger than the card, 24.0 GiB.'
    contains "$output" ' larger than the card
'
    equal "$(grep -c 'limit' <<<"${output%%Details*}")" 0
}

@test "report: in mode compact a request that came later is not told as fragmentation; one earlier entry is one" {
    make fragmented pieces.vramgc
    contains "$("$vramgc" report pieces.vramgc)" ' fragmentation; got later'
    "$make_file" set pieces.vramgc mode compact
    contains "$("$vramgc" report pieces.vramgc)" ' idle memory; got later'
    make many-marks earlier.vramgc
    contains "$("$vramgc" report earlier.vramgc)" '         1 earlier one is in `vramgc report --all`'
}

@test "report: a loop that keeps each tensor is told, with the function, though nothing was ever freed" {
    local words='CAUSE Tensors fill the card, and grow by 1.5 GiB at a time: 9 of these are live, all of gather (video.py:7). DO Do you keep results in a list? Move them to RAM'
    shown() {
        "$vramgc" report pile.vramgc | tr -s ' \n' ' '
    }
    make pile pile.vramgc
    contains "$(shown)" "$words"
    contains "$(shown)" 'a model that is being loaded? Then the card is too small for it.'
    contains "$(shown)" ' tensors that grow'
    "$make_file" set pile.vramgc sites[0].phase 'model move' # its layers are alike
    contains "$(shown)" 'CAUSE The card is full'
    "$make_file" set pile.vramgc sites[0].phase '' devices[0].owners_at_oom.list[0].blocks 12 # they are of other sizes
    contains "$(shown)" 'CAUSE The card is full'
    "$make_file" set pile.vramgc devices[0].owners_at_oom.list[0].blocks 7 # 2.0 GiB each
    contains "$(shown)" 'CAUSE The card is full'
}

@test "report, list: much that is idle at rest is a note on a card with room, and the verdict on one that was short of memory" {
    make rests vramgc-a.1.vramgc
    said=$("$vramgc" report vramgc-a.1.vramgc | tr -s ' \n' ' ')
    contains "$said" ' 1.2 GiB stayed idle at the end. The card was then not over 70 % full, so vramgc left it alone. With --lowvram idle memory goes back at once. '
    contains_not "$said" ' CAUSE '
    contains_not "$said" ' DO '
    contains "$("$vramgc" list)" ' ok '
    "$make_file" set vramgc-a.1.vramgc devices[0].total_bytes 3489660928 # 3.25 GiB
    said=$("$vramgc" report vramgc-a.1.vramgc | tr -s ' \n' ' ')
    contains "$said" \
        'CAUSE PyTorch kept much idle memory at the end: 1.9 GiB for 748 MiB of tensors. vramgc takes it back only while more than 70 % of the card is in use (VRAMGC_THRESHOLD). DO Use `vramgc run --lowvram`'
    contains_not "$said" 'stayed idle'
    contains "$("$vramgc" list)" ' idle '
}

@test "report, list, markdown: when a program ran, and for how long, before its first use of CUDA, too" {
    make plain vramgc-a.1.vramgc
    "$make_file" set vramgc-a.1.vramgc latest_ns 1020000000000 before_ns 12000000000
    contains "$("$vramgc" report vramgc-a.1.vramgc | head -n 1)" ' 2025-01-01 11:59, ran 32.0 s, 20.0 s since CUDA began'
    contains "$("$vramgc" list)" '2025-01-01 11:59  4194305    32.0 s  '
    contains "$("$vramgc" export --markdown vramgc-a.1.vramgc)" '| began | 2025-01-01 11:59 |
| ran | 32.0 s |'
    "$make_file" set vramgc-a.1.vramgc latest_ns 2000000000000
    contains "$("$vramgc" report vramgc-a.1.vramgc | head -n 1)" ', ran 16 m 52 s'
}

@test "report: the picture ends where Python does: what is freed afterwards is no work" {
    make plain plain.vramgc
    "$make_file" set plain.vramgc python_ended_ns 2000000000000
    run "$vramgc" report plain.vramgc
    contains "$output" ' Python ended at 33:20.000
'
    make fragmented jobs.vramgc
    "$make_file" set jobs.vramgc python_ended_ns 310000000000
    run "$vramgc" report --all jobs.vramgc
    contains "$output" ' +-------------------M--------------------------------------R-
' # none of the later ones
    contains "$(sed -n '/^JOBS/,/^$/p' <<<"$output" | tr -s ' ')" ' 3:20.000 0 1 14.0 s 17.0 GiB 18.0 GiB 2.0 GiB 6.0 GiB
 5:00.000 0 2 14.0 s 17.0 GiB 18.0 GiB - -'
    "$make_file" set plain.vramgc python_ended_ns 60000000000 # before there are points for a picture
    run "$vramgc" report plain.vramgc
    equal "$(grep -c '+---' <<<"$output")" 0
}

@test "report: of what crashed before the first look the moment is that of the latest entry, or not known" {
    make plain plain.vramgc
    "$make_file" set plain.vramgc latest_ns 1000000000000 end 2 end_status 9
    contains "$("$vramgc" report plain.vramgc)" 'CRASHED at an unknown moment: SIGKILL.'
    "$make_file" set plain.vramgc host.latest.time_ns 7000000
    contains "$("$vramgc" report plain.vramgc)" 'CRASHED at 0:00.007: SIGKILL.'
}

@test "report: of several errors a process that was asked for after the latest is not the cause of an earlier one" {
    make process-later later.vramgc
    contains "$("$vramgc" report later.vramgc | tr -s ' \n' ' ')" \
        'Another process holds 1.3 GiB of the card (ollama, pid 812). This was the cause 1x, a card that is too small 1x. DO'
}

@test "report: of a program that was killed it says what RAM it had, and whether Linux ended one for lack of it" {
    make killed killed.vramgc
    run "$vramgc" report killed.vramgc
    golden killed.txt "$(without_version <<<"$output")"
    output=$("$vramgc" report --json killed.vramgc)
    contains "$output" '"shared_bytes": 1073741824,'
    contains "$output" '"limit_bytes": 17179869184,'
    contains "$output" '"after_latest": "killed",'
    contains "$output" '"call": "malloc_trim"'
    "$make_file" set killed.vramgc devices[0].stats.pinned_bytes.current 5 # PyTorch itself pins a byte here and there
    output=$("$vramgc" report killed.vramgc | tr -s ' \n' ' ')
    contains "$output" 'Page-locked: 3.0 GiB at the peak, under 1 MiB at the end.'
    contains "$output" 'pinned host memory 3.0 GiB under 1 MiB'
    output=$("$vramgc" export --prometheus killed.vramgc)
    contains "$output" 'slot="0"} 12884901888'
    contains "$output" 'vramgc_host_peak_anon_bytes{'
    make killed-unseen unseen.vramgc
    output=$("$vramgc" report unseen.vramgc | tr -s ' \n' ' ')
    contains "$output" 'CAUSE Linux ended a process of its control group for lack of RAM: `dmesg` tells which. At 1:12:07 the program'
    contains "$output" 'Swapped out at the peak: 3.0 GiB.'
    contains "$output" 'Without observe vramgc would have given back about 3.0 GiB by malloc_trim.'
    make killed-not-for-lack other.vramgc
    output=$("$vramgc" report other.vramgc | tr -s ' \n' ' ')
    contains "$output" 'CAUSE Linux did not end it for lack of RAM. Something else sent SIGKILL'
    contains_not "$output" 'The limit of its control group'
    contains "$output" 'The machine had 40.0 GiB left.'
    contains "$output" 'RAM of the program'
    contains_not "$output" 'Page-locked' # 17 bytes
    contains_not "$output" 'gave back 13 B'
    make plain plain.vramgc # which had little
    equal "$("$vramgc" report plain.vramgc | grep -c '^HOST')" 0
}

# As where a web UI's VAE asks for all of it at once, then works in tiles.
@test "report: who had most at the out-of-memory is in WHO, however little it had at the peak" {
    make other-at-oom other.vramgc
    contains "$("$vramgc" report other.vramgc | sed -n '/^WHO/,/^$/p' | tr -s ' ')" '- 700 MiB text encode encode_prompt'
}

# In the texts of observe and pool-idle, too, nothing is said of it.
@test "report: another card of the machine that had room for all of it is named, with how to use it; one with less is not" {
    "$make_file" other-card card.vramgc
    told=$("$vramgc" report card.vramgc | tr -s '\n ' ' ')
    contains "$told" 'Or use GPU 1, NVIDIA RTX A5000, which has 22.0 GiB free: CUDA_DEVICE_ORDER=PCI_BUS_ID and CUDA_VISIBLE_DEVICES=1'
    "$make_file" other-card-small card.vramgc
    contains_not "$("$vramgc" report card.vramgc | tr -s '\n ' ' ')" 'Or use GPU'
}

@test "report: why much was held is told where the threshold is why" {
    make two-devices threshold.vramgc
    make idle-lowvram lowvram.vramgc
    contains "$("$vramgc" report threshold.vramgc | tr -s ' \n' ' ')" 'only while more than 70 % of the card is in use'
    contains "$("$vramgc" report lowvram.vramgc)" 'much idle memory'
    equal "$("$vramgc" report lowvram.vramgc | grep -c 'reclaims idle memory')" 0
}

@test "report: where what PyTorch keeps idle is little beside what other libraries hold, nothing is advised against it" {
    make others-idle much.vramgc
    make others-mostly little.vramgc
    contains "$("$vramgc" report much.vramgc)" 'DO       Use `vramgc run --lowvram`'
    run "$vramgc" report little.vramgc
    contains "$output" 'VERDICT  No allocation failed'
    contains_not "$output" 'lowvram'
    contains_not "$output" 'vramgc prove` finds out'
}

@test "report: a peak of a short time is told where it nearly filled the card" {
    local words='The peak was short: 7.0 GiB were live around 28:20.000, 6.0 GiB at most in all other time; the largest part beside models was of _decode (models/vae_'
    make short-peak short.vramgc
    contains "$("$vramgc" report short.vramgc | tr -s ' \n' ' ')" "$words"
    make short-peak-resident resident.vramgc
    contains "$("$vramgc" report resident.vramgc | tr -s ' \n' ' ')" "$words"
    make plain plain.vramgc
    contains_not "$("$vramgc" report plain.vramgc)" 'peak was short'
}

@test "report: of a function with a long name, or in such a file, the whole line number is shown" {
    make short-peak short.vramgc
    run "$vramgc" report short.vramgc
    contains "$output" 'model move   forward_comfy_ca.. (sd_models.py:310)'
    contains "$output" 'model move   load_from_st.. (sd_disable_ini..:212)'
    contains "$output" ' in load_from_state_d.. (sd_disable_initialization.py:212), model move'
}

@test "report: a script's own lines are told by its file, not as a function" {
    make script script.vramgc
    run "$vramgc" report script.vramgc
    contains "$output" 'the top level of modules/sd_models.py'
    contains_not "$output" '<module'
}

@test "report: where a model was being loaded as the card became full, a smaller image is no advice" {
    make short-peak short.vramgc
    run "$vramgc" report short.vramgc
    contains "$output" 'CAUSE    The card is full'
    contains "$output" 'DO       A model was being loaded: keep fewer on the card (--medvram).'
}

@test "report: where the VAE asked, its tiles are named" {
    make vae vae.vramgc
    contains "$("$vramgc" report vae.vramgc | tr -s ' \n' ' ')" \
        'DO Make image or batch smaller, or have the VAE work in tiles (the extension Tiled VAE).'
    make vae-rounded vae.vramgc
    contains "$("$vramgc" report vae.vramgc | tr -s ' \n' ' ')" \
        'DO Make the image or the batch a little smaller, or have the VAE work in tiles (the extension Tiled VAE).'
}

@test "report: who asked is told where it was other code than PyTorch's cache" {
    local words="DO Other code than PyTorch's cache asked for it, in load_from_state_dict (sd_disable_initialization.py:212)."
    make other-code known.vramgc
    contains "$("$vramgc" report known.vramgc | tr -s ' \n' ' ')" "$words"
}

@test "report: that a request was granted later has room behind each cause" {
    make short-peak short.vramgc
    contains "$("$vramgc" report short.vramgc)" 'not enough memory; got later
'
}

# Of several processes the largest is not always the one that ran out of memory: full's devices hold as much as plain's.
@test "report: of several processes the page shows the one where memory ran out, else the one that held most" {
    make plain first.vramgc pid 11
    make plain second.vramgc pid 12
    make full third.vramgc pid 13
    contains "$("$vramgc" report first.vramgc second.vramgc)" 'What follows is number 1 of these, pid 11, which held most.'
    contains "$("$vramgc" report first.vramgc second.vramgc third.vramgc)" 'What follows is number 3 of these, pid 13, where memory ran out.'
    contains "$("$vramgc" report first.vramgc second.vramgc third.vramgc)" 'NO ROOM'
}

@test "report: the JSON of each kind of file is as it should be" {
    for scenario in fragmented unknown; do
        make "$scenario" "$scenario.vramgc"
        run "$vramgc" report --json "$scenario.vramgc"
        equal "$status" 0
        golden "$scenario.json" "$(without_version <<<"$output")"
    done
}

@test "report: every kind of JSON is valid by the schema" {
    python=$top/build/venv/bin/python
    "$python" -c 'import jsonschema' 2>/dev/null || python=python3
    "$python" -c 'import jsonschema' 2>/dev/null || skip "SKIPPED: Python's jsonschema is not there"
    for scenario in $scenarios hostile; do
        make "$scenario" "$scenario.vramgc"
    done
    "$vramgc" report --json ./*.vramgc >all.json
    FAKE_CUDA=true "$vramgc" run --no-summary --json run.json true
    "$vramgc" run --no-summary --json none.json true
    "$python" - "$top/src/show/schema.json" all.json run.json none.json <<'PYTHON'
import copy, json, sys, jsonschema
schema = json.load(open(sys.argv[1]))
jsonschema.Draft202012Validator.check_schema(schema)
check = jsonschema.Draft202012Validator(schema)
for name in sys.argv[2:]:
    check.validate(json.load(open(name)))
report = json.load(open(sys.argv[2]))
for spoil in (lambda r: r["processes"][0].pop("pid"),
              lambda r: r["processes"][0]["devices"][0]["held_bytes"].update(peak="much"),
              lambda r: r["processes"][1]["actions"][0].pop("kind")):
    spoiled = copy.deepcopy(report)
    spoil(spoiled)
    assert not check.is_valid(spoiled), "the schema accepts what it must not"
PYTHON
}

@test "help schema: the checked-in schema is what the program writes (else: make schema)" {
    "$vramgc" help schema >schema.json
    diff -u "$top/src/show/schema.json" schema.json
}

@test "report: pages are at most 80 columns wide, but for commands to paste" {
    for scenario in $scenarios hostile; do
        make "$scenario" "$scenario.vramgc"
        widest=$("$vramgc" report "$scenario.vramgc" | grep -v '^Details\|^Picture\|^Compare' |
            LC_ALL=C.UTF-8 awk '{ if (length($0) > n) n = length($0) } END { print n }')
        [ "$widest" -le 80 ]
    done
}

@test "report: the table adds up" {
    make plain p.vramgc
    "$vramgc" report --json p.vramgc | python3 -c '
import json, sys
d = json.load(sys.stdin)["processes"][0]["devices"][0]
for name in ("division_at_peak", "division_at_end"):
    part = d[name]
    assert part["held_bytes"] + part["others_bytes"] + part["free_bytes"] == d["total_bytes"], part
assert d["division_at_peak"]["held_bytes"] == d["held_bytes"]["peak"]'
}

@test "report: nothing in a file can steer the terminal" {
    make hostile h.vramgc
    for form in --text --all --json; do
        "$vramgc" report $form h.vramgc >out
        equal "$(LC_ALL=C grep -c '[^[:print:]]' out)" 0
    done
}

@test "report: a running process is told from one that is gone" {
    sleep 60 &
    pid=$!
    make plain r.vramgc pid "$pid"
    run "$vramgc" report r.vramgc
    contains "$output" 'still running'
    contains "$output" ' now'
    run "$vramgc" report --json r.vramgc
    contains "$output" '"how": "running"'
    kill "$pid"
    wait "$pid" || true
    run "$vramgc" report r.vramgc
    contains "$output" 'killed, or crashed'
}

@test "report: a process that has ended runs no more, though nobody has waited for it" {
    python3 -c 'import os, time
child = os.fork()
if child == 0:
    time.sleep(0.2)
    os._exit(0)
os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
open("child", "w").write(str(child))
time.sleep(60)' &
    parent=$!
    until [ -s child ]; do sleep 0.02; done
    make plain r.vramgc pid "$(cat child)"
    run "$vramgc" report r.vramgc
    kill "$parent"
    contains "$output" 'killed, or crashed'
}

@test "report: bad files are told in one line each, with status 1" {
    make plain good
    head -c 100000 good >cut
    head -c 20 good >stub
    : >empty
    echo 'import torch' >foreign
    cp good version && printf '\x07\0\0\0' | dd of=version bs=1 seek=8 conv=notrunc status=none
    cp good order && printf '\0\0\0\x01' | dd of=order bs=1 seek=8 conv=notrunc status=none
    head -c 1000000 good >older && printf '\x40\x42\x0f' | dd of=older bs=1 seek=16 conv=notrunc status=none # 1,000,000
    cp good damaged && printf '\x07' | dd of=damaged bs=1 seek=16 conv=notrunc status=none
    mkdir folder
    mkfifo pipe
    while IFS='|' read -r file words; do
        run_apart timeout 60 "$vramgc" report "$file"
        equal "$status" 1
        equal "$output" ''
        one_line "$errors"
        contains "$errors" "vramgc: $file: $words"
    done <<'TABLE'
missing|cannot be read: No such file or directory; `vramgc list` shows what is kept
empty|not a statistics file of vramgc
foreign|not a statistics file of vramgc
stub|cut short: 20 of
cut|cut short: 100000 of
version|written in format 7; this vramgc
order|written on a machine with another byte order
older|written by another build than this vramgc (
damaged|written by another build than this vramgc (
folder|not a regular file
pipe|not a regular file
/dev/zero|not a regular file
TABLE
}

@test "report: of good and bad files together the good ones are shown, with status 1" {
    make plain good
    echo x >bad
    run_apart "$vramgc" report --json bad good
    equal "$status" 1
    one_line "$errors"
    equal "$(python3 -c 'import json, sys; print(len(json.load(sys.stdin)["processes"]))' <<<"$output")" 1
}

@test "report: -o writes a whole file, replaces only its own kind, and leaves nothing behind" {
    make plain p.vramgc
    "$vramgc" report --json -o out p.vramgc
    "$vramgc" report -o out p.vramgc
    contains "$(cat out)" VERDICT
    echo precious >mine
    run_apart "$vramgc" report -o mine p.vramgc
    equal "$status" 1
    one_line "$errors"
    equal "$(cat mine)" precious
    run "$vramgc" report -o p.vramgc p.vramgc
    equal "$status" 1
    "$vramgc" report p.vramgc >/dev/null
    "$vramgc" report -f -o mine p.vramgc
    contains "$(cat mine)" VERDICT
    ln -s out link
    "$vramgc" report -o link p.vramgc
    [ -L link ]
    equal "$(echo ./*)" './link ./mine ./out ./p.vramgc'
}

# plant TARGET LINK: a link of another user, as anybody can put one into /tmp.
plant() {
    [ "$(id -u)" -eq 0 ] || skip "only root can make a link of another user"
    ln -s "$1" "$2" && chown -h 65534 "$2"
}

@test "report: -o does not write through a link that another user has planted" {
    make plain p.vramgc
    "$vramgc" report -o victim p.vramgc
    cp victim before
    plant "$PWD/victim" out
    run_apart "$vramgc" report --all -o out p.vramgc
    equal "$status" 1
    one_line "$errors"
    contains "$errors" 'out is a link that is not followed: Operation not permitted'
    cmp victim before
    plant missing dangling
    run "$vramgc" report -f -o dangling p.vramgc
    equal "$status" 1
    [ ! -e missing ]
    ln -s out through # our own link, which leads to it
    run "$vramgc" report --all -o through p.vramgc
    equal "$status" 1
    cmp victim before
    ln -s round round
    run_apart "$vramgc" report -o round p.vramgc
    equal "$status" 1
    contains "$errors" 'Too many levels'
}

@test "report: -o writes to the file that our own links lead to, wherever that is" {
    make plain p.vramgc
    mkdir there
    ln -s there/link link
    ln -s out there/link
    "$vramgc" report -o link p.vramgc
    contains "$(cat there/out)" VERDICT
    equal "$(echo ./* there/*)" './link ./p.vramgc ./there there/link there/out'
    "$vramgc" report -o /dev/stdout p.vramgc >shown
    contains "$(cat shown)" VERDICT
    contains "$("$vramgc" report -o /dev/stdout p.vramgc | cat)" VERDICT
}

@test "report: a file with the name of the temporary one is left alone" {
    make plain p.vramgc
    bash -c 'echo precious >out.$$.0.tmp; exec "$@"' - "$vramgc" report -o out p.vramgc
    contains "$(cat out)" VERDICT
    equal "$(cat out.*.tmp)" precious
}

@test "report, diff: names from outside do not steer the terminal, wherever they are shown" {
    make plain p.vramgc
    cp p.vramgc "$(printf 'p\033[2J.vramgc')"
    local bad
    bad=$(printf '\033[2J\342\200\256\342\200\217x')
    "$vramgc" report "$bad" >out 2>&1 || true
    "$vramgc" report "p"*J.vramgc >>out 2>&1
    "$vramgc" "$bad" >>out 2>&1 || true
    "$vramgc" report "--$bad" >>out 2>&1 || true
    "$vramgc" diff --as "$bad,$bad" p.vramgc p.vramgc >>out 2>&1
    "$vramgc" run "$bad" >>out 2>&1 || true
    "$vramgc" run --json "$bad/x" true >>out 2>&1 || true
    VRAMGC_MODE=$bad "$vramgc" run --verbose -o "$bad" true >>out 2>&1
    "$vramgc" run --mode "$bad" true >>out 2>&1 || true
    contains "$(cat out)" '?[2J??x'
    equal "$(LC_ALL=C grep -c '[^[:print:]]' out)" 0
}

@test "report: -o without the name of a file is told" {
    make plain p.vramgc
    run "$vramgc" report -o '' p.vramgc
    equal "$status" 1
    contains "$output" 'is not the name of a file to be written'
}

@test "report: a full disk is told" {
    [ -c /dev/full ] || skip "SKIPPED: no /dev/full here"
    make plain p.vramgc
    run_apart "$vramgc" report -o /dev/full p.vramgc
    equal "$status" 1
    contains "$errors" 'cannot be written'
    status=0
    "$vramgc" report p.vramgc >/dev/full 2>errors || status=$?
    equal "$status" 1
    one_line "$(cat errors)"
    for command in help env 'top --plain --once' "diff p.vramgc p.vramgc"; do
        status=0
        # shellcheck disable=SC2086
        VRAMGC_OUT=auto "$vramgc" $command >/dev/full 2>errors || status=$?
        equal "$status" 1
        equal "$(tail -n 1 errors)" 'vramgc: standard output cannot be written'
    done
}

@test "report: wrong calls are 2" {
    touch launch.py start.sh
    ln -s "$(command -v python3)" "$work/bin/python"
    export PATH=$work/bin:$PATH
    script webui.sh <<<:
    run "$vramgc"
    equal "$status" 2
    run_apart "$vramgc" reprot x
    equal "$status" 2
    equal "$errors" 'vramgc: reprot is not a command; did you mean `vramgc report`?'
    while IFS='|' read -r typed told; do
        # shellcheck disable=SC2086
        run_apart "$vramgc" $typed
        equal "$status:$errors" "2:vramgc: $told"
    done <<'TABLE'
start.sh x|start.sh is no command of vramgc; did you mean: vramgc run bash start.sh x
webui.sh x|webui.sh is no command of vramgc; did you mean: vramgc run ./webui.sh x
bash launch.py --api|bash is no command of vramgc; did you mean: vramgc run bash launch.py --api
./webui.sh --api|./webui.sh is no command of vramgc; did you mean: vramgc run ./webui.sh --api
launch.py|launch.py is no command of vramgc; did you mean: vramgc run python launch.py
no-such-program x|no-such-program is not a command; see `vramgc help`
--lowvram sh|--lowvram stands before the command of vramgc; see `vramgc help`, or: vramgc run --lowvram COMMAND
list x|x is too much; `vramgc list` takes options only
env -t 60 x|x is too much; `vramgc env` takes options only
prove --quick x|x is too much; `vramgc prove` takes options only
diff -ax|-x is not an option of `vramgc diff`; see `vramgc help diff`
env -mode flush|-mode is not an option of `vramgc env`; did you mean --mode?
export --every|--every needs a value: DURATION; see `vramgc help export`
report --html=1|--html takes no value; see `vramgc help report`
TABLE
    # What a newcomer types, and how it is done: the command that is named is one, and takes that option.
    while IFS='|' read -r typed told; do
        for word in $typed; do
            run_apart "$vramgc" "$word" # of some there is a program in PATH
            equal "$status:$errors" "2:vramgc: $word is not a command; $told"
            run_apart "$vramgc" help "$word"
            [ "$status" -eq 0 ] || equal "$status:$errors" "2:vramgc: there is no help on $word; $told" # log is a setting
        done
        while read -r command option; do
            case $command in '' | *COMMAND*) continue ;; help) "$vramgc" help "$option" >/dev/null ;; *) contains "$("$vramgc" help "$command")" "${option:-$command}" ;; esac
        done < <(grep -o '`vramgc [^`]*`' <<<"$told" | tr -d '`' | sed 's/^vramgc //; s/ PID$//; s/ COMMAND$//')
    done <<'TABLE'
status ps monitor dashboard memory vram usage|did you mean `vramgc top`?
stats show summary STATS|did you mean `vramgc report`?
log logs|did you mean `vramgc report --all`?
open view html web page browser|did you mean `vramgc report --open`?
start launch exec|did you mean `vramgc run COMMAND`?
test|did you mean `vramgc prove`?
check info install|did you mean `vramgc doctor`?
config options environment variables|did you mean `vramgc help settings`?
modes observe compact auto|did you mean `vramgc help VRAMGC_MODE`?
prometheus grafana csv markdown perfetto|did you mean `vramgc help export`?
clean clear free gc flush empty release|vramgc gives idle memory back by itself; `vramgc park PID` moves all of a program to RAM
stop kill end quit|vramgc cannot do that; press Ctrl-C where the program runs
TABLE
    equal "$("$vramgc" version)" "$("$vramgc" -V)"
    run_apart "$vramgc" help anything
    equal "$status" 2
    contains "$errors" 'there is no help on anything; there is on each command, setting and figure, and on settings, metrics'
    for topic in settings metrics json schema alerts man; do "$vramgc" help "$topic" >/dev/null; done
    run_apart "$vramgc" report --jsno x
    equal "$status" 2
    contains "$errors" 'did you mean --json?'
    run "$vramgc" diff x
    equal "$status" 2
    run "$vramgc" env x
    equal "$status" 2
    run "$vramgc" help nothing
    equal "$status" 2
}

@test "a name that resembles none is not taken for another" {
    run "$vramgc" run --bogus true
    contains_not "$output" 'did you mean'
    VRAMGC_FOO=1 run "$vramgc" run true
    contains_not "$output" 'did you mean'
    VRAMGC_TRESHOLD=1 run "$vramgc" run true
    contains "$output" 'did you mean VRAMGC_THRESHOLD?'
}

@test "a size without its unit, and a value without its =, are told" {
    run "$vramgc" run --spill 3 true
    equal "$status" 125
    contains "$output" '--spill 3 lacks its unit: KiB, MiB or GiB'
    run "$vramgc" run --lowvram 1 true
    equal "$status" 125
    contains "$output" 'a value goes with its option: --lowvram=1'
}

@test "report: a terminal gets its width and bold headings, a pipe 80 plain columns" {
    make two-devices t.vramgc
    for setting in NO_COLOR= NO_COLOR=1; do
        env "$setting" TERM=xterm python3 - "$vramgc" report t.vramgc >seen <<'PYTHON'
import fcntl, os, pty, struct, sys, termios
pid, terminal = pty.fork()
if pid == 0:
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    os.execv(sys.argv[1], sys.argv[1:])
seen = b""
try:
    while chunk := os.read(terminal, 65536):
        seen += chunk
except OSError:
    pass
sys.stdout.buffer.write(seen.replace(b"\r", b""))
PYTHON
        if [ "$setting" = NO_COLOR=1 ]; then
            equal "$(grep -c $'\033' seen)" 0
            sed '/^$/q' seen | grep -qE '^.{81}'
        else
            contains "$(cat seen)" $'\033[1mVERDICT'
        fi
    done
}

@test "diff: two files side by side: what became of each, and the figures that matter" {
    make plain a.vramgc
    make two-devices b.vramgc
    run "$vramgc" diff a.vramgc b.vramgc
    equal "$status" 0
    golden diff.txt "$output"
    make fragmented c.vramgc
    "$vramgc" diff a.vramgc c.vramgc >out
    sed -n 7,11p out | tr '\n' ' ' | grep -q 'OUT OF MEMORY 2x, .* were lacking'
    equal "$(sed '1,/change$/d; /^$/d; /^GPU/d; /^All/d; /^live at/,$d' out | wc -l)" 11
    grep -qE '^out of memory, times +0 +2 +$' out # as the verdict says
    grep -qE '^live, at the end +1.8 GiB +1.8 GiB' out
    equal "$(tail -n 1 out)" 'Times are of one run each: repeat before you judge them.'
    grep -qE '^  load_model +0 B +5.0 GiB ' out
    make fragmented d.vramgc
    sed -i 's/load_model/move_model/' d.vramgc # as long as the other
    "$vramgc" diff c.vramgc d.vramgc >out
    grep -qE '^  load_model +5.0 GiB +0 B +-100 %$' out
    grep -qE '^  _decode +1.6 GiB +1.6 GiB +=$' out
    grep -qE '^  move_model +0 B +5.0 GiB ' out
    equal "$(sed -n '/^live at/,/^$/p' out | wc -l)" 5
    equal "$(grep -cE 'mean of block events' out)" 0
    run "$vramgc" diff --all a.vramgc a.vramgc
    contains "$output" 'pinned_bytes, peak'
    contains_not "$output" 'managed_bytes' # 0 in both
    contains "$output" 'mean of block events'
    run_apart "$vramgc" diff a.vramgc missing
    equal "$status" 1
    one_line "$errors"
}

@test "diff: functions of one name are told apart, by file, folder or phase; one is in one row" {
    make fragmented a.vramgc
    rows() { "$vramgc" diff a.vramgc a.vramgc | sed -n '/^live at/,/^$/p' | sed '1d; /^$/d; s/  *=$//' | tr -s ' '; }
    equal "$(rows)" ' load_model 5.0 GiB 5.0 GiB
 _decode 1.6 GiB 1.6 GiB'
    "$make_file" set a.vramgc 'sites[0].function' _decode
    equal "$(rows)" ' _decode (sd_models.py:310) 5.0 GiB 5.0 GiB
 _decode (vae_é.py:88) 1.6 GiB 1.6 GiB'
    "$make_file" set a.vramgc 'sites[0].file' models/vae_é.py 'sites[0].line' 88
    equal "$(rows)" ' _decode (models/vae_é.py:88) 5.0 GiB 5.0 GiB
 _decode (models/vae_é.py:88), VAE
 1.6 GiB 1.6 GiB'
    "$make_file" set a.vramgc 'sites[0].phase' VAE
    equal "$(rows)" ' _decode 6.6 GiB 6.6 GiB'
    "$make_file" set a.vramgc 'sites[0].file' other/vae_é.py
    equal "$(rows)" ' _decode (other/vae_é.py:88) 5.0 GiB 5.0 GiB
 _decode (models/vae_é.py:88) 1.6 GiB 1.6 GiB'
    "$make_file" set a.vramgc 'sites[0].file' a/folder/with/a/long/name/vae_é.py
    equal "$(rows)" ' _decode (a/folder/with/a/long/name/vae_é.py:88)
 5.0 GiB 5.0 GiB
 _decode (models/vae_é.py:88) 1.6 GiB 1.6 GiB'
}

@test "report: who asked for what was refused comes first, before who had most" {
    make fragmented a.vramgc
    run "$vramgc" report a.vramgc
    contains "$(tr -s ' \n' ' ' <<<"$output")" '1.5 GiB wanted by encode_prompt (sd/pipeline.py:212), 700 MiB free.'
    equal "$(grep -oE '^(VERDICT|MOST)' <<<"$output" | tr '\n' ' ')" 'VERDICT MOST '
}

@test "report: what an ended program held last is told to be gone; of one that runs, or held nothing, nothing is" {
    local gone='all that the program held was freed when it ended'
    make plain a.vramgc
    contains "$("$vramgc" report a.vramgc)" "$gone"
    contains "$("$vramgc" report --html -o - a.vramgc)" "$gone"
    make plain runs.vramgc pid $$
    contains_not "$("$vramgc" report runs.vramgc)" "$gone"
    "$make_file" set a.vramgc devices[0].stats.held_bytes.current 0
    contains_not "$("$vramgc" report a.vramgc)" "$gone"
}

@test "report: what was held for tensors is told where it was more than these, and with --all" {
    make plain a.vramgc
    contains "$("$vramgc" report a.vramgc)" 'PyTorch held for each byte of tensors: 1.10 at the peaks, 1.20 on average'
    "$make_file" set a.vramgc devices[0].stats.live_bytes.peak $((7885 << 20)) devices[0].stats.held_ms_sum_kib 0 \
        devices[0].stats.live_ms_sum_kib 0
    contains_not "$("$vramgc" report a.vramgc)" 'PyTorch held for'
    contains "$("$vramgc" report --all a.vramgc)" 'PyTorch held for each byte of tensors: 1.00 at the peaks'
}

@test "report: a peak of pieces for a request that then did not fit is told as that, on a full card alone" {
    local words='220 MiB of the peak was for a request that did not fit, and went back at once'
    make full a.vramgc
    contains_not "$("$vramgc" report a.vramgc)" 'of the peak was'
    "$make_file" set a.vramgc devices[0].total_bytes $((8900 << 20))
    contains "$("$vramgc" report a.vramgc)" "$words"
    "$make_file" set a.vramgc devices[0].stats.reserved_bytes.peak $((8100 << 20))
    contains_not "$("$vramgc" report a.vramgc)" 'of the peak was'
}

@test "report: where the card is not proven, DO says what proving would make possible" {
    make fragmented a.vramgc
    contains_not "$("$vramgc" report a.vramgc)" 'vramgc prove'
    "$make_file" set a.vramgc needs_proof 1
    contains "$("$vramgc" report a.vramgc | tr -s ' \n' ' ')" \
        'offload models (--medvram). Or run `vramgc prove`, a minute: if it passes, --spill 950MiB may let this request go on, slowly. Against fragmentation `vramgc prove` is the remedy. CARD'
}

@test "report: --spill is sized by the most that was lacking, and promises nothing of what comes next" {
    make process-later a.vramgc
    "$make_file" set a.vramgc mode compact devices[0].neighbours.time_ns 0
    spill() { "$vramgc" report a.vramgc | tr -s ' \n' ' ' | grep -oE -- '--spill [^.]*\.'; }
    equal "$(spill)" '--spill 950MiB would let these requests go on, slowly; the next may need more.'
    "$make_file" set a.vramgc 'refusals[0].request_bytes' +$((300 << 20))
    equal "$(spill)" '--spill 1250MiB would let these requests go on, slowly; the next may need more.'
}

@test "report: PyTorch's warning of a refusal is told to be no other fault, but where it writes none" {
    local words="PyTorch's warning \"mapping failed with OOM\" tells of the same, and of no other fault."
    make full a.vramgc
    contains "$("$vramgc" report a.vramgc | tr -s ' \n' ' ')" "$words"
    make limit limit.vramgc
    contains_not "$("$vramgc" report limit.vramgc | tr -s ' \n' ' ')" "$words"
}

@test "diff: the command of each is told, and that they differ" {
    make plain a.vramgc
    make compact b.vramgc
    "$vramgc" diff a.vramgc b.vramgc >out
    equal "$(grep -A1 '^A  a' out | tail -n 1)" '   2025-01-01 11:59, 1 h 12 m  python launch.py --xformers --api'
    equal "$(grep -A1 '^B  b' out | tail -n 1)" '   2025-01-01 11:59, 1 h 12 m  python -u launch.py --xformers --api --listen -..'
    grep -qx 'The two commands differ: so may the work.' out
    equal "$("$vramgc" diff a.vramgc a.vramgc | grep -c 'commands differ')" 0
}

@test "diff: calls of the driver are those of the program and of vramgc: in mode compact most are its own" {
    make plain a.vramgc
    make compact b.vramgc
    grep -qE "^driver calls, vramgc's too +25,000 +86,234 +$" <("$vramgc" diff --all a.vramgc b.vramgc)
    contains_not "$("$vramgc" diff a.vramgc b.vramgc)" 'driver calls'
}

@test "diff: first it says which held less, at the peak and at rest, and for how much in tensors" {
    make plain a.vramgc
    make plain b.vramgc
    first() {
        "$vramgc" diff a.vramgc b.vramgc | head -n 1
    }
    equal "$(first)" 'B held as much at the peak, as much at the end, for the same tensors.'
    "$make_file" set b.vramgc devices[0].stats.held_bytes.peak $((7 << 30)) devices[0].stats.held_bytes.current $((1 << 29))
    equal "$(first)" 'B held 12 % less at the peak, 75 % less at the end, for the same tensors.'
    "$make_file" set b.vramgc devices[0].stats.live_bytes.peak $((5 << 30))
    equal "$(first)" 'B held 12 % less at the peak, 75 % less at the end, for 29 % less in tensors.'
    contains_not "$("$vramgc" diff a.vramgc b.vramgc)" 'The cards differ'
    "$make_file" set b.vramgc devices[0].stats.ooms 3
    contains "$(first)" 'B ran out of memory 3x, A never. B held '
    equal "$("$vramgc" diff a.vramgc b.vramgc | grep -E '^time since CUDA began|^driver' | grep -c '%')" 0
}

@test "diff: first it says, too, that the average differs where the peaks do not, and that the cards do" {
    make plain a.vramgc
    make plain b.vramgc
    "$make_file" set b.vramgc devices[0].stats.live_ms_sum_kib 4000000000000 devices[0].total_bytes $((13 << 29))
    equal "$("$vramgc" diff a.vramgc b.vramgc | head -n 3)" \
        'B held as much at the peak, as much at the end, for the same tensors. For each
byte of tensors B held 25 % more on average.
The cards differ: 24.0 GiB in A, 6.5 GiB in B.'
}

@test "diff: settings that differ come first" {
    make two-devices a.vramgc
    make idle-lowvram b.vramgc
    equal "$("$vramgc" diff a.vramgc b.vramgc | grep -A1 ' change$' | tail -n 1 | tr -s ' ')" 'VRAMGC_LOWVRAM 0 1 '
    equal "$("$vramgc" diff a.vramgc a.vramgc | grep -c VRAMGC_LOWVRAM)" 0
}

@test "diff: the two have one name wherever they are told of" {
    make plain a.vramgc
    make two-devices b.vramgc
    "$vramgc" diff a.vramgc b.vramgc >out
    equal "$(grep -oE '^[AB]  [ab]\.vramgc| A +B +change$|^A did|, in B |^       B: NVIDIA' out | tr -s ' ' | paste -sd/)" \
        'A did/, in B /A a.vramgc/B b.vramgc/ A B change/ B: NVIDIA'
    "$vramgc" diff --as before,after a.vramgc b.vramgc >named
    equal "$(grep -oE '^(before|after)  [ab]\.vramgc| before +after +change$|^before did|, in after$|^       after: NVIDIA' named | tr -s ' ' | paste -sd/)" \
        'before did/, in after/before a.vramgc/after b.vramgc/ before after change/ after: NVIDIA'
}

@test "diff: of a run that did less the figures are of other work, and that is said" {
    make plain whole.vramgc
    make fragmented killed.vramgc # as many blocks, but killed
    make two-devices more.vramgc
    less='compare different work'
    equal "$("$vramgc" diff whole.vramgc whole.vramgc | grep -c "$less")" 0
    contains "$("$vramgc" diff whole.vramgc killed.vramgc | tr '\n' ' ')" \
        "B ran out of memory and was killed by SIGKILL after 1 h 12 m. These figures $less. "
    cp whole.vramgc failed.vramgc
    "$make_file" set failed.vramgc end 2 end_status 256
    contains "$("$vramgc" diff whole.vramgc failed.vramgc | tr '\n' ' ')" \
        "B ended with exit 1 after 1 h 12 m. These figures $less: run it again, to its end. "
    equal "$("$vramgc" diff killed.vramgc killed.vramgc | grep -c "$less")" 0
    contains "$("$vramgc" diff more.vramgc whole.vramgc | tr '\n' ' ')" \
        "B did less work: PyTorch had made 480,123 tensors in 1 h 12 m, in A 960,246 in 1 h 12 m. These figures $less. "
    make plain runs.vramgc pid $$
    contains "$("$vramgc" diff runs.vramgc whole.vramgc)" 'A still runs after 1 h'
    "$make_file" set killed.vramgc end 1 end_status 0
    contains "$("$vramgc" diff killed.vramgc more.vramgc | tr '\n' ' ')" 'A ran out of memory and did less work: PyTorch had made'
}

@test "diff: another card, its size, and one that only one of the two has, are seen" {
    make plain a.vramgc
    make plain b.vramgc
    "$make_file" set b.vramgc 'devices[0].total_bytes' $((12 << 30)) 'devices[0].name' 'NVIDIA GeForce RTX 3060'
    "$vramgc" diff a.vramgc b.vramgc >out
    contains "$(cat out)" $'\nGPU 0  A: NVIDIA GeForce RTX 3090\n       B: NVIDIA GeForce RTX 3060\n'
    grep -qE '^card +24.0 GiB +12.0 GiB +-50 %$' out
    make two-devices b.vramgc
    "$vramgc" diff a.vramgc b.vramgc | sed -n '/^GPU 2/,$p' >out
    equal "$(head -n 1 out)" 'GPU 2  A: -'
    grep -qE '^held, peak +- +8.0 GiB +$' out
}

@test "diff: a device that one of the files does not count is not looked at there" {
    make two-devices a.vramgc
    make uncounted b.vramgc
    make plain c.vramgc
    "$vramgc" diff --all a.vramgc b.vramgc >out
    "$vramgc" diff --all a.vramgc c.vramgc >other
    grep -A 200 '^GPU 2' out >of_2
    grep -A 200 '^GPU 2' other | diff - of_2
    "$vramgc" diff b.vramgc a.vramgc
}

@test "env: lines that a shell can take" {
    run "$vramgc" env -t 70 --alloc-conf "it's"
    equal "$status" 0
    eval "$(grep -v LD_PRELOAD <<<"$output")"
    equal "$VRAMGC_THRESHOLD" 70
    equal "$VRAMGC_ALLOC_CONF" "it's"
    line=$(grep 'export LD_PRELOAD' <<<"$output")
    equal "$(LD_PRELOAD='' sh -c "$line; printenv LD_PRELOAD" | cut -d: -f1)" "$library"
    run "$vramgc" env -t lots
    equal "$status" 2
}

@test "env: behind a line without its end, twice, and undone as its first line says" {
    printf '#!/bin/sh\nexport COMMANDLINE_ARGS=--api' >webui-user.sh
    "$vramgc" env >>webui-user.sh
    "$vramgc" env -t 70 >>webui-user.sh
    # shellcheck disable=SC2016
    ask='set -eu; . ./webui-user.sh; echo "$COMMANDLINE_ARGS $VRAMGC_THRESHOLD"; printenv LD_PRELOAD | cut -d: -f1; printenv LD_PRELOAD | grep -o libvramgc.so | wc -l'
    equal "$(sh -c "$ask")" "--api 70
$library
1"
    equal "$(LD_PRELOAD=/other/libvramgc.so sh -c "$ask" 2>/dev/null | tail -n 1)" 1
    mv "$library" gone # nothing that is not there is named
    equal "$(sh -c '. ./webui-user.sh; printenv LD_PRELOAD' 2>&1)" ""
    eval "$(sed -n 's/^# vramgc begin. To undo: \(.*\) FILE$/\1 webui-user.sh/p; /vramgc begin/q' webui-user.sh)"
    equal "$(grep -v '^$' webui-user.sh)" '#!/bin/sh
export COMMANDLINE_ARGS=--api'
}

@test "help: every command, every topic, every setting and figure" {
    for topic in '' run report top diff help version env metrics json schema markdown-settings man; do
        # shellcheck disable=SC2086
        run_apart "$vramgc" help $topic
        equal "$status" 0
        equal "$errors" ''
        [ -n "$output" ]
    done
    all=$("$vramgc" help)
    equal "$(sed -n 's/^  \([a-z]*\) .*/\1/p' <<<"$all" | tr '\n' ' ')" \
        "$("$vramgc" help completion-bash | sed -n "s/^        words='\([a-z].*\)'$/\1/p") "
    equal "$(grep -v '^  ' <<<"$all" | sed '1d; /^$/,$d' | tr '\n' ' ')" 'Start Look While a program runs Help '
    # With the next line to type it is a screen of 80x24.
    [ "$(wc -l <<<"$all")" -le 23 ]
    equal "$(awk 'length > 79' <<<"$all")" ''
    run_apart "$vramgc"
    equal "$status" 2
    equal "$output" ''
    equal "$(sed -n 's/^  vramgc \([a-z]*\) .*/\1/p' <<<"$errors" | tr '\n' ' ')" 'prove run run report top doctor '
    equal "$(tail -1 <<<"$errors")" '`vramgc help` has all commands.'
    for command in run report diff env help version; do
        run "$vramgc" "$command" --help
        equal "$status" 0
        contains "$output" "vramgc $command"
    done
    equal "$("$vramgc" report -a --help x)" "$("$vramgc" help report)" # behind other options, too
    env_help=$("$vramgc" help settings)
    table=$("$vramgc" help markdown-settings)
    equal "$("$vramgc" help markdown-often-set | grep -vxFf <(printf '%s\n' "$table"))" ''
    equal "$("$vramgc" help markdown-often-set | grep -c '^.VRAMGC_')" 7
    run_help=$("$vramgc" run --help)
    while read -r variable; do
        contains "$env_help" "$variable="
        contains "$table" "\`$variable="
        contains "$("$vramgc" help "$variable")" "$variable="
    done < <(grep -o 'VRAMGC_[A-Z_]*' "$top/src/options.def" | sort -u | grep -v 'VRAMGC_$')
    equal "$("$vramgc" help VRAMGC_KEEP_FOR | wc -l)" 2
    for name in KEEP_FOR keep-for --keep_for vramgc_keep_for; do
        equal "$("$vramgc" help "$name")" "$("$vramgc" help VRAMGC_KEEP_FOR)"
    done
    contains "$("$vramgc" help give-back)" at-once
    for word in alerts oom growth; do
        equal "$("$vramgc" help "$word")" "$("$vramgc" help watch)"
    done
    contains "$("$vramgc" help held_bytes)" 'held_bytes (bytes)'
    run "$vramgc" help VRAMGC_SPIL
    contains "$output" 'did you mean `vramgc help VRAMGC_SPILL`?'
    contains "$run_help" '-t, --threshold PERCENT'
    equal "$(sed -nE '/^Often set:/,/^Of the command:/s/^  (-[to], )?--([a-z]*).*/\2/p' <<<"$run_help" | tr '\n' ' ')" \
        'mode threshold lowvram spill headroom cap on '
    equal "$(sed -n '/^Of the command:/,$p' <<<"$run_help" | grep -cE '^  (-.*, )?--(lowvram|on)')" 0
    contains "$run_help" '--min-gain SIZE'
    run "$vramgc" help held_over_live_mea
    contains "$output" 'did you mean `vramgc help held_over_live_mean`?'
    metrics=$("$vramgc" help metrics)
    while read -r name; do
        contains "$metrics" "  $name ("
        [[ $("$vramgc" help "$name") == "  $name ("* ]]
        # As the report says it: held.
        [[ $("$vramgc" help "${name%_bytes}") == "  $name ("* ]]
    done < <(sed -nE 's/^(DEVICE_GAUGE|DEVICE_TOTAL|PROCESS_TOTAL|DERIVED)\(([a-z_]+),.*/\2/p' \
        "$top/src/stats.def" "$top/src/read/derived.def")
    contains "$("$vramgc" --version)" 'vramgc 0.'
}

@test "help: texts are at most 80 columns wide" {
    for topic in '' run report top diff help version env metrics; do
        # shellcheck disable=SC2086
        equal "$("$vramgc" help $topic | grep -cE '^.{81}')" 0
    done
}

@test "help man: a manual page without warnings" {
    command -v groff >/dev/null || skip "SKIPPED: groff is not installed"
    "$vramgc" help man >vramgc.1
    run groff -man -Tutf8 -ww -z vramgc.1
    equal "$output" ''
    contains "$(groff -man -Tutf8 vramgc.1)" VRAMGC_THRESHOLD
}

@test "report: host memory that grows from job to job is told, without an out-of-memory, too" {
    make host-growth growth.vramgc
    report=$("$vramgc" report growth.vramgc)
    contains "$(tr -s ' \n' ' ' <<<"$report")" 'Host memory grows: +122 MiB a job, 26 jobs. No allocation failed: '
    contains "$(tr -s ' \n' ' ' <<<"$report")" ' DO Do you keep results or previews in a list? Write them to disk. '
    contains "$report" 'VERDICT  Host memory grows'
    equal "$("$vramgc" report --json growth.vramgc | grep -o '"code": "[a-z]*"')" '"code": "grows"'
    contains "$report" $'\nJOBS '
    contains "$report" '         28 earlier ones are in `vramgc report --all`
         0:28.000' # whose first is the 29th
    contains_not "$report" 'Compare  '
    contains "$report" 'live after RAM after'
    for steady in loaded cache model; do
        make "host-$steady" "$steady.vramgc"
        report=$("$vramgc" report "$steady.vramgc")
        contains_not "$report" 'Host memory'
        contains_not "$report" $'\nJOBS '
    done
}

@test "report: page-locked memory that is all in powers of two may be PyTorch's rounding; what turns it off is named where it can" {
    make pinned pinned.vramgc
    told=$("$vramgc" report pinned.vramgc | tr -s ' \n' ' ')
    contains "$told" '5.0 GiB of host memory were page-locked, all in powers of two: up to half of it may be'
    contains "$told" 'PYTORCH_ALLOC_CONF=pinned_max_round_threshold_mb:1'
    make pinned-old old.vramgc
    told=$("$vramgc" report old.vramgc | tr -s ' \n' ' ')
    contains "$told" "may be PyTorch's rounding."
    contains_not "$told" pinned_max_round
    make pinned-exact exact.vramgc
    contains_not "$("$vramgc" report exact.vramgc)" page-locked
}
