/* test_webui.c: which web UI a program is taken for, by how it was started and by what it has
 * loaded. */
#include "unit.h"

#include "judge/webui.h"

#include <stdlib.h>
#include <string.h>

static struct vramgc_file *file;

static int make(void **state) {
    (void)state;
    file = calloc(1, sizeof *file);
    return file ? 0 : -1;
}

static int drop(void **state) {
    (void)state;
    free(file);
    return 0;
}

static void started_as(const char *command) {
    strcpy(file->executable, "/usr/bin/python3.12");
    strcpy(file->command_line, command);
}

static void has_loaded(const char *path) {
    strcpy(file->sites[file->site_count++].file, path);
}

static const char *pins_less(void) {
    static char said[64];
    struct text text = TEXT_IN(said);
    webui_say_pins_less(&text, file);
    return said;
}

static void how_it_was_started(void **state) {
    (void)state;
    started_as("python /opt/ComfyUI/main.py --disable-smart-memory");
    assert_non_null(strstr(webui_of(file)->collects, "--disable-smart-memory"));
    started_as("python /opt/ComfyUI/main.py --listen");
    assert_string_equal(webui_offload(file), "ComfyUI: --novram");
    started_as("/home/ann/sdnext/venv/bin/python launch.py"); /* --medvram it has by itself */
    assert_string_equal(webui_offload(file), "--lowvram");
    assert_null(webui_of(file)->collects);
    started_as("python /opt/stable-diffusion-webui-forge/launch.py");
    assert_string_equal(webui_offload(file), "Forge: a lower GPU Weights"); /* no option of its */
    assert_string_equal(webui_of(file)->device, "--gpu-device-id");
    started_as("/home/ann/stable-diffusion-webui-reForge/venv/bin/python launch.py "
               "--disable-smart-memory");
    assert_string_equal(webui_of(file)->tiles, "Forge: Never OOM, for VAE");
}

/* As webui.sh does: the name of the folder is nowhere else. */
static void where_it_was_started(void **state) {
    (void)state;
    started_as("venv/bin/python -u launch.py");
    has_loaded("modules/ops.py");
    assert_string_equal(webui_offload(file), "--medvram");
    strcpy(file->working_folder, "/home/ann/stable-diffusion-webui-reForge/");
    assert_null(webui_offload(file));
    strcpy(file->working_folder, "/home/ann/automatic/");
    assert_string_equal(webui_of(file)->tiles, "Settings > Variational Auto Encoder > VAE tiling");
}

static void what_it_has_loaded(void **state) {
    (void)state;
    started_as("python main.py");
    has_loaded("pipelines/wan.py");
    assert_non_null(strstr(webui_offload(file), "enable_model_cpu_offload()"));
    assert_non_null(strstr(webui_of(file)->collects, "empty_cache()"));
    has_loaded("comfy/ops.py");
    assert_string_equal(webui_offload(file), "ComfyUI: --novram");
    started_as("/home/ann/sdnext/venv/bin/python launch.py"); /* says more */
    assert_string_equal(webui_offload(file), "--lowvram");
}

static void what_a_script_is_told(void **state) {
    (void)state;
    started_as("python job.py");
    assert_string_equal(webui_offload(file), "diffusers: enable_model_cpu_offload()");
    assert_null(strstr(webui_of(file)->collects, "web UI"));
    assert_string_equal(pins_less(), "Lock less RAM (DataLoader: pin_memory=False)");
    assert_null(webui_of(file)->no_pool);
    assert_null(webui_of(file)->limit);
    started_as("/home/ann/sdnext/venv/bin/python launch.py");
    assert_string_equal(webui_of(file)->limit, "Memory limit");
}

/* A model that is trained stays on the card, wherever it goes in the end. */
static void what_trains_is_no_web_ui(void **state) {
    (void)state;
    started_as("python sdxl_train_network.py --output_dir /opt/ComfyUI/models/loras --lowram");
    has_loaded("library/train_util.py");
    assert_null(webui_offload(file));
    assert_null(webui_of(file)->collects);
    started_as("python scripts/train.py");
    strcpy(file->working_folder, "/home/ann/OneTrainer/");
    has_loaded("modules/trainer/GenericTrainer.py");
    assert_null(webui_offload(file));
    assert_non_null(webui_of(file)->tiles);
    started_as("python infer.py --pretrained_model sdxl");
    assert_string_equal(webui_offload(file), "--medvram"); /* by its files */
}

static void what_is_given_already(void **state) {
    (void)state;
    started_as("/home/ann/sdnext/venv/bin/python launch.py --medvram --api");
    assert_string_equal(webui_offload(file), "--lowvram");
    started_as(
        "/home/ann/sdnext/venv/bin/python launch.py (COMMANDLINE_ARGS: --medvram --lowvram)");
    assert_null(webui_offload(file));
    started_as("/home/ann/sdnext/venv/bin/python launch.py --lowvram"); /* does more */
    assert_null(webui_offload(file));
    started_as("python my_ui.py --medvram"); /* of no table, and one of them all the same */
    assert_string_equal(webui_offload(file), "--lowvram");
    started_as("python my_ui.py --lowvram");
    assert_null(webui_offload(file));
    started_as("python my_ui.py --novram --disable-pinned-memory");
    assert_null(webui_offload(file));
    assert_string_equal(pins_less(), "Lock less RAM (DataLoader: pin_memory=False)");
    started_as("python /opt/ComfyUI/main.py --disable-pinned-memory");
    assert_string_equal(pins_less(), "Lock less RAM");
    started_as("python /opt/ComfyUI/main.py --highvram");
    assert_string_equal(webui_offload(file), "ComfyUI: take --highvram or --gpu-only away");
    started_as("python /opt/ComfyUI/main.py --novram");
    assert_string_equal(pins_less(), "Lock less RAM (--disable-pinned-memory)");
    assert_null(webui_offload(file));
    started_as("python /opt/ComfyUI/main.py --lowvram");
    assert_string_equal(webui_offload(file), "ComfyUI: --novram");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(how_it_was_started, make, drop),
        cmocka_unit_test_setup_teardown(where_it_was_started, make, drop),
        cmocka_unit_test_setup_teardown(what_it_has_loaded, make, drop),
        cmocka_unit_test_setup_teardown(what_a_script_is_told, make, drop),
        cmocka_unit_test_setup_teardown(what_trains_is_no_web_ui, make, drop),
        cmocka_unit_test_setup_teardown(what_is_given_already, make, drop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
