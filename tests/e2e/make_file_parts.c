/* make_file_parts.c: see make_file_parts.h. */
#include "make_file_parts.h"

#include <string.h>

static void set_setting(struct vramgc_file *file, const char *name, const char *value,
                        const char *origin) {
    struct vramgc_setting *setting = &file->settings[file->setting_count++];
    strcpy(setting->name, name);
    strcpy(setting->value, value);
    strcpy(setting->origin, origin);
}

static void set_hook(struct vramgc_file *file, const char *name, uint64_t calls, uint64_t failed) {
    struct vramgc_hook *hook = &file->hooks[file->hook_count++];
    strcpy(hook->name, name);
    hook->calls = calls;
    hook->failed = failed;
}

void set_head(struct vramgc_file *file) {
    memcpy(file->magic, VRAMGC_MAGIC, sizeof file->magic);
    file->format_version = VRAMGC_FORMAT_VERSION;
    file->file_bytes = sizeof *file;
    file->pid = 4194305; /* larger than a pid can be: this process has never lived */
    file->parent_pid = 4194304;
    file->process_start = 123456;
    file->started_unix_ns = 1735732800 * SECOND;
    file->started_ns = 1000 * SECOND;
    file->latest_ns = file->started_ns + 4328 * SECOND;
    file->before_ns = 12 * SECOND;
    file->cuda_driver = 13000;
    strcpy(file->version, "0.1.0");
    strcpy(file->executable, "/usr/bin/python3.11");
    strcpy(file->command_line, "python launch.py --xformers --api");
    strcpy(file->torch_version, "2.15.0");
    strcpy(file->alloc_conf, "expandable_segments:True");
    strcpy(file->alloc_conf_why, "chosen by vramgc");
    file->chose_segments = 1;
    strcpy(file->mode, "flush");
    strcpy(file->mode_why, "a device cannot map memory page by page");
    file->end = VRAMGC_END_STATUS;
    file->end_status = 0;
    set_setting(file, "mode", "auto", "default");
    set_setting(file, "threshold", "70.0", "environment");
    set_setting(file, "lowvram", "0", "default");
    set_hook(file, "cudaMalloc", 12480, 3);
    set_hook(file, "cudaFree", 12401, 0);
    set_hook(file, "cuEventRecord", 0, 0); /* which only vramgc calls: nothing to tell */
}

/* A saw tooth: grows and falls, so that the graph shows something. */
void set_samples(struct vramgc_device *device, uint64_t held_peak, uint64_t live_peak,
                 uint64_t others) {
    device->sample_step_ns = 34 * SECOND;
    device->sample_count = 128;
    for (uint64_t i = 0; i < device->sample_count; i++) {
        uint64_t part = i % 32;
        struct vramgc_sample *sample = &device->samples[i];
        sample->time_ns = i * device->sample_step_ns;
        sample->held_bytes = held_peak / 32 * (part + 1);
        sample->allocated_bytes = live_peak / 32 * (part + 1);
        sample->reserved_bytes = sample->held_bytes;
        sample->used_bytes = sample->held_bytes + others;
        sample->others_bytes = others;
        sample->held_low_bytes = sample->held_bytes;
        sample->allocated_low_bytes = sample->allocated_bytes;
    }
}

void set_device(struct vramgc_file *file, size_t index, const char *name) {
    struct vramgc_device *device = &file->devices[index];
    struct vramgc_device_stats *s = &device->stats;
    file->device_count = (uint32_t)index + 1;
    device->present = 1;
    device->worked_ns = 4200 * SECOND;
    device->total_bytes = 24 * GIB;
    device->compute_major = 8;
    device->compute_minor = 6;
    strcpy(device->name, name);
    strcpy(device->bus_id, "0000:01:00.0");
    s->held_bytes = gauge(2 * GIB, 8 * GIB);
    s->reserved_bytes = gauge(1900 * MIB, 7900 * MIB);
    s->allocated_bytes = s->live_bytes = gauge(1800 * MIB, 7168 * MIB);
    s->active_bytes = gauge(1800 * MIB, 7200 * MIB);
    s->idle_bytes = gauge(64 * MIB, 640 * MIB);
    s->releasable_bytes = gauge(60 * MIB, 700 * MIB);
    s->inactive_split_bytes = gauge(40 * MIB, 300 * MIB);
    s->other_bytes = gauge(72 * MIB, 72 * MIB);
    s->pinned_bytes = gauge(1, 1); /* as PyTorch does */
    s->used_bytes = gauge(2 * GIB + 600 * MIB, 8 * GIB + 600 * MIB);
    s->others_bytes = gauge(600 * MIB, 600 * MIB);
    s->segments = gauge(97, 214);
    s->blocks = gauge(1200, 4400);
    s->largest_hole_bytes = gauge(50 * MIB, 200 * MIB);
    s->page_waste_bytes = gauge(30 * MIB, 250 * MIB);
    s->block_allocs = 480123;
    s->block_frees = 478923;
    s->block_alloc_bytes = 900 * GIB;
    s->driver_calls = 25000;
    s->held_over_live_events = 900000;
    s->held_over_live_sum = 1045000000;
    s->held_sum_kib = 5400000000000;
    s->live_sum_kib = 5000000000000;
    s->held_ms_sum_kib = 6000000000000;
    s->live_ms_sum_kib = 5000000000000;
    set_samples(device, 8 * GIB, 7168 * MIB, 600 * MIB);
}

void add_action(struct vramgc_file *file, uint64_t time_ns, uint32_t kind, uint32_t observed) {
    uint64_t number = file->actions_written++;
    struct vramgc_action *action = &file->actions[number % VRAMGC_MAX_ACTIONS];
    *action = (struct vramgc_action){.sequence = number + 1,
                                     .time_ns = time_ns,
                                     .took_ns = observed ? 0 : 38 * 1000000,
                                     .before_bytes = 6 * GIB,
                                     .after_bytes = 1 * GIB,
                                     .net_bytes = observed ? 0 : 4 * GIB,
                                     .held_bytes = 2 * GIB,
                                     .used_bytes = 20 * GIB,
                                     .request_bytes = 512 * MIB,
                                     .kind = kind,
                                     .reason = VRAMGC_REASON_THRESHOLD,
                                     .observed = observed};
    strcpy(action->function, "vae_decode");
    struct vramgc_device_stats *s = &file->devices[0].stats;
    if (observed) {
        s->would_reclaims++;
        return;
    }
    s->reclaims++;
    s->reclaimed_bytes += 5 * GIB;
    s->reclaim_ns += 38 * 1000000;
}

void add_refusal(struct vramgc_file *file, uint64_t time_ns, uint32_t cause, uint32_t granted) {
    uint64_t number = file->refusals_written++;
    file->refusals[number % VRAMGC_MAX_REFUSALS] =
        (struct vramgc_refusal){.sequence = number + 1,
                                .time_ns = time_ns,
                                .request_bytes = 1536 * MIB,
                                .free_bytes = (cause == VRAMGC_CAUSE_ROUNDED ? 1538 : 700) * MIB,
                                .idle_bytes = cause == VRAMGC_CAUSE_FRAGMENTED ? 4 * GIB : 0,
                                .holes = 5,
                                .hole_bytes = 2200 * MIB,
                                .largest_hole_bytes = 1100 * MIB,
                                .allocated_bytes = 17 * GIB,
                                .reserved_bytes = 8 * GIB,
                                .held_bytes = 22 * GIB,
                                .other_bytes = 200 * MIB,
                                .total_bytes = 24 * GIB,
                                .reported = !granted,
                                .cause = cause,
                                .granted = granted,
                                .stack = file->stack_count > 0};
    file->devices[0].stats.refusals += cause != VRAMGC_CAUSE_LIMIT;
}

void add_mark(struct vramgc_file *file, uint64_t time_ns, const char *label) {
    uint64_t number = file->marks_written++;
    struct vramgc_mark *mark = &file->marks[number % VRAMGC_MAX_MARKS];
    mark->sequence = number + 1;
    mark->time_ns = time_ns;
    strcpy(mark->label, label);
}

void add_job(struct vramgc_file *file, uint64_t time_ns, uint64_t host_bytes) {
    uint64_t number = ++file->jobs_written;
    file->jobs[number - 1] = (struct vramgc_job){.sequence = number,
                                                 .time_ns = time_ns,
                                                 .took_ns = 14 * SECOND,
                                                 .number = number,
                                                 .peak_live_bytes = 17 * GIB,
                                                 .peak_held_bytes = 18 * GIB,
                                                 .live_bytes = (2000 + 96 * number) * MIB,
                                                 .host_bytes = host_bytes,
                                                 .pinned_bytes = 64 * MIB};
}

void add_stack(struct vramgc_file *file) {
    struct vramgc_stack *stack = &file->stacks[file->stack_count++];
    stack->count = 17;
    stack->bytes = 3 * GIB;
    stack->frame_count = 2;
    stack->frames[0].address = 0x7f0000001234;
    strcpy(stack->frames[0].text, "cudaMalloc+0x14 (libcudart.so.12)");
    stack->frames[1].address = 0x7f0000005678;
}

void add_site(struct vramgc_file *file, const char *function, const char *name, uint32_t line,
              const char *phase) {
    struct vramgc_site *site = &file->sites[file->site_count++];
    strcpy(site->function, function);
    strcpy(site->file, name);
    strcpy(site->phase, phase);
    site->line = line;
}

/* Head-room, a cap, another program that gave to this one, and one that this one gave to. */
void set_sharing(struct vramgc_file *file) {
    struct vramgc_device *device = &file->devices[0];
    file->limits = (struct vramgc_limits){.headroom = 2 * GIB, .cap = 20 * GIB};
    device->giver = (struct vramgc_giver){.pid = 1234, .several = 1, .name = "llama-server"};
    device->stats.peer_bytes = 3 * GIB;
    device->stats.peer_waits = 2;
    device->stats.peer_wait_ns = SECOND / 250;
    struct vramgc_action *action = &file->actions[11];
    action->reason = VRAMGC_REASON_PEER;
    action->asker = 4321;
    strcpy(action->asker_name, "comfyui");
}

/* caller: 1 + index of a call, 0: nobody. */
void add_call(struct vramgc_file *file, uint32_t caller, uint32_t site) {
    file->calls[file->call_count++] = (struct vramgc_call){caller, site};
}

void add_owner(struct vramgc_owners *owners, uint32_t site, uint64_t bytes) {
    owners->list[owners->count++] =
        (struct vramgc_owner){.site = site, .bytes = bytes, .blocks = 12};
}

void add_who(struct vramgc_file *file, uint64_t second, uint64_t live_bytes,
             const uint64_t of_site[3]) {
    struct vramgc_device *device = &file->devices[0];
    struct vramgc_who *who = &device->who[device->who_count++];
    *who = (struct vramgc_who){.time_ns = second * SECOND, .live_bytes = live_bytes};
    for (uint32_t i = 0; i < 3; i++)
        if (of_site[i] > 0) {
            who->sites[who->count] = i;
            who->kib[who->count++] = (uint32_t)(of_site[i] / 1024);
            who->works = i + 1;
        }
}

void add_library(struct vramgc_file *file, const char *name, struct vramgc_gauge held) {
    file->library_count += file->library_count == 0; /* the first is nobody's */
    file->devices[0].of_libraries[file->library_count] = held;
    strcpy(file->libraries[file->library_count++].name, name);
}

void add_owners(struct vramgc_file *file) {
    struct vramgc_device *device = &file->devices[0];
    add_site(file, "load_model", "modules/sd_models.py", 310, "");
    add_site(file, "encode_prompt", "sd/pipeline.py", 212, "text encode");
    add_site(file, "_decode", "models/vae_\xc3\xa9.py", 88, "VAE");
    device->owners_at_peak.live_bytes = 7168 * MIB;
    add_owner(&device->owners_at_peak, 0, 5 * GIB);
    add_owner(&device->owners_at_peak, 2, 1600 * MIB);
    device->owners_at_oom.live_bytes = 6 * GIB;
    add_owner(&device->owners_at_oom, 0, 5 * GIB);
    add_owner(&device->owners_at_oom, 1, 700 * MIB);
    device->owners_grown.live_bytes = 100 * MIB;
    add_owner(&device->owners_grown, 1, 90 * MIB);
    file->refusals[2].site = 2;
    file->latest_site = 2;
}

void plain(struct vramgc_file *file) {
    set_head(file);
    set_device(file, 0, "NVIDIA GeForce RTX 3090");
    for (uint64_t i = 0; i < 12; i++)
        add_action(file, (300 + 290 * i) * SECOND, 1 + (uint32_t)(i % 3), 0);
}

bool make_one_of(struct vramgc_file *file, const struct scenario *scenarios, size_t count,
                 const char *name) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(name, scenarios[i].name) == 0) {
            scenarios[i].make(file);
            return true;
        }
    return false;
}
