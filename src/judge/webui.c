/* webui.c: see webui.h. It must take no program for a web UI by a word that others have, too. */
#include "judge/webui.h"
#include "base/base.h"
#include "read/stats_file.h"

#include <string.h>

#define WEBUI(name, ...) static const struct webui name = {__VA_ARGS__};
#include "judge/webuis.def"

static const char retry[] = "try again behind `except`, not in it";
static const char pins_less[] = "DataLoader: pin_memory=False";

static const struct webui script = {
    .offload = {"diffusers: enable_model_cpu_offload()"},
    .tiles = "diffusers: vae.enable_tiling()",
    .retry = retry,
    .pins_less = pins_less,
    .collects = "Its own torch.cuda.empty_cache() can go.",
    .keeps = "diffusers keeps them with pipe.to(\"cuda\"), without enable_model_cpu_offload().",
};

/* diffusers' Stable Video Diffusion, whose VAE has no tiles. */
static const struct webui video = {
    .offload = {"diffusers: enable_model_cpu_offload()"},
    .tiles = "diffusers: fewer frames at once, decode_chunk_size=2",
    .retry = retry,
    .pins_less = pins_less,
};

/* No model may leave the card at work. */
static const struct webui training = {
    .tiles = "diffusers: vae.enable_tiling()", .retry = retry, .pins_less = pins_less};

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
    {"reforge", NULL, &reforge},
    {"forge", "backend/", &forge},
    {"--disable-smart-memory", NULL, &comfyui_not_smart},
    {"--highvram", NULL, &comfyui_high},
    {"--gpu-only", NULL, &comfyui_high},
    {"comfyui", "comfy/", &comfyui},
    {"invokeai", NULL, &invokeai},
    {"stable-diffusion-webui", "modules/", &a1111},
};

/* A function of a file in that folder, of that phase, or with that in its name took memory, or
 * called one that did; each may be NULL. */
static bool has_site(const struct vramgc_file *file, const char *folder, const char *phase,
                     const char *name) {
    uint64_t count = min_u64(file->site_count, VRAMGC_MAX_SITES);
    for (const struct vramgc_site *site = file->sites; site < file->sites + count; site++)
        if ((folder && strncmp(site->file, folder, strlen(folder)) == 0) ||
            (phase && strcmp(site->phase, phase) == 0) || (name && strstr(site->function, name)))
            return true;
    return false;
}

bool webui_draws(const struct vramgc_file *file) {
    return has_site(file, NULL, "denoise", NULL) || has_site(file, NULL, "VAE", NULL) ||
           has_site(file, "pipelines/", NULL, "DiffusionPipeline");
}

bool webui_loads_pipeline(const struct vramgc_file *file) {
    return has_site(file, NULL, NULL, "DiffusionPipeline.to");
}

static const struct webui *webui_of_script(const struct vramgc_file *file) {
    return has_site(file, NULL, "optimizer", NULL)          ? &training
           : has_site(file, NULL, NULL, "TemporalDecoder.") ? &video
                                                            : &script;
}

/* The word of a path is none where an option has it: --extra-model-paths-config .../forge.yaml. */
static bool has_sign(const struct vramgc_file *file, const char *word) {
    const char *at = strcasestr(file->command_line, word),
               *options = strstr(file->command_line, " --");
    bool there = at && (*word == '-' || !options || at < options);
    return there || strcasestr(file->executable, word) || strcasestr(file->working_folder, word);
}

/* The command line says more than the files that were loaded. */
const struct webui *webui_of(const struct vramgc_file *file) {
    for (size_t i = 0; i < ARRAY_LENGTH(signs); i++)
        if (has_sign(file, signs[i].word))
            return signs[i].webui;
    for (size_t i = 0; i < ARRAY_LENGTH(signs); i++)
        if (has_site(file, signs[i].folder, NULL, NULL))
            return signs[i].webui;
    return webui_of_script(file);
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
    text_add(text, "Lock less RAM");
    if (option && !is_given(file, option))
        text_format(text, " (%s)", option);
}
