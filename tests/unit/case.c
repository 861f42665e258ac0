/* case.c: see case.h. */
#include "case.h"
#include "unit.h"

#include "base/base.h"
#include "base/text.h"

#include <signal.h>
#include <string.h>

static struct vramgc_device *card(struct program *program) {
    return &program->file->devices[0];
}

static struct vramgc_refusal *latest(struct program *program) {
    return &program->refusals[program->record.refusal_count - 1];
}

static void add_setting(struct program *program, const char *name, const char *value) {
    struct vramgc_setting *setting = &program->file->settings[program->file->setting_count++];
    text_copy(setting->name, sizeof setting->name, name);
    text_copy(setting->value, sizeof setting->value, value);
}

static void set_setting(struct program *program, const char *name, const char *value) {
    struct vramgc_setting *setting = program->file->settings;
    while (strcmp(setting->name, name) != 0)
        setting++;
    text_copy(setting->value, sizeof setting->value, value);
}

/* Of PyTorch, unless it is said otherwise. */
static void refuse(struct program *program, enum vramgc_cause cause) {
    struct stats_file *record = &program->record;
    struct vramgc_refusal *refusal = &program->refusals[record->refusal_count];
    *refusal = (struct vramgc_refusal){
        .sequence = record->refusal_count + 1,
        .time_ns = (60 + record->refusal_count) * SECOND_NS,
        .request_bytes = 600 * MIB,
        .free_bytes = 100 * MIB,
        .idle_bytes = cause == VRAMGC_CAUSE_FRAGMENTED ? 900 * MIB : 0,
        .held_bytes = 7900 * MIB,
        .allocated_bytes = (cause == VRAMGC_CAUSE_FRAGMENTED ? 7000 : 7900) * MIB,
        .total_bytes = 8192 * MIB,
        .cause = cause,
        .hook = 1,
        .reported = VRAMGC_REPORTED,
        .turns = card(program)->floors.turns,
    };
    record->refusals[record->refusal_count++] = refusal;
    card(program)->stats.ooms++;
}

/* ---- words with a figure: a field ---- */

#include "case_fields.h"

static bool set_field(struct program *program, const char *name, uint64_t value) {
    for (size_t i = 0; i < ARRAY_LENGTH(of_refusal); i++)
        if (strcmp(of_refusal[i].name, name) == 0) {
            *(uint64_t *)((char *)latest(program) + of_refusal[i].offset) = value * MIB;
            return true;
        }
    for (size_t i = 0; i < ARRAY_LENGTH(of_file); i++)
        if (strcmp(of_file[i].name, name) == 0) {
            *(uint64_t *)((char *)program->file + of_file[i].offset) = value * MIB;
            return true;
        }
    return false;
}

/* ---- words of their own ---- */

static void set_hook(struct program *program, const char *name) {
    text_copy(program->file->hooks[2].name, sizeof program->file->hooks[2].name, name);
    latest(program)->hook = 2;
}

static void set_library(struct program *program, const char *name) {
    text_copy(program->file->libraries[1].name, sizeof program->file->libraries[1].name, name);
    program->file->library_count = 2;
    program->file->devices[0].of_libraries[1].peak = UINT64_MAX; /* most of whatever there is */
    if (program->record.refusal_count)
        latest(program)->library = 1;
}

/* The function that asked, or has most: of this phase; with a dot it is its name. */
static void set_phase(struct program *program, const char *phase) {
    struct vramgc_site *site = &program->file->sites[0];
    if (strchr(phase, '.'))
        text_copy(site->function, sizeof site->function, phase);
    else
        text_copy(site->phase, sizeof site->phase,
                  strcmp(phase, "move") == 0 ? "model move" : phase);
    latest(program)->site = 1;
}

static void set_site_file(struct program *program, const char *name) {
    text_copy(program->file->sites[1].file, sizeof program->file->sites[1].file, name);
    text_copy(program->file->sites[1].phase, sizeof program->file->sites[1].phase, "model move");
}

static void give_to(struct program *program, const char *value) {
    struct vramgc_owners *owners = &card(program)->owners_at_oom;
    owners->count = 1;
    owners->live_bytes = 7900 * MIB;
    owners->list[0] = (struct vramgc_owner){.site = 1, .bytes = strtoull(value, NULL, 10) * MIB};
}

/* Each as large as what was asked for; N:together: all of them are. */
static void pile_up(struct program *program, const char *blocks) {
    struct vramgc_owners *owners = &card(program)->owners_at_oom;
    uint32_t count = (uint32_t)strtoul(blocks, NULL, 10);
    owners->count = 1;
    owners->live_bytes = count * latest(program)->request_bytes;
    owners->list[0] = (struct vramgc_owner){
        .bytes = strchr(blocks, ':') ? latest(program)->request_bytes : owners->live_bytes,
        .blocks = count};
    latest(program)->site = 1;
}

/* So many, and much else is live. */
static void make_row(struct program *program, const char *blocks) {
    pile_up(program, blocks);
    card(program)->owners_at_oom.live_bytes = 7900 * MIB;
}

/* FUNCTION:MiB: it asked, and has so much; FUNCTION:MiB:callee: a function that it called did;
 * FUNCTION:MiB:part: a loader that it called asked, which has 100 MiB more; :after: that it did
 * not call. */
static void load_by(struct program *program, const char *value) {
    struct vramgc_file *file = program->file;
    struct vramgc_owners *calls = &card(program)->calls_at_oom;
    bool after = strstr(value, ":after"), part = after || strstr(value, ":part");
    bool callee = part || strstr(value, ":callee");
    uint64_t bytes = strtoull(strchr(value, ':') + 1, NULL, 10) * MIB;
    set_phase(program, part ? "Part.__init__" : "");
    text_copy(file->sites[callee].function, sizeof file->sites[callee].function, value);
    *strchr(file->sites[callee].function, ':') = 0;
    text_copy(file->sites[callee].file, sizeof file->sites[callee].file, "k/sampling.py");
    give_to(program, strchr(value, ':') + 1);
    card(program)->owners_at_oom.list[0].site = 0;
    card(program)->owners_at_oom.list[0].blocks = 20;
    file->call_count = 2;
    file->calls[0] = (struct vramgc_call){0, 1};
    file->calls[1] = (struct vramgc_call){callee && !after, 0};
    calls->count = 1 + part;
    calls->list[0] = (struct vramgc_owner){.site = 1, .bytes = part ? 100 * MIB : bytes};
    calls->list[1] = (struct vramgc_owner){.site = 0, .bytes = bytes};
}

static void name_other_site(struct program *program, const char *function) {
    struct vramgc_site *site = &program->file->sites[1];
    text_copy(site->function, sizeof site->function, function);
    text_copy(site->file, sizeof site->file, "k/vae.py");
}

/* MiB: so large is one tensor of attention's. */
static void attend(struct program *program, const char *value) {
    name_other_site(program, "attn_processor.__call__");
    give_to(program, value);
    card(program)->owners_at_oom.list[0].blocks = 1;
}

/* MiB: so much of the optimizer's, which asked. */
static void make_states(struct program *program, const char *value) {
    set_phase(program, "optimizer");
    give_to(program, value);
    card(program)->owners_at_oom.list[0].site = 0;
}

/* MiB: of the function that the refusal before was of; :same: the latest is of it, too; :VAE: it
 * is part of that; :threads: in another thread. */
static void fail_before(struct program *program, const char *value) {
    struct vramgc_refusal *refusal = latest(program);
    name_other_site(program, "decode");
    give_to(program, value);
    text_copy(program->file->sites[1].phase, 24, strstr(value, ":VAE") ? "VAE" : "");
    refusal[-1].site = 2;
    refusal[-1].thread = strstr(value, ":threads") != NULL;
    refusal->site = strstr(value, ":same") ? 2 : 1;
}

/* It is what stays more and more. */
static void add_grower(struct program *program, bool cache) {
    struct vramgc_owners *grown = &card(program)->owners_grown;
    name_other_site(program, cache ? "DynamicCache.update" : "cast_adapter_dtype");
    text_copy(program->file->sites[1].file, 64, cache ? "k/cache.py" : "tuners/tuners_utils.py");
    grown->count = 1;
    grown->live_bytes = 500 * MIB;
    grown->list[0] = (struct vramgc_owner){.site = 1, .bytes = 500 * MIB};
}

/* COUNT:MiB: autograd made as many of that size, in all, and they are what stays. */
static void go_back(struct program *program, const char *value) {
    add_grower(program, false);
    name_other_site(program, "step");
    text_copy(program->file->sites[1].phase, 24, "backward");
    give_to(program, strchr(value, ':') + 1);
    card(program)->owners_at_oom.list[0].blocks = strtoull(value, NULL, 10);
}

static void add_job(struct program *program, uint64_t time_ns, uint64_t live_bytes) {
    struct vramgc_job *job = &program->jobs[program->record.job_count];
    *job = (struct vramgc_job){.sequence = program->record.job_count + 1,
                               .time_ns = time_ns,
                               .took_ns = SECOND_NS / 2,
                               .live_bytes = live_bytes};
    program->record.jobs[program->record.job_count++] = job;
}

/* From then on, of the function of that value: so much, and no other's. */
static void add_who(struct program *program, const char *value, uint64_t time_ns, uint64_t mib) {
    struct vramgc_device *device = card(program);
    name_other_site(program, strchr(value, ':') + 1);
    device->who[device->who_count++] =
        (struct vramgc_who){.time_ns = time_ns,
                            .live_bytes = (2000 + mib) * MIB,
                            .count = 2,
                            .kib = {2000 * 1024, (uint32_t)mib * 1024},
                            .sites = {0, 1}};
}

/* MiB:FUNCTION: more is live at rest after the job of the error, all of the function. */
static void leave_after(struct program *program, const char *value) {
    for (uint64_t i = 0; i < 2; i++) {
        uint64_t more = i * strtoull(value, NULL, 10), then = i * latest(program)->time_ns;
        add_job(program, then, (2000 + more) * MIB);
        add_who(program, value, then + SECOND_NS, more);
    }
}

/* MiB:FUNCTION: at rest before the error, and after no job, the function has so much. */
static void keep_before(struct program *program, const char *value) {
    add_job(program, 0, 2000 * MIB);
    for (uint64_t i = 1; i < 4; i++)
        add_who(program, value, i * SECOND_NS * 2, i == 1 ? 0 : strtoull(value, NULL, 10));
    give_to(program, value);
    latest(program)->site = strstr(value, "asker") ? 2 : 0;
}

/* name:MiB, or name:MiB:child. */
static void add_process(struct program *program, const char *value) {
    struct vramgc_neighbours *others = &card(program)->neighbours;
    struct vramgc_neighbour *other = &others->list[others->count++];
    const char *colon = strchr(value, ':');
    others->time_ns = 1000 * SECOND_NS;
    memcpy(other->name, value, (size_t)(colon - value));
    other->pid = 700 + others->count;
    other->bytes = strtoull(colon + 1, NULL, 10) * MIB;
    other->started_here = strstr(colon, ":child") != NULL;
}

static void set_other_card(struct program *program, const char *value) {
    struct vramgc_other_card *other = &card(program)->other_card;
    *other = (struct vramgc_other_card){.time_ns = 1000 * SECOND_NS, .number = 1};
    other->free_bytes = strtoull(value, NULL, 10) * MIB;
    text_copy(other->name, sizeof other->name, strstr(value, ":named") ? "RTX 4090" : "");
}

/* Live memory is less by so much but in one short time. */
static void set_short_peak(struct program *program, const char *less) {
    struct vramgc_device *device = card(program);
    for (uint64_t i = 0; i < 20; i++)
        device->samples[device->sample_count++] = (struct vramgc_sample){
            .time_ns = i * 5 * SECOND_NS,
            .allocated_bytes = (7900 - (i == 10 ? 0 : strtoull(less, NULL, 10))) * MIB};
}

static void set_giver(struct program *program, const char *bytes) {
    card(program)->giver.pid = 77;
    card(program)->stats.peer_bytes = strtoull(bytes, NULL, 10) * MIB;
}

/* Most of the live memory at the peak is of the function of this phase. */
static void set_worker(struct program *program, const char *phase) {
    struct vramgc_owners *owners = &card(program)->owners_at_peak;
    owners->count = 1;
    owners->live_bytes = 7900 * MIB;
    owners->list[0] = (struct vramgc_owner){.bytes = 7000 * MIB};
    text_copy(program->file->sites[0].phase, sizeof program->file->sites[0].phase, phase);
}

/* By so much a turn, of live memory. */
static void grow(struct program *program, const char *step) {
    struct vramgc_floors *floors = &card(program)->floors;
    floors->merged = 1;
    for (floors->count = 0; floors->count < 40; floors->count++)
        floors->bytes[floors->count] = (1000 + floors->count * strtoull(step, NULL, 10)) * MIB;
    floors->turns = floors->count;
    if (program->record.refusal_count)
        latest(program)->turns = floors->turns;
}

/* LEFT:MORE: live memory after the first of three jobs, and so much more after each. */
static void leave(struct program *program, const char *value) {
    uint64_t left = strtoull(value, NULL, 10), more = strtoull(strchr(value, ':') + 1, NULL, 10);
    for (size_t i = 0; i < 3; i++)
        add_job(program, i * SECOND_NS, (left + i * more) * MIB);
}

/* COUNT:MiB: so many jobs moved models of that size; :varied, the last more; :stay, for good. */
static void move_models(struct program *program, const char *value) {
    uint64_t count = strtoull(value, NULL, 10), last = strstr(value, ":varied") ? count : 0;
    uint64_t moved = strtoull(strchr(value, ':') + 1, NULL, 10) * MIB;
    for (uint64_t i = 1; i <= count; i++) {
        add_job(program, i * SECOND_NS, strstr(value, ":stay") ? moved : 100 * MIB);
        program->jobs[i - 1].number = i;
        program->jobs[i - 1].moved_bytes = moved;
        program->jobs[i - 1].peak_live_bytes = (i == last ? 3900 : 3000) * MIB;
    }
}

/* By so much a job, of the host's memory; :pinned, page-locked. */
static void grow_host(struct program *program, const char *step) {
    for (size_t i = 0; i < 40; i++) {
        struct vramgc_job *job = &program->jobs[i];
        add_job(program, i * SECOND_NS, 0);
        *(strstr(step, ":pinned") ? &job->pinned_bytes : &job->host_bytes) =
            (1000 + i * strtoull(step, NULL, 10)) * MIB;
    }
}

/* By so much a round of work, of RAM, in one job; :load, of a function that loads. */
static void grow_in_job(struct program *program, const char *step) {
    struct vramgc_floors *floors = &program->file->host.floors;
    floors->merged = 2;
    for (; floors->count < 40; floors->count++)
        floors->bytes[floors->count] = (1000 + 2 * floors->count * strtoull(step, NULL, 10)) * MIB;
    text_copy(program->file->sites[0].function, 64, strstr(step, ":load") ? "load" : "sample");
    program->file->latest_site = 1;
}

/* One reclaim gave back so much. */
static void reclaim(struct program *program, const char *bytes) {
    program->action.net_bytes = strtoull(bytes, NULL, 10) * MIB;
    program->record.actions[program->record.action_count++] = &program->action;
}

static void kill_program(struct program *program, const char *signal) {
    program->record.state = PROCESS_KILLED;
    program->record.signal = strcmp(signal, "SEGV") == 0 ? SIGSEGV : SIGKILL;
    program->file->host.latest.time_ns = 50 * SECOND_NS;
}

static void set_lack(struct program *program, const char *lack) {
    program->file->host.lack = *lack == 'k' ? VRAMGC_LACK_KILLED : VRAMGC_LACK_NONE;
}

static void set_mode(struct program *program, const char *mode) {
    text_copy(program->file->mode, sizeof program->file->mode, mode);
}

static void set_command(struct program *program, const char *command) {
    text_copy(program->file->command_line, sizeof program->file->command_line, command);
    for (char *at = program->file->command_line; (at = strchr(at, '+'));)
        *at = ' ';
}

static void set_conf(struct program *program, const char *conf) {
    text_copy(program->file->alloc_conf, sizeof program->file->alloc_conf,
              strcmp(conf, "expandable") == 0 ? "expandable_segments:True" : conf);
}

static void set_torch(struct program *program, const char *version) {
    text_copy(program->file->torch_version, sizeof program->file->torch_version, version);
}

/* MiB: so much was live at the latest look at a peak, all of one function. */
static void own_at_peak(struct program *program, const char *value) {
    struct vramgc_owners *owners = &card(program)->owners_at_peak;
    owners->count = 1;
    owners->live_bytes = owners->list[0].bytes = strtoull(value, NULL, 10) * MIB;
}

static void set_reported(struct program *program, const char *value) {
    latest(program)->reported = strcmp(value, "no") == 0 ? VRAMGC_NOT_REPORTED : VRAMGC_WENT_ON;
}

static const struct {
    const char *name;
    void (*set)(struct program *program, const char *value);
} of_their_own[] = {
    {"short", set_short_peak}, {"got", set_giver},         {"worker", set_worker},
    {"hook", set_hook},        {"library", set_library},   {"phase", set_phase},
    {"mover", set_site_file},  {"theirs", give_to},        {"load", load_by},
    {"failed", fail_before},   {"left", leave_after},      {"pile", pile_up},
    {"process", add_process},  {"card", set_other_card},   {"grows", grow},
    {"jobs", leave},           {"host-grows", grow_host},  {"moves", move_models},
    {"backward", go_back},     {"job-grows", grow_in_job}, {"reclaim", reclaim},
    {"killed", kill_program},  {"lack", set_lack},         {"mode", set_mode},
    {"command", set_command},  {"conf", set_conf},         {"torch", set_torch},
    {"whatif", set_whatif},    {"reported", set_reported}, {"owner", own_at_peak},
    {"stale", keep_before},    {"row", make_row},          {"attends", attend},
    {"states", make_states},
};

static bool set_named(struct program *program, const char *name, const char *value) {
    for (size_t i = 0; i < ARRAY_LENGTH(of_their_own); i++)
        if (strcmp(of_their_own[i].name, name) == 0) {
            of_their_own[i].set(program, value);
            return true;
        }
    for (size_t i = 0; i < ARRAY_LENGTH(of_settings); i++)
        if (strcmp(of_settings[i], name) == 0) {
            set_setting(program, strcmp(name, "asked") == 0 ? "mode" : name, value);
            return true;
        }
    return set_field(program, name, strtoull(value, NULL, 10));
}

static bool set_alone(struct program *program, const char *word) {
    struct vramgc_device_stats *stats = &card(program)->stats;
    for (size_t i = 0; i < VRAMGC_CAUSES_SEEN; i++)
        if (strcmp(word, causes[i]) == 0) {
            refuse(program, (enum vramgc_cause)i);
            return true;
        }
    if (strcmp(word, "rested") == 0)
        add_job(program, 60 * SECOND_NS, 1000 * MIB);
    else if (strcmp(word, "two-cards") == 0)
        program->file->device_count = 2;
    else if (strcmp(word, "conf-of-environment") == 0)
        strcpy(program->file->alloc_conf_why, "the environment's choice");
    else if (strcmp(word, "looked") == 0)
        program->file->host.latest.time_ns = 50 * SECOND_NS;
    else if (strcmp(word, "fine") == 0)
        program->record.code = 0;
    else if (strcmp(word, "stopped") == 0)
        program->file->stop_asked = 1;
    else if (strcmp(word, "recorded") == 0)
        latest(program)->recorded = 1;
    else if (strcmp(word, "lora") == 0 || strcmp(word, "kv-cache") == 0)
        add_grower(program, *word == 'k');
    else if (strcmp(word, "unproven") == 0)
        program->file->needs_proof = 1;
    else if (strcmp(word, "driver-pool") == 0)
        program->file->driver_pool = 1;
    else if (strcmp(word, "segments") == 0)
        program->file->chose_segments = 1;
    else if (strcmp(word, "graphs") == 0 || strcmp(word, "many-graphs") == 0)
        program->file->process.captures = *word == 'm' ? 40 : 3;
    else if (strcmp(word, "impossible") == 0)
        program->file->process.impossible_calls = 1;
    else if (strcmp(word, "empties") == 0)
        program->file->process.cache_empties = 20;
    else if (strcmp(word, "no-cache") == 0)
        stats->reserved_bytes.peak = stats->block_allocs = 0;
    else if (strcmp(word, "granted") == 0)
        latest(program)->granted = 1;
    else if (strcmp(word, "miscounted") == 0)
        stats->refused_blocks = 1;
    else if (strcmp(word, "would") == 0)
        stats->would_reclaims++;
    else if (strcmp(word, "ended") == 0)
        program->record.state = PROCESS_EXITED;
    else
        return false;
    return true;
}

void case_free(struct program *program) {
    free(program->file);
}

void case_make(struct program *program, const char *words) {
    char copy[400], *rest = copy;
    memset(program, 0, sizeof *program);
    program->file = calloc(1, sizeof *program->file);
    program->record.file = program->file;
    program->record.elapsed_ns = 100 * SECOND_NS;
    program->record.code = 1;
    program->file->device_count = 1;
    program->file->hook_count = 3;
    program->file->site_count = 2;
    text_copy(program->file->hooks[1].name, 48, "cudaMalloc");
    text_copy(program->file->sites[0].function, 64, "sample");
    text_copy(program->file->sites[0].file, 64, "k/sampling.py");
    text_copy(program->file->sites[1].function, 64, "load");
    program->file->sites[0].line = program->file->sites[1].line = 12;
    card(program)->present = 1;
    card(program)->total_bytes = 8192 * MIB;
    card(program)->stats.block_allocs = 100;
    card(program)->stats.reserved_bytes = card(program)->stats.held_bytes =
        card(program)->stats.live_bytes = (struct vramgc_gauge){7900 * MIB, 7900 * MIB};
    set_mode(program, "flush");
    add_setting(program, "mode", "auto");
    add_setting(program, "threshold", "80");
    add_setting(program, "lowvram", "0");
    add_setting(program, "spill", "0");
    add_setting(program, "backtrace", "0");
    text_copy(copy, min_u64(sizeof copy, strcspn(words, "&") + 1), words);
    for (char *word; (word = strsep(&rest, " "));) {
        char *value = strchr(word, '=');
        if (value)
            *value++ = 0;
        if (*word && !(value ? set_named(program, word, value) : set_alone(program, word)))
            fail_msg("%s: %s is not known", words, word);
    }
}
