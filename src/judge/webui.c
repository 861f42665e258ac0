/* webui.c: see webui.h. The settings are those of src/guides/; it must name none that is not there.
 */
#include "judge/webui.h"
#include "base/base.h"
#include "read/stats_file.h"

#include <string.h>

/* SD.Next has --medvram on by itself on cards of up to 12 GiB, and on larger ones does most of what
 * it does (modules/shared_defaults.py). No setting of its own has it empty the cache less often
 * where it moves models (seen with its GC threshold at 99 and at 70: 82 and 84 times). */
static const struct webui sdnext = {
    .offload = {"--lowvram"},
    .tiles = "Settings > Variational Auto Encoder > VAE tiling",
    .device = "--device-id",
    .limit = "Memory limit",
};

/* It moves models by itself: with --always-low-vram no more than the text encoder, and neither that
 * nor --always-no-vram made an image that it had not made without. --medvram and such it drops. It
 * has --disable-smart-memory, too. */
static const struct webui forge = {
    .tiles = "Forge: Never OOM, for VAE",
    .device = "--gpu-device-id",
};

#define COMFYUI                                                                                    \
    .offload = {"ComfyUI: --novram"}, .tiles = "node VAE Decode (Tiled)",                          \
    .device = "--cuda-device", .no_pool = "Use --disable-cuda-malloc",                             \
    .pins_less = "--disable-pinned-memory"
static const struct webui comfyui = {COMFYUI};
static const struct webui comfyui_not_smart = {
    COMFYUI, .collects = "Without --disable-smart-memory ComfyUI does so less often."};

/* It loads models in part by default. */
static const struct webui invokeai = {
    .offload = {"invokeai.yaml: a higher device_working_mem_gb"},
    .tiles = "invokeai.yaml: force_tiled_decode",
};

static const struct webui a1111 = {
    .offload = {"--medvram", "--lowvram"},
    .tiles = "the extension Tiled VAE",
    .device = "--device-id",
};

static const struct webui script = {
    .offload = {"diffusers: enable_model_cpu_offload()"},
    .tiles = "diffusers: vae.enable_tiling()",
    .collects = "Its own torch.cuda.empty_cache() can go.",
};

/* No model may leave the card at work. */
static const struct webui training = {.tiles = "diffusers: vae.enable_tiling()"};

/* The first that fits: that of kohya, musubi-tuner, OneTrainer, diffusers' examples. SD.Next and
 * A1111 have a folder of the same name. */
static const struct {
    const char *word;   /* in the program's path, its arguments or its folder, in whatever case */
    const char *folder; /* of files whose functions take memory; NULL: does not tell */
    const struct webui *webui;
} signs[] = {
    {"train.py", NULL, &training},
    {"train_", NULL, &training},
    {"sdnext", NULL, &sdnext},
    {"sd.next", NULL, &sdnext},
    {"/automatic/", NULL, &sdnext},
    {"forge", "backend/", &forge},
    {"--disable-smart-memory", NULL, &comfyui_not_smart},
    {"comfyui", "comfy/", &comfyui},
    {"invokeai", NULL, &invokeai},
    {"stable-diffusion-webui", "modules/", &a1111},
};

static bool has_folder(const struct vramgc_file *file, const char *folder) {
    uint64_t count = min_u64(file->site_count, VRAMGC_MAX_SITES);
    for (uint64_t i = 0; i < count; i++)
        if (strncmp(file->sites[i].file, folder, strlen(folder)) == 0)
            return true;
    return false;
}

/* The command line says more than the files that were loaded. */
const struct webui *webui_of(const struct vramgc_file *file) {
    for (size_t i = 0; i < ARRAY_LENGTH(signs); i++)
        if (program_has_word(file, signs[i].word))
            return signs[i].webui;
    for (size_t i = 0; i < ARRAY_LENGTH(signs); i++)
        if (signs[i].folder && has_folder(file, signs[i].folder))
            return signs[i].webui;
    return &script;
}

/* An option is the last word of what names it. */
static bool is_given(const struct vramgc_file *file, const char *name) {
    const char *blank = name ? strrchr(name, ' ') : NULL;
    return name && strstr(file->command_line, blank ? blank + 1 : name);
}

/* Behind the last of its options that was given: each does more than the one before. */
static size_t next_offload(const struct vramgc_file *file, const struct webui *webui) {
    size_t next = 0;
    for (size_t i = 0; i < ARRAY_LENGTH(webui->offload); i++)
        if (is_given(file, webui->offload[i]))
            next = i + 1;
    return next;
}

/* A program that is none of them, as far as is known, and has such an option, is one all the same.
 */
const char *webui_offload(const struct vramgc_file *file) {
    const struct webui *webui = webui_of(file);
    for (size_t i = 0; webui == &script && i < ARRAY_LENGTH(signs); i++)
        if (next_offload(file, signs[i].webui))
            webui = signs[i].webui;
    size_t next = next_offload(file, webui);
    return next < ARRAY_LENGTH(webui->offload) ? webui->offload[next] : NULL;
}

void webui_say_pins_less(struct text *text, const struct vramgc_file *file) {
    const char *option = webui_of(file)->pins_less;
    text_add(text, "Pin less");
    if (option && !is_given(file, option))
        text_format(text, " (%s)", option);
}
