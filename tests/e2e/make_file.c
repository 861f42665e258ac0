/* make_file.c: see make_file.h. */
#include "make_file.h"
#include "make_file_parts.h"

#include <stdio.h>
#include <string.h>

/* generate() is called by two, and of what _decode had not all callers are known. */
static void add_calls(struct vramgc_file *file) {
    struct vramgc_device *device = &file->devices[0];
    add_site(file, "generate", "modules/processing.py", 900, "");
    add_site(file, "img;2 img", "modules/img2img.py", 1, "");
    add_call(file, 0, 0); /* load_model */
    add_call(file, 0, 3);
    add_call(file, 2, 2); /* generate, _decode */
    add_call(file, 0, 4);
    add_call(file, 4, 3);
    add_call(file, 5, 2); /* img2img, generate, _decode */
    add_call(file, 2, 1); /* generate, encode_prompt */
    add_owner(&device->calls_at_peak, 0, 5 * GIB);
    add_owner(&device->calls_at_peak, 5, 900 * MIB);
    add_owner(&device->calls_at_peak, 2, 500 * MIB);
    add_owner(&device->calls_at_oom, 0, 5 * GIB);
    add_owner(&device->calls_at_oom, 6, 700 * MIB);
}

/* The model stays, and each of three jobs encodes, then decodes. */
static void add_who_over_time(struct vramgc_file *file) {
    add_who(file, 300, 5 * GIB, (const uint64_t[]){5 * GIB, 0, 0});
    for (uint64_t i = 0; i < 3; i++) {
        add_who(file, 900 + 1000 * i, 6 * GIB, (const uint64_t[]){5 * GIB, 900 * MIB, 0});
        add_who(file, 1200 + 1000 * i, 7 * GIB, (const uint64_t[]){5 * GIB, 0, 1600 * MIB});
        add_who(file, 1400 + 1000 * i, 5 * GIB, (const uint64_t[]){5 * GIB, 40 * MIB, 0});
    }
}

static void fragmented(struct vramgc_file *file) {
    plain(file);
    add_stack(file);
    add_refusal(file, 3451 * SECOND, VRAMGC_CAUSE_FRAGMENTED, 0);
    add_refusal(file, 3835 * SECOND, VRAMGC_CAUSE_FRAGMENTED, 1);
    add_refusal(file, 4149 * SECOND, VRAMGC_CAUSE_FULL, 0);
    add_mark(file, 100 * SECOND, "model \"SDXL\" loaded \xc3\xa9");
    add_job(file, 200 * SECOND, 6 * GIB);
    add_job(file, 300 * SECOND, 6 * GIB);
    add_owners(file);
    add_calls(file);
    add_who_over_time(file);
    file->devices[0].stats.ooms = 2;
    file->end_status = 9;
}

static void went_on(struct vramgc_file *file) {
    fragmented(file);
    file->refusals[0].reported = file->refusals[2].reported = VRAMGC_WENT_ON;
}

/* Many have a little at the peak; who has most at the out-of-memory has nothing then. */
static void other_at_oom(struct vramgc_file *file) {
    fragmented(file);
    for (uint32_t i = 0; i < 6; i++) {
        add_site(file, "small", "modules/small.py", i + 1, "");
        add_owner(&file->devices[0].owners_at_peak, 3 + i, 10 * MIB);
    }
}

/* Most of what it holds is idle. */
static void rests(struct vramgc_file *file) {
    plain(file);
    file->devices[0].stats.live_bytes = gauge(748 * MIB, 7 * GIB);
}

static void full(struct vramgc_file *file) {
    plain(file);
    add_refusal(file, 4149 * SECOND, VRAMGC_CAUSE_FULL, 0);
    add_refusal(file, 4150 * SECOND, VRAMGC_CAUSE_ROUNDED, 0);
    file->devices[0].stats.ooms = 2;
    file->end = VRAMGC_END_UNKNOWN;
}

/* A memory fraction: PyTorch is out of memory, and nobody has refused it any. */
static void limit(struct vramgc_file *file) {
    plain(file);
    add_refusal(file, 4100 * SECOND, VRAMGC_CAUSE_LIMIT, 0);
    file->devices[0].stats.ooms = 3;
}

/* A loop keeps each tensor; nothing was freed, so that there is no floor that rises. */
static void pile(struct vramgc_file *file) {
    struct vramgc_owners *owners = &file->devices[0].owners_at_oom;
    full(file);
    add_site(file, "gather", "job/video.py", 7, "");
    owners->live_bytes = 17 * GIB;
    add_owner(owners, 0, 9 * 1536 * MIB);
    owners->list[0].blocks = 9;
    file->refusals[0].site = file->refusals[1].site = 1;
    file->refusals[1].free_bytes = 700 * MIB;
}

/* Another process came after the first of two errors. */
static void process_later(struct vramgc_file *file) {
    plain(file);
    add_refusal(file, 4100 * SECOND, VRAMGC_CAUSE_FULL, 0);
    add_refusal(file, 4149 * SECOND, VRAMGC_CAUSE_FULL, 0);
    struct vramgc_device *device = &file->devices[0];
    device->stats.ooms = 2;
    device->neighbours.time_ns = 4150 * SECOND;
    device->neighbours.list[device->neighbours.count++] =
        (struct vramgc_neighbour){.pid = 812, .bytes = 4 * GIB, .name = "ollama"};
}

/* Another card has room for all of it: 18.7 GiB. */
static void other_card(struct vramgc_file *file) {
    full(file);
    file->devices[0].other_card = (struct vramgc_other_card){
        .time_ns = 4150 * SECOND, .free_bytes = 22 * GIB, .number = 1, .name = "NVIDIA RTX A5000"};
}

/* Enough for the request, and not for what is live beside it. */
static void other_card_small(struct vramgc_file *file) {
    other_card(file);
    file->devices[0].other_card.free_bytes = 10 * GIB;
}

/* Some of it, and one refusal beside it. */
static void limit_and_full(struct vramgc_file *file) {
    limit(file);
    add_refusal(file, 4149 * SECOND, VRAMGC_CAUSE_FULL, 0);
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

static void shared(struct vramgc_file *file) {
    plain(file);
    set_sharing(file);
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

/* The timeline missed the moments when most was live. A phase is the user's own. */
static void observe(struct vramgc_file *file) {
    set_head(file);
    set_device(file, 0, "NVIDIA GeForce RTX 3090");
    set_samples(&file->devices[0], 8 * GIB, 3 * GIB, 600 * MIB);
    add_owners(file);
    file->devices[0].owners_at_oom.count = 0;
    strcpy(file->sites[0].phase, "face fix of my own");
    strcpy(file->sites[0].function, "forward_comfy_cast_weights_and_more");
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
                           "driver 580, self-test passed on gpu0");
    s->reserved_bytes = gauge(9 * GIB, 11 * GIB);
    s->page_bytes = gauge(2100 * MIB, 7500 * MIB);
    s->held_bytes = gauge(2200 * MIB, 7600 * MIB);
    s->allocated_bytes = s->live_bytes = gauge(2000 * MIB, 7300 * MIB);
    s->used_bytes = gauge(2500 * MIB, 5000 * MIB);
    file->devices[0].total_bytes = 8 * GIB;
    add_action(file, 3000 * SECOND, VRAMGC_ACTION_PAGES, 0);
    file->actions[0].until_ns = 3045 * SECOND;
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
    add_library(file, "weights\xc3\xa9-of-a-manager-with-a-long-name.so", gauge(GIB, 5 * GIB));
    add_library(file, "libnccl.so.2", gauge(100 * MIB, 100 * MIB));
    set_samples(&file->devices[0], 8 * GIB, 2560 * MIB, 600 * MIB);
}

/* The same, and PyTorch holds more than it needs, too, for nobody has proven the card. */
static void others_idle(struct vramgc_file *file) {
    others(file);
    strcpy(file->mode, "flush");
    strcpy(file->mode_why, "compact is not tested yet on gpu0: run `vramgc prove`, a minute");
    file->needs_proof = 1;
    file->devices[0].stats.page_waste_bytes = gauge(10 * MIB, 128 * MIB);
    file->devices[0].stats.reserved_bytes = gauge(100 * MIB, 5 * GIB);
}

/* The same, but what is idle is little beside what the others hold. */
static void others_mostly(struct vramgc_file *file) {
    others_idle(file);
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
        add_refusal(file, SECOND, i < 2 ? VRAMGC_CAUSE_FULL : VRAMGC_CAUSE_ROUNDED, i < 2);
    add_owners(file);
    strcpy(file->sites[0].phase, "model move");
    strcpy(file->sites[0].function, "forward_comfy_cast_weights");
    strcpy(file->sites[1].function, "load_from_state_dict");
    strcpy(file->sites[1].file, "modules/sd_disable_initialization.py");
    strcpy(file->sites[1].phase, "model move");
}

/* The same where nobody knows that the first one moves models: it had as much all the time. */
static void short_peak_resident(struct vramgc_file *file) {
    short_peak(file);
    *file->sites[0].phase = 0;
    add_who(file, 300, 6 * GIB, (const uint64_t[]){5 * GIB, 0, 0});
}

/* The script itself, outside of its functions. */
static void script(struct vramgc_file *file) {
    short_peak(file);
    strcpy(file->sites[0].function, "<module>");
    strcpy(file->sites[1].function, "<module>");
}

/* The VAE asks, of a web UI with an option for little memory. */
static void vae_rounded(struct vramgc_file *file) {
    short_peak(file);
    strcpy(file->command_line, "/home/a/stable-diffusion-webui/python launch.py --lowvram");
    strcpy(file->sites[0].phase, "VAE");
    strcpy(file->sites[1].phase, "VAE");
}

static void vae(struct vramgc_file *file) {
    vae_rounded(file);
    for (uint64_t i = 0; i < file->refusals_written; i++)
        file->refusals[i].cause = VRAMGC_CAUSE_FULL;
}

/* Other code than PyTorch's cache asks, and who it was is known. */
static void other_code(struct vramgc_file *file) {
    short_peak(file);
    for (uint64_t i = 0; i < file->refusals_written; i++)
        file->refusals[i].reported = 0;
}

/* The second device is there and not counted, and says that it has more samples than there are. */
static void uncounted(struct vramgc_file *file) {
    two_devices(file);
    file->device_count = 2;
    file->devices[2].stats.used_bytes = gauge(GIB, GIB);
    file->devices[2].sample_count = (uint64_t)1 << 40;
}

/* What stays on the card grows, evenly. */
static void growing(struct vramgc_file *file) {
    plain(file);
    struct vramgc_floors *floors = &file->devices[0].floors;
    floors->merged = 1;
    for (floors->turns = 0; floors->turns < 40; floors->turns++)
        floors->bytes[floors->count++] = GIB + floors->turns * 64 * MIB;
}

static void unread(struct vramgc_file *file) {
    plain(file);
    for (uint64_t i = 0; i < file->devices[0].sample_count; i++)
        file->devices[0].samples[i].others_bytes = 0; /* the card was not read */
}

static void many_marks(struct vramgc_file *file) {
    plain(file);
    for (uint64_t i = 0; i < 9; i++)
        add_mark(file, (200 + i) * SECOND, "job");
}

bool make_file(struct vramgc_file *file, const char *scenario) {
    static const struct scenario scenarios[] = {{"plain", plain},
                                                {"fragmented", fragmented},
                                                {"went-on", went_on},
                                                {"other-at-oom", other_at_oom},
                                                {"rests", rests},
                                                {"full", full},
                                                {"pile", pile},
                                                {"unread", unread},
                                                {"other-card", other_card},
                                                {"other-card-small", other_card_small},
                                                {"two-devices", two_devices},
                                                {"idle-lowvram", idle_lowvram},
                                                {"unknown", unknown},
                                                {"observe", observe},
                                                {"compact", compact},
                                                {"others", others},
                                                {"pool", pool},
                                                {"others-idle", others_idle},
                                                {"others-mostly", others_mostly},
                                                {"pool-idle", pool_idle},
                                                {"limit", limit},
                                                {"shared", shared},
                                                {"limit-and-full", limit_and_full},
                                                {"process-later", process_later},
                                                {"short-peak", short_peak},
                                                {"short-peak-resident", short_peak_resident},
                                                {"script", script},
                                                {"vae", vae},
                                                {"vae-rounded", vae_rounded},
                                                {"other-code", other_code},
                                                {"uncounted", uncounted},
                                                {"growing", growing},
                                                {"markup", markup},
                                                {"many-marks", many_marks},
                                                {"hostile", hostile}};
    memset(file, 0, sizeof *file);
    return make_one_of(file, scenarios, sizeof scenarios / sizeof scenarios[0], scenario) ||
           make_of_host(file, scenario) || make_run(file, scenario);
}
