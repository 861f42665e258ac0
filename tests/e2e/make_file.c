/* make_file.c: see make_file.h. */
#include "make_file.h"

#include <stdio.h>
#include <string.h>

#define MIB    ((uint64_t)1 << 20)
#define GIB    ((uint64_t)1 << 30)
#define SECOND ((uint64_t)1000000000)

static struct vramgc_gauge gauge(uint64_t current, uint64_t peak) {
    return (struct vramgc_gauge){current, peak};
}

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

static void set_head(struct vramgc_file *file) {
    memcpy(file->magic, VRAMGC_MAGIC, sizeof file->magic);
    file->format_version = VRAMGC_FORMAT_VERSION;
    file->file_bytes = sizeof *file;
    file->pid = 4194305; /* larger than a pid can be: this process has never lived */
    file->parent_pid = 4194304;
    file->process_start = 123456;
    file->started_unix_ns = 1735732800 * SECOND;
    file->started_ns = 1000 * SECOND;
    file->latest_ns = file->started_ns + 4328 * SECOND;
    file->cuda_driver = 13000;
    strcpy(file->version, "0.1.0");
    strcpy(file->executable, "/usr/bin/python3.11");
    strcpy(file->command_line, "python launch.py --xformers --api");
    strcpy(file->torch_version, "2.15.0");
    strcpy(file->alloc_conf, "expandable_segments:True");
    strcpy(file->alloc_conf_why, "chosen by vramgc");
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
static void set_samples(struct vramgc_device *device, uint64_t held_peak, uint64_t live_peak,
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
    }
}

static void set_device(struct vramgc_file *file, size_t index, const char *name) {
    struct vramgc_device *device = &file->devices[index];
    struct vramgc_device_stats *s = &device->stats;
    file->device_count = (uint32_t)index + 1;
    device->present = 1;
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
    set_samples(device, 8 * GIB, 7168 * MIB, 600 * MIB);
}

static void add_action(struct vramgc_file *file, uint64_t time_ns, uint32_t kind,
                       uint32_t observed) {
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

static void add_refusal(struct vramgc_file *file, uint64_t time_ns, uint32_t cause,
                        uint32_t granted) {
    uint64_t number = file->refusals_written++;
    file->refusals[number % VRAMGC_MAX_REFUSALS] =
        (struct vramgc_refusal){.sequence = number + 1,
                                .time_ns = time_ns,
                                .request_bytes = 1536 * MIB,
                                .free_bytes = (cause == VRAMGC_REFUSAL_ROUNDED ? 1538 : 700) * MIB,
                                .idle_bytes = cause == VRAMGC_REFUSAL_FRAGMENTED ? 4 * GIB : 0,
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
    file->devices[0].stats.refusals += cause != VRAMGC_REFUSAL_LIMIT;
}

static void add_mark(struct vramgc_file *file, uint64_t time_ns, const char *label) {
    uint64_t number = file->marks_written++;
    struct vramgc_mark *mark = &file->marks[number % VRAMGC_MAX_MARKS];
    mark->sequence = number + 1;
    mark->time_ns = time_ns;
    strcpy(mark->label, label);
}

static void add_job(struct vramgc_file *file, uint64_t time_ns, uint64_t host_bytes) {
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

static void add_stack(struct vramgc_file *file) {
    struct vramgc_stack *stack = &file->stacks[file->stack_count++];
    stack->count = 17;
    stack->bytes = 3 * GIB;
    stack->frame_count = 2;
    stack->frames[0].address = 0x7f0000001234;
    strcpy(stack->frames[0].text, "cudaMalloc+0x14 (libcudart.so.12)");
    stack->frames[1].address = 0x7f0000005678;
}

static void plain(struct vramgc_file *file) {
    set_head(file);
    set_device(file, 0, "NVIDIA GeForce RTX 3090");
    for (uint64_t i = 0; i < 12; i++)
        add_action(file, (300 + 290 * i) * SECOND, 1 + (uint32_t)(i % 3), 0);
}

static void add_site(struct vramgc_file *file, const char *function, const char *name,
                     uint32_t line, const char *phase) {
    struct vramgc_site *site = &file->sites[file->site_count++];
    strcpy(site->function, function);
    strcpy(site->file, name);
    strcpy(site->phase, phase);
    site->line = line;
}

static void add_owner(struct vramgc_owners *owners, uint32_t site, uint64_t bytes) {
    owners->list[owners->count++] =
        (struct vramgc_owner){.site = site, .bytes = bytes, .blocks = 12};
}

static void add_owners(struct vramgc_file *file) {
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
}

static void fragmented(struct vramgc_file *file) {
    plain(file);
    add_stack(file);
    add_refusal(file, 3451 * SECOND, VRAMGC_REFUSAL_FRAGMENTED, 0);
    add_refusal(file, 3835 * SECOND, VRAMGC_REFUSAL_FRAGMENTED, 1);
    add_refusal(file, 4149 * SECOND, VRAMGC_REFUSAL_FULL, 0);
    add_mark(file, 100 * SECOND, "model \"SDXL\" loaded \xc3\xa9");
    add_job(file, 200 * SECOND, 6 * GIB);
    add_job(file, 300 * SECOND, 6 * GIB);
    add_owners(file);
    file->devices[0].stats.ooms = 1;
    file->end_status = 9;
}

static void full(struct vramgc_file *file) {
    plain(file);
    add_refusal(file, 4149 * SECOND, VRAMGC_REFUSAL_FULL, 0);
    add_refusal(file, 4150 * SECOND, VRAMGC_REFUSAL_ROUNDED, 0);
    file->devices[0].stats.ooms = 2;
    file->end = VRAMGC_END_UNKNOWN;
}

/* A memory fraction: PyTorch is out of memory, and nobody has refused it any. */
static void limit(struct vramgc_file *file) {
    plain(file);
    add_refusal(file, 4100 * SECOND, VRAMGC_REFUSAL_LIMIT, 0);
    file->devices[0].stats.ooms = 3;
}

/* Some of it, and one refusal beside it. */
static void limit_and_full(struct vramgc_file *file) {
    limit(file);
    add_refusal(file, 4149 * SECOND, VRAMGC_REFUSAL_FULL, 0);
}

static void two_devices(struct vramgc_file *file) {
    set_head(file);
    set_device(file, 0, "NVIDIA GeForce RTX 3090");
    set_device(file, 2, "NVIDIA RTX 6000 Ada Generation with a name that is far too long");
    file->devices[2].stats.used_bytes = gauge(0, 0);
    file->devices[2].sample_count = 0;
    file->devices[0].stats.allocated_bytes = file->devices[0].stats.live_bytes =
        gauge(1800 * MIB, 2 * GIB);
    set_samples(&file->devices[0], 8 * GIB, 2 * GIB, 0);
    file->end = VRAMGC_END_EXIT;
}

/* Much was idle for too short a time to go back. */
static void idle_lowvram(struct vramgc_file *file) {
    two_devices(file);
    strcpy(file->settings[2].value, "1");
}

static void unknown(struct vramgc_file *file) {
    set_head(file);
    file->device_count = 1;
    file->devices[0].present = 1;
    file->devices[0].stats.held_bytes = gauge(0, 64 * MIB);
    memset(file->version, 0, sizeof file->version);
    memset(file->torch_version, 0, sizeof file->torch_version);
}

/* The timeline missed the moments when most was live. */
static void observe(struct vramgc_file *file) {
    set_head(file);
    set_device(file, 0, "NVIDIA GeForce RTX 3090");
    set_samples(&file->devices[0], 8 * GIB, 3 * GIB, 600 * MIB);
    strcpy(file->mode, "observe");
    strcpy(file->mode_why, "asked for");
    for (uint64_t i = 0; i < 3; i++)
        add_action(file, (300 + 290 * i) * SECOND, VRAMGC_ACTION_FLUSH, 1);
}

/* Mode compact: more is reserved than the card has, and hardly more held than live. What others had
 * at the peak is not known. */
static void compact(struct vramgc_file *file) {
    set_head(file);
    set_device(file, 0, "NVIDIA GeForce RTX 3070");
    struct vramgc_device_stats *s = &file->devices[0].stats;
    strcpy(file->command_line, "/home/someone/stable-diffusion-webui/venv/bin/python -u launch.py "
                               "--xformers --api --listen --medvram");
    strcpy(file->alloc_conf, "garbage_collection_threshold:0.80,max_split_size_mb:512,"
                             "expandable_segments:True");
    strcpy(file->alloc_conf_why, "the program's choice, a reason that is longer than what is left "
                                 "of a line of the terminal");
    strcpy(file->mode, "compact");
    strcpy(file->mode_why, "PyTorch 2.99.0+cu132, newer than 2.15, has known block events; "
                           "driver 13.0, self-test passed on gpu0");
    s->reserved_bytes = gauge(9 * GIB, 11 * GIB);
    s->page_bytes = gauge(2100 * MIB, 7500 * MIB);
    s->held_bytes = gauge(2200 * MIB, 7600 * MIB);
    s->allocated_bytes = s->live_bytes = gauge(2000 * MIB, 7300 * MIB);
    s->used_bytes = gauge(2500 * MIB, 5000 * MIB);
    file->devices[0].total_bytes = 8 * GIB;
    add_action(file, 3000 * SECOND, VRAMGC_ACTION_PAGES, 0);
    file->actions[0].net_bytes = 5 * GIB; /* and nothing of it was taken anew */
    s->page_maps = 412345;
    s->page_unmaps = 408595;
    s->page_waits = 3;
    s->page_calls = 61234;
    s->refused_block_bytes = 576 * MIB;
    set_samples(&file->devices[0], 7600 * MIB, 7300 * MIB, 0);
    for (size_t i = 0; i < file->devices[0].sample_count; i++)
        file->devices[0].samples[i].used_bytes = 600 * MIB; /* read before all that */
    s->others_bytes = gauge(300 * MIB, 300 * MIB);
    s->allocated_bytes.peak += 576 * MIB; /* with what never got memory */
    s->refused_blocks = 1;
    file->end = VRAMGC_END_EXIT;
}

/* PyTorch's allocator is the driver's pool, of whose segments and errors nothing is told. */
static void pool(struct vramgc_file *file) {
    set_head(file);
    set_device(file, 0, "NVIDIA GeForce RTX 3070");
    struct vramgc_device_stats *s = &file->devices[0].stats;
    strcpy(file->alloc_conf, "backend:cudaMallocAsync");
    strcpy(file->mode_why, "PyTorch uses cudaMallocAsync, whose pool is trimmed");
    file->driver_pool = 1;
    s->pool_bytes = gauge(2 * GIB, 6 * GIB);
    s->segments = gauge(0, 0);
    file->end = VRAMGC_END_EXIT;
}

/* The same, and the pool keeps much. */
static void pool_idle(struct vramgc_file *file) {
    pool(file);
    file->devices[0].stats.allocated_bytes = file->devices[0].stats.live_bytes =
        gauge(1800 * MIB, 4 * GIB);
}

/* Much is held by others than PyTorch, which holds little without need. */
static void others(struct vramgc_file *file) {
    set_head(file);
    set_device(file, 0, "NVIDIA GeForce RTX 3090");
    struct vramgc_device_stats *s = &file->devices[0].stats;
    s->reserved_bytes = gauge(100 * MIB, 3 * GIB);
    s->allocated_bytes = s->live_bytes = gauge(90 * MIB, 2560 * MIB);
    s->other_bytes = gauge(1900 * MIB, 6 * GIB);
    set_samples(&file->devices[0], 8 * GIB, 2560 * MIB, 600 * MIB);
}

/* The same, and PyTorch holds more than it needs, too, for nobody has proven the card. */
static void others_idle(struct vramgc_file *file) {
    others(file);
    strcpy(file->mode, "flush");
    strcpy(file->mode_why, "no proof yet that gpu0 bears compact: run `vramgc prove`, a minute");
    file->needs_proof = 1;
    file->devices[0].stats.page_waste_bytes = gauge(10 * MIB, 128 * MIB);
    file->devices[0].stats.reserved_bytes = gauge(100 * MIB, 4 * GIB);
}

/* All bytes set, but for what makes the file look like one. Texts do not end, enums are unknown. */
static void hostile(struct vramgc_file *file) {
    memset(file, 0xff, sizeof *file);
    memcpy(file->magic, VRAMGC_MAGIC, sizeof file->magic);
    file->format_version = VRAMGC_FORMAT_VERSION;
    file->file_bytes = sizeof *file;
    memcpy(file->command_line, "\x1b]0;owned\x07\x1b[2J\xc2\x9b\xe2\x80\xae", 17);
    for (size_t i = 0; i < VRAMGC_MAX_ACTIONS; i++) {
        uint64_t first = UINT64_MAX - VRAMGC_MAX_ACTIONS;
        file->actions[(first + i) % VRAMGC_MAX_ACTIONS].sequence = first + i + 1;
    }
    for (size_t i = 0; i < VRAMGC_MAX_REFUSALS; i++) {
        uint64_t first = UINT64_MAX - VRAMGC_MAX_REFUSALS;
        file->refusals[(first + i) % VRAMGC_MAX_REFUSALS].sequence = first + i + 1;
    }
}

/* Wherever the program has a say, it says markup. */
static void markup(struct vramgc_file *file) {
    static const char says[] =
        "</script><script>owned=1</script><img src=x onerror='owned=2'>\"&amp;";
    fragmented(file);
    snprintf(file->command_line, sizeof file->command_line, "python %s", says);
    snprintf(file->alloc_conf, sizeof file->alloc_conf, "%s", says);
    snprintf(file->devices[0].name, sizeof file->devices[0].name, "%s", "<b onclick=owned=3>GPU");
    snprintf(file->actions[0].function, sizeof file->actions[0].function, "%.60s", says);
    snprintf(file->stacks[0].frames[0].text, sizeof file->stacks[0].frames[0].text, "%s", says);
    snprintf(file->settings[0].value, sizeof file->settings[0].value, "%s", says);
    add_mark(file, 200 * SECOND, "<!--<script>owned=4</script>");
}

/* On a card that is nearly full LoRAs were loaded once, which needed more than any job. */
static void short_peak(struct vramgc_file *file) {
    plain(file);
    struct vramgc_device *device = &file->devices[0];
    device->total_bytes = 9 * GIB;
    for (uint64_t i = 0; i < device->sample_count; i++)
        device->samples[i].allocated_bytes = i == 50 ? 7168 * MIB : 6 * GIB;
    for (uint32_t i = 0; i < 3; i++)
        add_refusal(file, SECOND, i < 2 ? VRAMGC_REFUSAL_FULL : VRAMGC_REFUSAL_ROUNDED, i < 2);
    add_owners(file);
    strcpy(file->sites[0].phase, "model move");
    strcpy(file->sites[0].function, "forward_comfy_cast_weights");
    strcpy(file->sites[1].function, "load_from_state_dict");
    strcpy(file->sites[1].file, "modules/sd_disable_initialization.py");
    strcpy(file->sites[1].phase, "model move");
}

/* The second device is there and not counted, and says that it has more samples than there are. */
static void uncounted(struct vramgc_file *file) {
    two_devices(file);
    file->device_count = 2;
    file->devices[2].stats.used_bytes = gauge(GIB, GIB);
    file->devices[2].sample_count = (uint64_t)1 << 40;
}

enum { HOST_JOBS = 36 };

/* Models are loaded in the first jobs; then each leaves a little. A few tens of MiB come and go. */
static void host_growth(struct vramgc_file *file) {
    plain(file);
    for (uint64_t i = 0; i < HOST_JOBS; i++)
        add_job(file, i * SECOND, (i < 3 ? i : 3) * GIB + 120 * i * MIB + i % 3 * 20 * MIB);
}

static void host_loaded(struct vramgc_file *file) {
    plain(file);
    for (uint64_t i = 0; i < HOST_JOBS; i++)
        add_job(file, i * SECOND, (i < 6 ? i : 6) * GIB + i % 5 * 40 * MIB);
}

/* A cache fills until two thirds, and stays. */
static void host_cache(struct vramgc_file *file) {
    plain(file);
    for (uint64_t i = 0; i < HOST_JOBS; i++)
        add_job(file, i * SECOND, (i < 24 ? i : 24) * 200 * MIB + i % 3 * 10 * MIB + 2 * GIB);
}

/* One model more in the midst of the run. */
static void host_model(struct vramgc_file *file) {
    plain(file);
    for (uint64_t i = 0; i < HOST_JOBS; i++)
        add_job(file, i * SECOND, 2 * GIB + (i > 0) * GIB + (i > 20) * 4 * GIB + i * MIB);
}

bool make_file(struct vramgc_file *file, const char *scenario) {
    static const struct {
        const char *name;
        void (*make)(struct vramgc_file *file);
    } scenarios[] = {{"plain", plain},
                     {"fragmented", fragmented},
                     {"full", full},
                     {"two-devices", two_devices},
                     {"idle-lowvram", idle_lowvram},
                     {"unknown", unknown},
                     {"observe", observe},
                     {"compact", compact},
                     {"others", others},
                     {"pool", pool},
                     {"others-idle", others_idle},
                     {"pool-idle", pool_idle},
                     {"limit", limit},
                     {"limit-and-full", limit_and_full},
                     {"short-peak", short_peak},
                     {"uncounted", uncounted},
                     {"host-growth", host_growth},
                     {"host-loaded", host_loaded},
                     {"host-cache", host_cache},
                     {"host-model", host_model},
                     {"markup", markup},
                     {"hostile", hostile}};
    memset(file, 0, sizeof *file);
    for (size_t i = 0; i < sizeof scenarios / sizeof scenarios[0]; i++)
        if (strcmp(scenario, scenarios[i].name) == 0) {
            scenarios[i].make(file);
            return true;
        }
    return false;
}
