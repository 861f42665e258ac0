/* sentence_rows.h: what holds, in the words of case.h, and what a report then says is to be done,
 * by and by every row DO of judge/sentences.def. A sentence is written out here, not taken from
 * there. */
#ifndef SENTENCE_ROWS_H
#define SENTENCE_ROWS_H

struct row {
    const char *facts, *says;
};

#define LESS                                                                                       \
    "Capture fewer sizes, have all sizes share a pool (torch.cuda.graph_pool_handle()), or turn "  \
    "CUDA graphs off (torch.compile: not in mode reduce-overhead or max-autotune)."
#define SMALLER                                                                                    \
    "Make image or batch smaller, or offload models (diffusers: enable_model_cpu_offload())."
#define KEPT                                                                                       \
    "Do you keep results in a list? Move them to RAM with .cpu() before. Does the loop run "       \
    "without torch.no_grad()? Each result then keeps all steps that led to it. Do you load a "     \
    "LoRA for each image? Unload it."
#define LORA                                                                                       \
    "Each LoRA that was loaded is still there: delete its adapter before the next one (PEFT: "     \
    "delete_adapter(), diffusers: delete_adapters())."
#define RECORDS                                                                                    \
    "PyTorch records gradients, and each result keeps all steps that led to it: run what does "    \
    "not train under torch.inference_mode(), or torch.no_grad()."
#define GRADIENTS                                                                                  \
    RECORDS " To train, detach() the results that you keep, or use gradient checkpointing."
#define SEARCH    "full request=900 phase=train.step full request=600 phase=train.step"
#define ELSEWHERE "CUDA_DEVICE_ORDER=PCI_BUS_ID and CUDA_VISIBLE_DEVICES=1"

static const struct row todos[] = {
    {"full reported=went-on",
     "Nothing has to be done. A smaller image or batch leaves room for faster ways."},
    {"fragmented reported=went-on unproven",
     "Nothing has to be done. A smaller image or batch leaves room for faster ways."},
    {"rounded segments reported=went-on",
     "Nothing has to be done. A smaller image or batch leaves room for faster ways."},
    {"fragmented reported=went-on full reported=went-on unproven",
     "Nothing has to be done. A smaller image or batch leaves room for faster ways."},
    {"full reported=no phase=denoise",
     "Other code than PyTorch's cache asked for it, in sample (sampling.py:12)."},
    {"full reported=no", "Other code than PyTorch's cache asked for it: --backtrace 8 tells who."},
    {"full reported=no backtrace=8",
     "Other code than PyTorch's cache asked for it: `vramgc report --open` tells who."},
    {"fragmented reported=no",
     "Other code than PyTorch's cache asked for it: --backtrace 8 tells who."},
    {"full other=6000 no-cache",
     "Other code than PyTorch's cache asked for it: --backtrace 8 tells who."},
    {"full other=6000 no-cache phase=denoise",
     "Other code than PyTorch's cache asked for it, in sample (sampling.py:12)."},
    {"fragmented hook=cudaMallocAsync mode=compact",
     "Try again: the driver's pool is used where vramgc's cannot serve a request. Else make image "
     "or batch smaller."},
    {"fragmented hook=cudaMallocAsync mode=compact driver-pool",
     "Run with --async pages: a pool of vramgc, which keeps only what is live."},
    {"fragmented hook=cudaMallocAsync", "Take backend:cudaMallocAsync out of PYTORCH_ALLOC_CONF: "
                                        "vramgc then has PyTorch empty its cache."},
    {"fragmented hook=cudaMallocAsync command=python+ComfyUI/main.py",
     "Use --disable-cuda-malloc: vramgc then has PyTorch empty its cache."},
    {"fragmented hook=cudaMallocAsync driver-pool",
     "Run with --async pages: a pool of vramgc, which keeps only what is live."},
    {"fragmented hook=cudaMallocAsync asked=flush",
     "Run with --mode compact --async pages: a pool of vramgc, which keeps only what is live."},
    {"fragmented hook=cudaMallocAsync unproven",
     "Run `vramgc prove`, a minute: then memory lies only behind live tensors. Until then `vramgc "
     "run --lowvram` has the pool give back at once what it can; no model is moved to RAM."},
    {"fragmented hook=cudaMallocAsync unproven driver-pool",
     "Run `vramgc prove`, a minute: then memory lies only behind live tensors. Until then `vramgc "
     "run --lowvram` has the pool give back at once what it can; no model is moved to RAM."},
    {"full live=6000 kept=900 graphs", LESS},
    {"full live=6000 kept=900 graphs unproven", LESS},
    {"full live=6000 kept=900", "Delete the pool when its work is done."},
    {"full live=6000 kept=900 asked=flush",
     "Delete the pool when its work is done, or run with --mode compact."},
    {"full live=6000 kept=900 unproven",
     "Run `vramgc prove`, a minute: then memory lies only behind live tensors."},
    {"fragmented mode=observe asked=observe",
     "Run without --mode observe: vramgc then gives idle memory back, which may be enough."},
    {"fragmented mode=observe unproven",
     "Run without --mode observe: vramgc then gives idle memory back, which may be enough."},
    {"fragmented mode=compact",
     "Try again: the GPU had not finished with idle memory. Else make the batch smaller."},
    {"fragmented unproven",
     "Run `vramgc prove`, a minute: then memory lies only behind live tensors."},
    {"fragmented unproven phase=VAE",
     "Run `vramgc prove`, a minute: then memory lies only behind live tensors."},
    {"fragmented unproven phase=VAE request=900",
     "Run `vramgc prove`, a minute: then memory lies only behind live tensors. That leaves 100 MiB "
     "to spare: the next request may need more, so have the VAE work in tiles, too (diffusers: "
     "vae.enable_tiling())."},
    {"fragmented unproven graphs",
     "Run `vramgc prove`, a minute: then memory lies only behind live tensors."},
    {"fragmented asked=flush",
     "Run with --mode compact: memory then lies only behind live tensors."},
    {"fragmented graphs", LESS},
    {"fragmented lowvram=1 conf=expandable",
     "Try again: idle memory goes back at rest. Else make the batch smaller."},
    {"fragmented lowvram=1", "Set PYTORCH_ALLOC_CONF=expandable_segments:True."},
    {"fragmented conf=expandable",
     "Use `vramgc run --lowvram`: idle memory then goes back at once; no model is moved to RAM."},
    {"fragmented", "Set PYTORCH_ALLOC_CONF=expandable_segments:True, or use `vramgc run "
                   "--lowvram`, which moves no model to RAM."},
    {"live-peak=4000 driver-pool unproven",
     "Run `vramgc prove`, a minute: then a pool of vramgc keeps only what is live."},
    {"live-peak=4000 asked=flush pool-peak=3000",
     "Run with --mode compact --async pages: a pool of vramgc, which keeps only what is live."},
    {"live-peak=4000 driver-pool",
     "Run with --async pages: a pool of vramgc, which keeps only what is live."},
    {"live-peak=4000 graphs", ""},
    {"live-peak=4000", "Use `vramgc run --lowvram` if other programs need it: idle memory goes "
                       "back at once; no model is moved to RAM."},
    {"live-peak=4000 asked=flush", "Use `vramgc run --lowvram` if other programs need it: idle "
                                   "memory goes back at once; no model is moved to RAM."},
    {"live-peak=4000 unproven", "Use `vramgc run --lowvram` if other programs need it: idle memory "
                                "goes back at once; no model is moved to RAM."},
    {"live-peak=4000 lowvram=1", ""},
    {"live-peak=4000 mode=observe",
     "Run without --mode observe: vramgc then gives idle memory back."},
    {"live-now=4000 used-now=7900 used-peak=7900 mode=observe",
     "Run with --lowvram, and without --mode observe: vramgc then gives idle memory back at once."},
    {"full process=python:300 process=x:250 process=y:200 held=7000 request=600 live=7000",
     "Stop some of them, or have them give their memory back."},
    {"full process=python:3000:child held=4000 live=4000",
     "Have the program start fewer of these, or have them give their memory back."},
    {"full process=ollama:3000 held=4000 live=4000",
     "Have it unload its model (ollama stop MODEL), or stop it."},
    {"full process=python:3000 held=4000 live=4000", "Stop it, or have it give its memory back."},
    {"full process=python:3000 held=4000 live=4000 reported=no",
     "Stop it, or have it give its memory back."},
    {"full other=6000 library=libxformers.so",
     "Turn off the extension that uses libxformers.so, or give it less."},
    {"full other=6000",
     "Find the extension: --backtrace 8 tells who asks. Turn it off, or give it less."},
    {"full other=6000 backtrace=8",
     "Find the extension: `vramgc report --open` tells who asks. Turn it off, or give it less."},
    {"full full moves=2:600 rested",
     "Have what failed at 1:00.000 and later leave nothing: unload its models, and keep no error, "
     "for one that is stored keeps the tensors of all functions that it came through."},
    {"full jobs=500:600", "Unload the models that earlier jobs used, or find what else they left."},
    {"rounded jobs=500:600 segments",
     "Unload the models that earlier jobs used, or find what else they left."},
    {"rounded request=90 jobs=500:600 lora", LORA},
    {"rounded request=90 held=7000 live=6900 process=a:900 states=1000",
     "Train a LoRA instead of all weights in sample (sampling.py:12), or choose an optimizer with "
     "small states: AdamW8bit (bitsandbytes) or Adafactor. With foreach=False a step needs less."},
    {"rounded request=90 held=7000 live=6900 process=a:900 load=load_model:6800 jobs=2000:2000",
     "Unload the 5.8 GiB that were loaded before. A script deletes them (del) before it loads the "
     "next; gc.collect() then may free what refers to itself."},
    {"rounded request=90 load=DiffusionPipeline.to:6800 phase=move weights=7000 live=7000 "
     "other=900",
     "pipe.to(\"cuda\") puts all models on the card at once: leave it out where "
     "enable_model_cpu_offload() is called, which moves each when it is wanted. Or take smaller "
     "ones (fp8, GGUF)."},
    {"full rounded request=90 failed=2000:threads:same",
     "Have decode (vae.py:12) called by one thread at a time: with a lock around it, or one worker "
     "of the queue (Gradio: concurrency_limit=1). Is it so already? Then an error that is stored "
     "keeps its tensors."},
    {"full rounded request=90 failed=2000",
     "The error keeps the tensors of decode (vae.py:12): make image or batch smaller, or try again "
     "behind `except`, not in it."},
    {"full request=80 rounded request=90 failed=2000:same",
     "Make image or batch smaller, offload models (diffusers: enable_model_cpu_offload()): the "
     "second try asked for as much as the first."},
    {"rounded request=90 stale=1200:decode",
     "Is that work over? Then find what keeps the tensors of decode (vae.py:12): an error that is "
     "stored keeps those of all functions that it came through."},
    {"rounded request=3000 free=3010 held=5000 live=4900 pile=42:together",
     "Move each of the 42 to RAM (.cpu()) as it comes, and join them there. Or make image or batch "
     "smaller."},
    {"rounded request=90 row=9",
     "Have sample (sampling.py:12) move each to RAM (.cpu()) as it comes, or work in RAM "
     "altogether. Or put less on the card before."},
    {"rounded request=2100 free=2110 held=5000 live=4900 phase=Attention.forward",
     "Have Attention.forward (sampling.py:12) use a fast kernel (xformers, flash, or PyTorch's "
     "own: half precision, and no mask), or work in slices (diffusers: "
     "enable_attention_slicing()). Else make image or batch smaller."},
    {"full request=9000 phase=Attention.forward",
     "Have Attention.forward (sampling.py:12) use a fast kernel (xformers, flash, or PyTorch's "
     "own: half precision, and no mask), or work in slices (diffusers: "
     "enable_attention_slicing()). Else make image or batch smaller."},
    {"full request=390 load=load_model:7800 mode=compact",
     "A model was being loaded: keep fewer on the card (diffusers: enable_model_cpu_offload()), or "
     "take a smaller one (fp8, GGUF)."},
    {"full request=390 load=load_model:7800 jobs=2000:2000 mode=compact",
     "Unload the 5.8 GiB that were loaded before. A script deletes them (del) before it loads the "
     "next; gc.collect() then may free what refers to itself."},
    {"full full failed=2000",
     "The error keeps the tensors of decode (vae.py:12): make image or batch smaller, or try again "
     "behind `except`, not in it."},
    {"full full failed=2000:threads:same",
     "Have decode (vae.py:12) called by one thread at a time: with a lock around it, or one worker "
     "of the queue (Gradio: concurrency_limit=1). Is it so already? Then an error that is stored "
     "keeps its tensors."},
    {"full stale=1200:decode",
     "Is that work over? Then find what keeps the tensors of decode (vae.py:12): an error that is "
     "stored keeps those of all functions that it came through."},
    {"full full failed=2000:same",
     "Make image or batch smaller, offload models (diffusers: enable_model_cpu_offload()): the "
     "second try asked for as much as the first."},
    {"full full failed=2000:VAE phase=move mode=compact command=Forge/launch.py",
     "The error keeps the tensors of decode (vae.py:12): make image or batch smaller, or choose "
     "tiles "
     "from the start (Forge: Never OOM, for VAE). --spill 2350MiB would let these requests go on, "
     "slowly; the next may need "
     "more."},
    {"full full failed=2000:same:VAE command=stable-diffusion-webui-forge/launch.py",
     "Make image or batch smaller, or have the VAE work in smaller tiles, and from the start "
     "(Forge: Never OOM, for VAE): the second try asked for as much as the first."},
    {"full request=390 load=DiffusionPipeline.to:7800 phase=move",
     "pipe.to(\"cuda\") puts all models on the card at once: leave it out where "
     "enable_model_cpu_offload() is called, which moves each when it is wanted. Or take smaller "
     "ones (fp8, GGUF)."},
    {"full phase=LlamaForCausalLM.forward",
     "Make prompt or batch smaller, or offload models (transformers: device_map=\"auto\")."},
    {"full phase=LlamaForCausalLM.forward worker=denoise", SMALLER},
    {"full phase=DynamicCache.update",
     "Make prompt or batch smaller, or offload models (transformers: device_map=\"auto\")."},
    {"full command=sdxl/run.py+--config+/data/webui-forge/train_.yaml", SMALLER},
    {"full phase=TemporalDecoder.forward phase=VAE",
     "Make image or batch smaller, offload models (diffusers: enable_model_cpu_offload()), or have "
     "the VAE work in tiles (diffusers: fewer frames at once, decode_chunk_size=2)."},
    {"full phase=backward", "Make image or batch smaller."},
    {"full full failed=2000:same request=300",
     "The error keeps the tensors of decode (vae.py:12): make image or batch smaller, or try again "
     "behind `except`, not in it."},
    {"full full failed=2000:VAE command=stable-diffusion-webui-forge/launch.py",
     "The error keeps the tensors of decode (vae.py:12): make image or batch smaller, or choose "
     "tiles "
     "from the start (Forge: Never OOM, for VAE)."},
    {"driver free=3000 looked ram-total=32000 ram-left=500",
     "RAM is nearly full, and the driver needs some of it for each request. Lock less RAM "
     "(DataLoader: pin_memory=False), end "
     "other "
     "programs, or raise the container's limit."},
    {"driver free=3000 looked ram-total=32000 ram-left=5000",
     "Try again. If it stays so, look for errors of the driver (dmesg, Xid)."},
    {"live-peak=4000 conf=max_split_size_mb:128 mode=observe",
     "Take max_split_size_mb out of PYTORCH_ALLOC_CONF, which the program or an extension sets; or "
     "run without --mode observe and --alloc-conf keep: vramgc then puts expandable segments in "
     "its "
     "place."},
    {"live-peak=4000 conf=max_split_size_mb:128",
     "Use `vramgc run --lowvram` if other programs need it: idle memory goes back at once; no "
     "model is moved to RAM."},
    {"live-now=4000 used-now=7900 used-peak=7900 conf=max_split_size_mb:128 mode=observe",
     "Run with --lowvram, and without --mode observe: vramgc then gives idle memory back at once."},
    {"live-peak=4000 conf=max_split_size_mb:128 conf-of-environment mode=observe",
     "Take max_split_size_mb out of PYTORCH_ALLOC_CONF, which the environment has (webui-user.sh); "
     "or "
     "run without --mode observe and --alloc-conf keep: vramgc then puts expandable segments in "
     "its "
     "place."},
    {"full other=6000 no-cache library=libc10_cuda.so",
     "Take PYTORCH_NO_CUDA_MEMORY_CACHING out of the environment (webui-user.sh): vramgc then sees "
     "PyTorch's memory, and PyTorch asks the driver less often."},
    {"no-cache others-held=6000 library=libc10_cuda.so",
     "Take PYTORCH_NO_CUDA_MEMORY_CACHING out of the environment (webui-user.sh): vramgc then sees "
     "PyTorch's memory, and PyTorch asks the driver less often."},
    {"full pile=42:together",
     "Move each of the 42 to RAM (.cpu()) as it comes, and join them there. Or make image or batch "
     "smaller."},
    {"full pile=7:together", SMALLER},
    {"full recorded", RECORDS " To train, use gradient checkpointing, or a smaller batch."},
    {"full recorded row=9", GRADIENTS},
    {"fragmented request=980 recorded",
     RECORDS " To train, use gradient checkpointing, or a smaller batch."},
    {"fragmented idle=2000 live=5000 recorded unproven",
     "Run `vramgc prove`, a minute: then memory lies only behind live tensors."},
    {"full hook=cudaGetErrorString free=60 idle=200",
     "Use `vramgc run --lowvram`, or --headroom 512MiB: 200 MiB of idle memory would have been "
     "free for it."},
    {"full hook=cudaGetErrorString free=60 idle=200 lowvram=1", SMALLER},
    {"full states=1000",
     "Train a LoRA instead of all weights in sample (sampling.py:12), or choose an optimizer with "
     "small states: AdamW8bit (bitsandbytes) or Adafactor. With foreach=False a step needs less."},
    {"full states=1000 mode=compact spill=100",
     "Train a LoRA instead of all weights in sample (sampling.py:12), or choose an optimizer with "
     "small states: AdamW8bit (bitsandbytes) or Adafactor. With foreach=False a step needs less."},
    {"fragmented request=940 asked=flush",
     "Run with --mode compact: memory then lies only behind live tensors. That leaves 60.0 MiB to "
     "spare: make image or batch smaller, too."},
    {"full held=7000 live=6900 process=a:400:child process=b:300:child",
     "Have the program start fewer of these, or have them give their memory back."},
    {"full held=5000 live=4900 process=:2000",
     "Stop it (pid 701, name unknown), or have it give its memory back. Is there no such process? "
     "Then it is another container's, or it died: `sudo fuser -v /dev/nvidia*` tells who uses the "
     "card. What a dead one holds goes with a reboot."},
    {"full request=400 row=9 mode=compact",
     "Have sample (sampling.py:12) move each to RAM (.cpu()) as it comes, or work in RAM "
     "altogether. Or put less on the card before."},
    {"full attends=3000",
     "Have attn_processor.__call__ (vae.py:12) use a fast kernel (xformers, flash, or PyTorch's "
     "own: half precision, and no mask), or work in slices (diffusers: "
     "enable_attention_slicing()). Else make image or batch smaller."},
    {SEARCH " full request=600 phase=train.step full request=300 phase=train.step fine", SMALLER},
    {SEARCH " full request=300 phase=train.step fine",
     "Nothing has to be done: the program found what fits. Start train.step (sampling.py:12) with "
     "that to save time."},
    {"full request=2100 phase=Attention.forward",
     "Have Attention.forward (sampling.py:12) use a fast kernel (xformers, flash, or PyTorch's "
     "own: half precision, and no mask), or work in slices (diffusers: "
     "enable_attention_slicing()). Else make image or batch smaller."},
    {"full request=2000 phase=Attention.forward", SMALLER},
    {"full card=500", SMALLER},
    {"fragmented hook=cudaMallocAsync unproven lowvram=1",
     "Run `vramgc prove`, a minute: then memory lies only behind live tensors."},
    {"full jobs=500:600 lora", LORA},
    {"full grows=100 lora", LORA},
    {"full grows=100 kv-cache",
     "The cache has keys and values of each token: ask for fewer tokens, or have it lie in RAM "
     "(transformers: cache_implementation=\"offloaded\")."},
    {"full grows=100 many-graphs", KEPT " Are the 40 CUDA graphs for as many sizes? " LESS},
    {"grows=100 many-graphs", KEPT " Are the 40 CUDA graphs for as many sizes? " LESS},
    {"full pile=20 recorded", GRADIENTS},
    {"full grows=100 recorded", GRADIENTS},
    {"full lora", SMALLER},
    {"full jobs=500:600 mode=compact",
     "Unload the models that earlier jobs used, or find what else they left."},
    {"full phase=move", "A model was being loaded: keep fewer on the card (diffusers: "
                        "enable_model_cpu_offload()), or take "
                        "a smaller one (fp8, GGUF)."},
    {"full phase=move command=webui.py+--medvram",
     "A model was being loaded: keep fewer on the card (--lowvram), or take "
     "a smaller one (fp8, GGUF)."},
    {"full phase=move command=stable-diffusion-webui/launch.py",
     "A model was being loaded: keep fewer on the card (--medvram), or take "
     "a smaller one (fp8, GGUF)."},
    {"rounded phase=move segments", "A model was being loaded: keep fewer on the card (diffusers: "
                                    "enable_model_cpu_offload()), or take "
                                    "a smaller one (fp8, GGUF)."},
    {"full mover=transformers/modeling_utils.py theirs=3000 phase=denoise",
     "A model of the transformers library, a text encoder as a rule, has 2.9 GiB while denoising "
     "runs: move it to host memory first (diffusers: enable_model_cpu_offload())."},
    {"full mover=transformers/modeling_utils.py theirs=3000 phase=VAE command=ComfyUI/main.py",
     "A model of the transformers library, a text encoder as a rule, has 2.9 GiB while the VAE "
     "runs: move it to host memory first (ComfyUI: --novram)."},
    {"full mover=transformers/modeling_utils.py theirs=3000 phase=LoRA", SMALLER},
    {"full mover=comfy/model.py theirs=3000 phase=denoise",
     "Make image or batch smaller, or offload models (ComfyUI: --novram)."},
    {"full mover=transformers/modeling_utils.py theirs=300 phase=denoise", SMALLER},
    {"full other=6000 library=aimdo.so phase=VAE",
     "Make image or batch smaller, or have the VAE work in tiles (diffusers: "
     "vae.enable_tiling())."},
    {"full other=6000 library=aimdo.so", "Make image or batch smaller."},
    {"full phase=VAE",
     "Make image or batch smaller, offload models (diffusers: enable_model_cpu_offload()), or have "
     "the VAE work in tiles (diffusers: vae.enable_tiling())."},
    {"full phase=VAE command=train.py", "Make image or batch smaller, or have the VAE work in "
                                        "tiles (diffusers: vae.enable_tiling())."},
    {"full phase=VAE command=ComfyUI/main.py",
     "Make image or batch smaller, offload models (ComfyUI: --novram), or have the VAE work in "
     "tiles (node VAE Decode (Tiled))."},
    {"full", SMALLER},
    {"full command=train.py", "Make image or batch smaller."},
    {"full command=Forge/launch.py mode=compact",
     "Make image or batch smaller, or offload models (Forge: a lower GPU Weights). --spill 2350MiB "
     "would let this request go on, slowly; the next "
     "may need more."},
    {"full command=Forge/launch.py phase=VAE card=20000",
     "Make image or batch smaller, or have the VAE work in tiles (Forge: Never OOM, for VAE). Or "
     "use GPU 1, which has 19.5 GiB free: " ELSEWHERE ", or --gpu-device-id 1 instead of that."},
    {"full command=stable-diffusion-webui/launch.py+--medvram",
     "Make image or batch smaller, or offload models (--lowvram)."},
    {"full command=stable-diffusion-webui/launch.py+--medvram+--lowvram",
     "Make image or batch smaller."},
    {"rounded", "Make the image or the batch a little smaller."},
    {"rounded phase=VAE", "Make the image or the batch a little smaller, or have the VAE work in "
                          "tiles (diffusers: vae.enable_tiling())."},
    {"rounded segments", "Make the image or the batch a little smaller. Or run with --alloc-conf "
                         "keep: PyTorch then asks for no more than it needs."},
    {"rounded segments unproven",
     "Make the image or the batch a little smaller. Or run `vramgc prove`, a minute, or run with "
     "--alloc-conf keep: PyTorch then asks for no more than it needs."},
    {"rounded segments mode=compact",
     "Make the image or the batch a little smaller. --spill 2350MiB would let this request go on, "
     "slowly; the next may need more."},
    {"rounded segments reported=no",
     "Other code than PyTorch's cache asked for it: --backtrace 8 tells who."},
    {"full limited=700 cap=7000", "Raise VRAMGC_CAP (`vramgc set PID cap=SIZE` while the program "
                                  "runs, 0 ends it), or make image or batch smaller."},
    {"full limited=700 headroom=700",
     "Lower VRAMGC_HEADROOM (`vramgc set PID headroom=SIZE` while the program runs, 0 ends it), or "
     "make image or batch smaller."},
    {"host", "Lock less RAM (DataLoader: pin_memory=False), end other programs, or raise `ulimit "
             "-l` and the container's limit."},
    {"host command=ComfyUI/main.py",
     "Lock less RAM (--disable-pinned-memory), end other programs, or "
     "raise `ulimit -l` and the container's limit."},
    {"host command=ComfyUI/main.py+--disable-pinned-memory",
     "Lock less RAM, end other programs, or raise `ulimit -l` and "
     "the container's limit."},
    {"limit", "Take that limit out (torch.cuda.set_per_process_memory_fraction)."},
    {"limit command=sdnext/webui.py", "Take that limit out (Memory limit)."},
    {"full grows=100", KEPT " Until then start the program anew now and then."},
    {"full grows=100 backward=200:1600",
     "Autograd made them as it went back through step (vae.py:12): find what keeps a gradient "
     "(.grad) "
     "of each step, such as a hook, or what moves gradients to RAM."},
    {"full pile=20",
     "Is a model being loaded there? Then the card is too small for it. Else: " KEPT},
    {"full pile=20 grows=100", KEPT " Until then start the program anew now and then."},
    {"full request=9000",
     "Make image or batch smaller; tile the VAE; use attention in slices (SDPA, xformers)."},
    {"driver free=3000", "Try again. If it stays so, look for errors of the driver (dmesg, Xid)."},
    {"unknown", "Make the image or the batch smaller."},
    {"full mode=compact",
     SMALLER " --spill 2350MiB would let this request go on, slowly; the next may need more."},
    {"full mode=compact full",
     SMALLER " --spill 2350MiB would let these requests go on, slowly; the next may need more."},
    {"full mode=compact spill=512MiB", SMALLER},
    {"full mode=compact spill=1GiB spilled=100", SMALLER},
    {"full mode=compact reported=no",
     "Other code than PyTorch's cache asked for it: --backtrace 8 tells who."},
    {"full unproven reported=no",
     "Other code than PyTorch's cache asked for it: --backtrace 8 tells who."},
    {"rounded mode=compact", "Make the image or the batch a little smaller. --spill 2350MiB would "
                             "let this request go on, slowly; the next may need more."},
    {"full unproven spill=4GiB", SMALLER " Or run `vramgc prove`, a minute: if it passes, --spill "
                                         "2350MiB may let this request go on, slowly."},
    {"full unproven", SMALLER " Or run `vramgc prove`, a minute: if it passes, --spill 2350MiB may "
                              "let this request go on, slowly."},
    {"full unproven phase=move", "A model was being loaded: keep fewer on the card (diffusers: "
                                 "enable_model_cpu_offload()), or take a smaller one (fp8, GGUF)."},
    {"full unproven jobs=500:600",
     "Unload the models that earlier jobs used, or find what else they left."},
    {"rounded unproven", "Make the image or the batch a little smaller."},
    {"full whatif=8000",
     SMALLER " With expandable_segments:True this request would have fitted, 192 MiB to spare."},
    {"full whatif=8170", SMALLER},
    {"full card=20000", SMALLER " Or use GPU 1, which has 19.5 GiB free: " ELSEWHERE "."},
    {"full card=20000:named command=ComfyUI/main.py",
     "Make image or batch smaller, or offload models (ComfyUI: --novram). Or use GPU 1, RTX 4090, "
     "which has 19.5 GiB free: " ELSEWHERE ", or --cuda-device 1 instead of that."},
    {"full card=2000",
     SMALLER " GPU 1 has 2.0 GiB free, not enough for all: some of the models may "
             "lie there."},
    {"rounded card=2000", "Make the image or the batch a little smaller. GPU 1 has 2.0 GiB free, "
                          "not enough for all: some of the models may lie there."},
    {"full process=python:3000 held=4000 live=4000 card=2000",
     "Stop it, or have it give its memory back. GPU 1 has 2.0 GiB free, not enough for all: some "
     "of the models may lie there."},
    {"full other=6000 live=1900 card=2000",
     "Find the extension: --backtrace 8 tells who asks. Turn it off, or give it less. GPU 1 has "
     "2.0 GiB free, not enough for all: some of the models may lie there."},
    {"fragmented card=20000", "Set PYTORCH_ALLOC_CONF=expandable_segments:True, or use `vramgc run "
                              "--lowvram`, which moves no model to RAM."},
    {"full card=20000 reported=went-on",
     "Nothing has to be done. A smaller image or batch leaves room for faster ways."},
    {"full process=python:3000 held=4000 card=20000",
     "Stop it, or have it give its memory back. Or use GPU 1, which has 19.5 GiB free: " ELSEWHERE
     "."},
    {"rounded card=20000", "Make the image or the batch a little smaller. Or use GPU 1, which has "
                           "19.5 GiB free: " ELSEWHERE "."},
    {"full other=6000 live=1900 card=20000",
     "Find the extension: --backtrace 8 tells who asks. Turn it off, or give it less. Or use GPU "
     "1, which has 19.5 GiB free: " ELSEWHERE "."},
    {"full request=9000 card=20000",
     "Make image or batch smaller; tile the VAE; use attention in slices (SDPA, xformers). Or use "
     "GPU 1, which has 19.5 GiB free: " ELSEWHERE "."},
    {"full fragmented unproven full",
     SMALLER " Or run `vramgc prove`, a minute: if it passes, --spill 2350MiB may let these "
             "requests go on, slowly. Against fragmentation `vramgc prove` is the remedy."},
    {"full fragmented full", SMALLER},
    {"fragmented full unproven fragmented",
     "Run `vramgc prove`, a minute: then memory lies only behind live tensors."},
    {"grows=100", KEPT},
    {"host-grows=100", "Do you keep results or previews in a list? Write them to disk. Is a model "
                       "loaded anew for each job? Delete the one before."},
    {"host-grows=100 many-graphs", "Do you keep results or previews in a list? Write them to disk. "
                                   "Is a model loaded anew for each job? Delete the one before."},
    {"job-grows=36", "Do you keep results in a list? Write each to disk as it comes."},
    {"host-grows=100:pinned",
     "Lock less RAM (DataLoader: pin_memory=False), or find what keeps it."},
    {"host-grows=100:pinned command=ComfyUI/main.py",
     "Lock less RAM (--disable-pinned-memory), or find what keeps it."},
    {"host-grows=100 grows=100",
     KEPT " Do you keep results or previews in a list? Write them to disk. Is a model loaded anew "
          "for each job? Delete the one before."},
    {"killed=KILL", ""},
};

#endif
