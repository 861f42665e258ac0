/* test_phases.c: what a function is part of, by the table and by lines of the user's. */
#include "unit.h"

#include "python/phases.h"

static void the_table_knows_web_uis(void **state) {
    (void)state;
    static const char *const cases[][3] = {
        {"diffusers.pipelines.flux.pipeline_flux", "encode_prompt", "text encode"},
        {"diffusers.pipelines.flux.pipeline_flux", "_get_t5_prompt_embeds", "text encode"},
        {"diffusers.pipelines.flux.pipeline_flux", "__call__", "denoise"},
        {"diffusers.models.autoencoders.autoencoder_kl", "_decode", "VAE"},
        {"diffusers.models.unets.unet_2d_condition", "forward", "denoise"},
        {"diffusers.models.controlnets.controlnet", "forward", "ControlNet"},
        {"diffusers.loaders.ip_adapter", "load_ip_adapter", "IP-Adapter"},
        {"diffusers.loaders.lora_base", "fuse_lora", "LoRA"},
        {"transformers.core_model_loading", "_materialize_copy", "model move"},
        {"accelerate.hooks", "pre_forward", "model move"},
        {"bitsandbytes.nn.modules", "_quantize", "model move"},
        {"bitsandbytes.nn.modules", "forward", ""},
        {"torch.nn.modules.module", "_apply", "model move"},
        {"torch.nn.modules.module", "_call_impl", ""},
        {"torchao.quantization.quant_api", "quantize_", "model move"},
        {"optimum.quanto.nn.qmodule", "freeze", "model move"},
        {"modules.sd_models", "move_model", "model move"},
        {"modules.processing_vae", "full_vae_decode", "VAE"},
        {"modules.lora.lora_load", "network_load", "LoRA"},
        {"diffusers.models.unets.unet_2d_condition", "forward", "denoise"},
        {"diffusers.models.unets.unet_2d_blocks", "forward", ""},
        {"comfy.sd", "decode_tiled_", "VAE"},
        {"comfy.sd", "encode_from_tokens_scheduled", "text encode"},
        {"comfy.sd", "load_checkpoint", ""},
        {"comfy.samplers", "calc_cond_batch", "denoise"},
        {"comfy.model_management", "load_models_gpu", "model move"},
        {"/ui/custom_nodes/ComfyUI_IPAdapter_plus.IPAdapterPlus", "apply", "IP-Adapter"},
        {"backend.diffusion_engine.sdxl", "get_learned_conditioning", "text encode"},
        {"backend.diffusion_engine.sdxl", "decode_first_stage", "VAE"},
        {"ldm_patched.modules.sd", "decode_tiled", "VAE"},
        {"modules_forge.forge_loader", "patched_decode_first_stage", "VAE"},
        {"ldm_patched.modules.model_management", "load_models_gpu", "model move"},
        {"ldm_patched.modules.model_patcher", "load", "model move"},
        {"invokeai.app.invocations.latents_to_image", "invoke", "VAE"},
        {"invokeai.app.invocations.flux_vae_decode", "invoke", "VAE"},
        {"invokeai.app.invocations.sd3_text_encoder", "invoke", "text encode"},
        {"invokeai.app.invocations.tiled_multi_diffusion_denoise_latents", "invoke", "denoise"},
        {"invokeai.backend.model_manager.load.model_cache.model_cache", "lock", "model move"},
        {"__main__", "main", ""},
        {"", "", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(phases_find(cases[i][0], cases[i][1]), cases[i][2]);
}

static void machinery_is_known_by_the_whole_package(void **state) {
    (void)state;
    assert_true(phases_is_machinery("torch", "forward"));
    assert_true(phases_is_machinery("torch.nn.modules.module", "forward"));
    assert_true(phases_is_machinery("importlib._bootstrap", "forward"));
    assert_false(phases_is_machinery("torchvision.ops", "forward"));
    assert_false(phases_is_machinery("__main__", "forward"));
    assert_false(phases_is_machinery("", "forward"));
    assert_true(phases_is_machinery("accelerate.utils.memory", "clear_device_cache"));
    assert_true(phases_is_machinery("ldm_patched.modules.model_management", "soft_empty_cache"));
    assert_false(phases_is_machinery("ldm_patched.modules.model_management", "load_models_gpu"));
    assert_false(phases_is_machinery("accelerate.utils.memory", "find_executable_batch_size"));
}

/* A1111's LoRA extension is around each layer, in use or not; what applies a LoRA is its own. */
static void what_is_around_every_layer_is_machinery(void **state) {
    (void)state;
    assert_true(phases_is_machinery("networks", "network_Conv2d_forward"));
    assert_true(phases_is_machinery("networks", "network_Linear_load_state_dict"));
    assert_true(phases_is_machinery("accelerate.hooks", "new_forward"));
    assert_false(phases_is_machinery("accelerate.hooks", "pre_forward"));
    assert_true(phases_is_machinery("invokeai.backend.model_manager.load.model_cache."
                                    "torch_module_autocast.cast_to_device",
                                    "cast_to_device"));
    assert_false(phases_is_machinery("networks", "network_forward"));
    assert_false(phases_is_machinery("networks", "network_apply_weights"));
    assert_string_equal(phases_find("networks", "network_apply_weights"), "LoRA");
    assert_false(phases_is_machinery("my.networks", "network_Conv2d_forward"));
}

static void a_file_tells_its_module(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"/venv/lib/python3.10/site-packages/torch/nn/modules/module.py",
         "torch.nn.modules.module"},
        {"/usr/lib/python3/dist-packages/torch/__init__.py", "torch"},
        {"/home/me/torch/ui/modules/sd_models.py", ".modules.sd_models"},
        {"/home/me/torch/ui/launch.py", ".launch"},
        {"/home/me/torch/ui", ".home.me.torch.ui"},
        {"/opt/nodes/x.cpython-310.pyc", ".opt.nodes.x.cpython-310.pyc"},
        {"launch.py", ".launch"},
        {"<frozen importlib._bootstrap>", "importlib._bootstrap"},
        {"<eval_with_key>.0", "<eval_with_key>.0"},
        {"", "."},
    };
    char module[64];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        phases_module(cases[i][0], "/home/me/torch/ui", module, sizeof module);
        assert_string_equal(module, cases[i][1]);
    }
    phases_module("/a/b.py", "/", module, sizeof module);
    assert_string_equal(module, ".a.b");
    phases_module("/a/long/path.py", "", module, 7);
    assert_string_equal(module, ".a.lon");
}

/* Where a program looks for its modules nobody knows: LoRA's networks.py lies in an extension. */
static void any_end_of_a_program_s_module_fits(void **state) {
    (void)state;
    assert_string_equal(phases_find(".extensions-builtin.Lora.networks", "load_networks"), "LoRA");
    assert_string_equal(phases_find(".home.me.ComfyUI.comfy.sd", "decode"), "VAE");
    assert_string_equal(phases_find("my.comfy.sd", "decode"), "");
    assert_string_equal(phases_find(".mycomfy.sd", "decode"), "");
    assert_true(phases_is_machinery(".usr.lib.python3.11.importlib", "import_module"));
    assert_true(phases_is_machinery(".tmp.torchinductor_me.ab.cab12", "call"));
    assert_true(phases_is_machinery("<eval_with_key>.0", "forward"));
    assert_false(phases_is_machinery(".", "forward"));
}

/* One that is too long or has too few words says its number, and loses nothing of the others. */
static void lines_of_the_user_come_first(void **state) {
    (void)state;
    size_t first = 0;
    assert_int_equal(phases_add("# mine\n\n  face fix\tmy_nodes.*   restore*\r\nVAE\n"
                                "my preview *preview* decode\nonly two\n"
                                "a name that is longer than it may be x y\nVAE my.vae *",
                                &first),
                     3);
    assert_int_equal(first, 4);
    assert_string_equal(phases_find("my_nodes.face", "restore_all"), "face fix");
    assert_string_equal(phases_find("my_nodes", "restore_all"), "");
    assert_string_equal(phases_find("modules.preview.vae", "decode"), "my preview");
    assert_string_equal(phases_find("my.vae", "anything"), "VAE");
    assert_string_equal(phases_find("comfy.sd", "encode"), "VAE"); /* the table is there still */
}

static void no_more_than_there_is_room_for(void **state) {
    (void)state;
    size_t first = 0, bad = 0;
    for (int i = 0; i < 200; i++)
        bad += phases_add("p *a*b*c* d\n", &first);
    assert_true(bad > 100);
    assert_string_equal(phases_find("xxaxxbxxbxc", "d"), "p");
    assert_string_equal(phases_find("xxaxxcxxb", "d"), "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_knows_web_uis),
        cmocka_unit_test(machinery_is_known_by_the_whole_package),
        cmocka_unit_test(what_is_around_every_layer_is_machinery),
        cmocka_unit_test(a_file_tells_its_module),
        cmocka_unit_test(any_end_of_a_program_s_module_fits),
        cmocka_unit_test(lines_of_the_user_come_first),
        cmocka_unit_test(no_more_than_there_is_room_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
