/* webui.c: see webui.h. The settings are those of src/guides/; it must name none that is not there.
 */
#include "judge/webui.h"
#include "base/base.h"
#include "read/program.h"

#include <string.h>

#define A1111_OFFLOAD   "--medvram", "--lowvram"
#define FORGE_OFFLOAD   "Forge: --always-low-vram", "Forge: --always-no-vram"
#define SDNEXT_OFFLOAD  "--lowvram", NULL
#define COMFYUI_OFFLOAD "ComfyUI: --novram", NULL
#define INVOKE_OFFLOAD  "invokeai.yaml: a higher device_working_mem_gb", NULL
#define SDNEXT_TILES    "Settings > Variational Auto Encoder > VAE tiling"
#define COMFYUI_TILES   "node VAE Decode (Tiled)"

/* The first that fits. Forge has --disable-smart-memory, too. SD.Next and A1111 have a folder of
 * the same name. SD.Next has --medvram on by itself on cards of up to 12 GiB, and on larger ones
 * does most of what it does (modules/shared_defaults.py). No setting of SD.Next's has it empty the
 * cache less often where it moves models (seen with its GC threshold at 99 and at 70: 82 and 84
 * times). InvokeAI loads models in part by default. */
static const struct webui table[] = {
    {"sdnext", NULL, {SDNEXT_OFFLOAD}, SDNEXT_TILES, "--device-id", NULL},
    {"sd.next", NULL, {SDNEXT_OFFLOAD}, SDNEXT_TILES, "--device-id", NULL},
    {"/automatic/", NULL, {SDNEXT_OFFLOAD}, SDNEXT_TILES, "--device-id", NULL},
    {"forge", "backend/", {FORGE_OFFLOAD}, "Forge: Never OOM, for VAE", "--device-id", NULL},
    {"--disable-smart-memory",
     NULL,
     {COMFYUI_OFFLOAD},
     COMFYUI_TILES,
     "--cuda-device",
     "Without --disable-smart-memory ComfyUI does so less often."},
    {"comfyui", "comfy/", {COMFYUI_OFFLOAD}, COMFYUI_TILES, "--cuda-device", NULL},
    {"invokeai", NULL, {INVOKE_OFFLOAD}, "invokeai.yaml: force_tiled_decode", NULL, NULL},
    {"stable-diffusion-webui",
     "modules/",
     {A1111_OFFLOAD},
     "the extension Tiled VAE",
     "--device-id",
     NULL},
};

static const struct webui script = {.offload = {"diffusers: enable_model_cpu_offload()", NULL},
                                    .tiles = "diffusers: vae.enable_tiling()",
                                    .collects = "Its own torch.cuda.empty_cache() can go."};

static bool has_folder(const struct vramgc_file *file, const char *folder) {
    uint64_t count = min_u64(file->site_count, VRAMGC_MAX_SITES);
    for (uint64_t i = 0; i < count; i++)
        if (strncmp(file->sites[i].file, folder, strlen(folder)) == 0)
            return true;
    return false;
}

/* What the program was started with says more than what it has loaded. */
const struct webui *webui_of(const struct vramgc_file *file) {
    for (size_t i = 0; i < ARRAY_LENGTH(table); i++)
        if (table[i].word && program_has_word(file, table[i].word))
            return &table[i];
    for (size_t i = 0; i < ARRAY_LENGTH(table); i++)
        if (table[i].folder && has_folder(file, table[i].folder))
            return &table[i];
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
    for (size_t i = 0; webui == &script && i < ARRAY_LENGTH(table); i++)
        if (next_offload(file, &table[i]))
            webui = &table[i];
    size_t next = next_offload(file, webui);
    return next < ARRAY_LENGTH(webui->offload) ? webui->offload[next] : NULL;
}

bool webui_is_comfyui(const struct vramgc_file *file) {
    return strcmp(webui_of(file)->tiles, COMFYUI_TILES) == 0;
}

const char *webui_limit(const struct vramgc_file *file) {
    return strcmp(webui_of(file)->tiles, SDNEXT_TILES) == 0
               ? "Memory limit"
               : "torch.cuda.set_per_process_memory_fraction";
}

const char *webui_pins_less(const struct vramgc_file *file) {
    return webui_is_comfyui(file) && !is_given(file, "--disable-pinned-memory")
               ? " (--disable-pinned-memory)"
               : "";
}
