/* test_sentences.c: a case, and what is said of it: the verdict, why it was, what to do, and what
 * else there is to know. No row of a table may be one that no case here comes to. */
#include "unit.h"

#include "case.h"
#include "judge/cause.h"
#include "judge/sentences.h"
#include "judge/verdict.h"
#include "base/base.h"
#include "sentence_rows.h"

#include <string.h>

static const struct row whys[] = {
    {"full request=300 pile=20", "Tensors fill the card, and grow by 300 MiB at a time: 20 of "
                                 "these are live, all of sample (sampling.py:12)."},
    {"full request=300 phase=denoise pile=20",
     "Tensors fill the card, and grow by 300 MiB at a time: 20 of these are live, all of sample "
     "(sampling.py:12), denoise."},
    {"fragmented grows=100", "Tensors leave the card in pieces, and grow: +2.8 GiB, to 4.8 GiB."},
    {"full grows=100", "Tensors fill the card, and grow: +2.8 GiB, to 4.8 GiB."},
    {"full grows=100 backward=200:1600",
     "Tensors fill the card, and grow: +2.8 GiB, to 4.8 GiB; most comes from step (vae.py:12), "
     "backward. 200 of these are live, of 8.0 MiB on average."},
    {"fragmented grows=100 backward=200:1600",
     "Tensors leave the card in pieces, and grow: +2.8 GiB, to 4.8 GiB; most comes from step "
     "(vae.py:12), backward. 200 of these are live, of 8.0 MiB on average."},
    {"full grows=100 jobs=500:600", "Tensors fill the card, and grow: +2.8 GiB, to 4.8 GiB."},
    {"full process=python:3000 held=4000",
     "Another process holds 2.9 GiB of the card (python, pid 701)."},
    {"full process=python:3000:child held=4000",
     "A process that this program started holds 2.9 GiB of the card (python, pid 701)."},
    {"full process=:3000 held=4000",
     "Another process holds 2.9 GiB of the card (pid 701, name unknown)."},
    {"full process=python:300 process=ollama:250 process=x:200 held=4000 request=600",
     "Other processes hold 750 MiB of the card (the largest: python, pid 701)."},
    {"full held=4000", "Another process holds 4.0 GiB of the card (not known by name)."},
    {"full process=python:300 process=x:250 held=7500 request=600",
     "Other processes hold 550 MiB of the card (the largest: python, pid 701)."},
    {"full hook=cuDevicePrimaryCtxRetain request=0 free=0 held=0 live=0",
     "Other processes have the card; which, is not known here."},
    {"full hook=cuDevicePrimaryCtxRetain request=0 free=0 held=0 live=0 process=python:6000",
     "Another process holds 5.9 GiB of the card (python, pid 701)."},
    {"full hook=cuDevicePrimaryCtxRetain request=0 free=0 held=0 live=0 process=python:6000:child",
     "A process that this program started holds 5.9 GiB of the card (python, pid 701)."},
    {"host total=32000 free=200 held=4000", "Not the card, but RAM: Linux refused to lock more of "
                                            "it. 3.9 GiB are page-locked. The host has "
                                            "31.3 GiB, of which 200 MiB were available."},
    {"host total=0 held=4000",
     "Not the card, but RAM: Linux refused to lock more of it. 3.9 GiB are page-locked."},
    {"fragmented", "Fragmentation: 1000 MiB were free or idle, but in pieces."},
    {"fragmented idle=2000 live=5000", "Fragmentation: 2.9 GiB were free or idle, but in pieces."},
    {"fragmented hook=cudaMallocAsync",
     "The driver's pool (cudaMallocAsync) keeps 900 MiB, in pieces."},
    {"full kept=900 graphs live=6000", "CUDA graphs keep 900 MiB that nothing else can use."},
    {"full kept=900 live=6000", "A torch.cuda.MemPool keeps 900 MiB that nothing else can use."},
    {"full reported=went-on", "For this the card had no room: 500 MiB more were needed."},
    {"full jobs=500:600",
     "The card is full: 500 MiB more were needed, and 1.2 GiB more stay live than "
     "after the first job."},
    {"full", "The card is too small for this: 500 MiB more were needed."},
    {"full request=390 load=Model.from_pretrained:7800",
     "Model.from_pretrained (sampling.py:12) had put 7.6 GiB on the card and was not done."},
    {"full request=390 load=load_model:7800:callee",
     "load_model (sampling.py:12) had put 7.6 GiB on the card and was not done."},
    {"rounded request=50 load=LoadModel:7800",
     "LoadModel (sampling.py:12) had put 7.6 GiB on the card and was not done."},
    {"full request=50 grows=0 load=load_model:7800",
     "load_model (sampling.py:12) had put 6.7 GiB on the card and was not done. 900 MiB that it "
     "put there before are still live."},
    {"full request=900 grows=1 load=load_model:7800 jobs=2000:2000",
     "load_model (sampling.py:12) had put 6.7 GiB on the card and was not done. 900 MiB that it "
     "put there before are still live."},
    {"full request=390 load=load_model:7800 jobs=2000:2000",
     "load_model (sampling.py:12) had put 1.9 GiB on the card and was not done. 5.8 GiB that it "
     "put there before are still live."},
    {"full request=390 load=load_model:1800 jobs=2000:2000",
     "load_model (sampling.py:12) had put 1.8 GiB on the card and was not done. 3.9 GiB more stay "
     "live than after the first job."},
    {"full request=390 load=load_model:1000 jobs=2000:2000",
     "The card is full: 290 MiB more were needed, and 3.9 GiB more stay live than after the first "
     "job."},
    {"full request=390 load=apply_model:3000",
     "The card is too small for this: 290 MiB more were needed."},
    {"full full failed=2000",
     "decode (vae.py:12) had run out of memory just before, and 2.0 GiB of its tensors were "
     "still live."},
    {"full full failed=400", "The card is too small for this: 500 MiB more were needed."},
    {"full reported=went-on full failed=2000",
     "The card is too small for this: 500 MiB more were needed."},
    {"full full failed=2000 rested", "The card is too small for this: 500 MiB more were needed."},
    {"full full failed=2000 grows=0", "The card is too small for this: 500 MiB more were needed."},
    {"full request=100", "The card is full."},
    {"rounded", "The card is full: the last of PyTorch's steps of 12 or 20 MiB did not fit."},
    {"rounded jobs=500:600", "The card is full: the last of PyTorch's steps of 12 or 20 MiB did "
                             "not fit. 1.2 GiB more stay live than after the first job."},
    {"full other=6000 no-cache",
     "The program holds 5.9 GiB, none of it by PyTorch's caching allocator."},
    {"full other=6000", "Other code in this program holds 5.9 GiB; PyTorch does not know it."},
    {"full other=6000 library=libxformers.so",
     "Other code in this program, mostly libxformers.so, holds 5.9 GiB; PyTorch does not know it."},
    {"full request=9000", "The request alone, 8.8 GiB, is larger than the card, 8.0 GiB."},
    {"driver free=3000", "The driver refused, although 2.9 GiB were free."},
    {"driver free=3000 looked ram-total=32000 ram-left=500 pinned=2000 swap=100",
     "The driver refused, although 2.9 GiB were free. The machine had 500 MiB of RAM left. The "
     "program had 2.0 GiB of RAM page-locked. 100 MiB were swapped out."},
    {"driver free=3000 looked ram-total=32000 ram-limit=8000 ram-counted=7900",
     "The driver refused, although 2.9 GiB were free. The limit of its control group was 7.8 GiB. "
     "7.7 GiB counted against that."},
    {"fragmented conf=max_split_size_mb:128",
     "Fragmentation: 1000 MiB were free or idle, but in pieces. PyTorch's setting "
     "max_split_size_mb keeps larger blocks from being split."},
    {"fragmented conf=max_split_size_mb:128,expandable_segments:True",
     "Fragmentation: 1000 MiB were free or idle, but in pieces."},
    {"live-peak=4000 conf=max_split_size_mb:128 mode=observe",
     IDLE_SAID " PyTorch's setting max_split_size_mb keeps it: a larger block is not split, and "
               "waits for a request of its size."},
    {"full request=3000 pile=42:together",
     "sample (sampling.py:12) has 42 tensors, and this request is as large as all of them "
     "together, as torch.cat() makes it to join them."},
    {"full hook=cudaGetErrorString free=60",
     "CUDA itself needs some of the card, for a kernel at its first run, a stream or a library: "
     "the 60.0 MiB that were free were not enough."},
    {"full request=9000 phase=attn_processor.__call__",
     "attn_processor.__call__ (sampling.py:12) wanted 8.8 GiB at once: attention makes its scores "
     "whole here, each with each, as it does where no fast kernel of PyTorch's can serve."},
    {"full request=390 load=load_model:7800 weights=9000",
     "load_model (sampling.py:12) had put 7.6 GiB on the card and was not done; the files of "
     "weights that were open have 8.8 GiB."},
    {"full request=390 load=load_model:7800 weights=7000",
     "load_model (sampling.py:12) had put 7.6 GiB on the card and was not done."},
    {"full states=1000", OPTIMIZER},
    {"full phase=optimizer", "The card is too small for this: 500 MiB more were needed."},
    {"full states=400", "The card is too small for this: 500 MiB more were needed."},
    {"full grows=100 states=1000", OPTIMIZER},
    {"fragmented states=1000", OPTIMIZER},
    {"fragmented request=980",
     "Fragmentation: 1000 MiB were free or idle, but in pieces. In one piece that were 20.0 MiB "
     "more than was wanted: the card is nearly full, too."},
    {"full request=390 held=7000 live=6900 load=load_model:6800 process=a:700",
     "load_model (sampling.py:12) had put 6.6 GiB on the card and was not done."},
    {"full request=390 held=7000 live=6900 load=load_model:6800 process=a:700 weights=7000",
     "Another process holds 700 MiB of the card (a, pid 701)."},
    {"fragmented load=load_model:6800",
     "load_model (sampling.py:12) had put 6.6 GiB on the card and was not done."},
    {"full held=7000 live=6900 process=a:400:child process=b:300:child",
     "2 processes that this program started hold 700 MiB of the card (the largest: a, pid 701)."},
    {"full held=5000 live=4900 process=a:900 process=b:800 process=c:800",
     "Other processes hold 2.4 GiB of the card (the largest: a, pid 701)."},
    {"full request=400 row=9",
     "sample (sampling.py:12) has 9 tensors of 400 MiB, and wanted one more: how many it makes in "
     "all is not known."},
    {"full request=400 row=9 phase=denoise",
     "The card is too small for this: 300 MiB more were needed."},
    {"full attends=3000",
     "attn_processor.__call__ (vae.py:12) has 2.9 GiB of the card: attention makes its scores "
     "whole here, each with each, as it does where no fast kernel of PyTorch's can serve."},
    {"full attends=1000", "The card is too small for this: 500 MiB more were needed."},
    {SEARCH " full request=300 phase=train.step fine",
     "train.step (sampling.py:12) ran out of memory 3 times, wanted less each time, and then went "
     "on: the program was looking for what fits."},
    {SEARCH " full request=300 phase=train.step",
     "The card is too small for this: 200 MiB more were needed."},
    {SEARCH " full request=300 phase=train.step fine rested",
     "The card is too small for this: 200 MiB more were needed."},
    {SEARCH " full request=700 phase=train.step fine",
     "The card is too small for this: 600 MiB more were needed."},
    {"full moves=2:600",
     "The card is too small for this: 500 MiB more were needed. 2.9 GiB were enough for all "
     "earlier jobs (2): is this one larger, or do several work at once?"},
    {"full live=2700 moves=2:600", "The card is too small for this: 500 MiB more were needed."},
    {"full full moves=2:600", "The card is too small for this: 500 MiB more were needed."},
    {"full other=6000 no-cache library=libc10_cuda.so",
     "PyTorch's cache is off (PYTORCH_NO_CUDA_MEMORY_CACHING): each of its tensors, 5.9 GiB in "
     "all, is a request of its own to the driver."},
    {"limit", "Not the card, but a memory limit that was set for PyTorch."},
    {"full limited=700 headroom=700",
     "Not the card, which had 700 MiB more: VRAMGC_HEADROOM kept that from the program."},
    {"full limited=700 cap=7000",
     "Not the card, which had 700 MiB more: VRAMGC_CAP kept that from the program."},
    {"full limited=700 cap=7000 headroom=700",
     "Not the card, which had 700 MiB more: VRAMGC_HEADROOM or VRAMGC_CAP kept that from the "
     "program."},
    {"unknown", "Not known: what was free then could not be read."},
    {"live-peak=4000", IDLE_SAID
     " vramgc takes it back only while more than 80 % of the card is in use (VRAMGC_THRESHOLD)."},
    {"live-peak=4000 threshold=60", IDLE_SAID
     " vramgc takes it back only while more than 60 % of the card is in use (VRAMGC_THRESHOLD)."},
    {"live-peak=4000 graphs", IDLE_SAID " CUDA graphs were captured: what they keep counts as "
                                        "idle, and goes back in no mode before they do."},
    {"live-peak=4000 driver-pool",
     IDLE_SAID " The driver's pool behind cudaMallocAsync keeps what is freed."},
    {"live-peak=4000 mode=observe", IDLE_SAID},
    {"live-now=4000 used-now=7900 used-peak=7900 mode=observe",
     "PyTorch kept much idle memory now: 7.7 GiB for 3.9 GiB of tensors."},
    {"live-now=4000 used-now=7900 used-peak=7900 mode=observe ended",
     "PyTorch kept much idle memory at the end: 7.7 GiB for 3.9 GiB of tensors."},
    {"live-now=4000 used-now=7900 used-peak=7900", ""},
    {"live-now=4000 used-now=7900 used-peak=7900 threshold=99 mode=observe", ""},
    {"live-now=4000 used-now=7900 used-peak=7900 graphs mode=observe",
     "PyTorch kept much idle memory now: 7.7 GiB for 3.9 GiB of tensors. CUDA graphs were "
     "captured: what they keep counts as idle, and goes back in no mode before they do."},
    {"killed=KILL ram=9000", "SIGKILL often comes from the kernel, for lack of RAM: `dmesg` tells. "
                             "At 0:50.000 the program had 8.8 GiB of RAM."},
    {"killed=KILL lack=killed ram=9000 swap=500 ram-limit=10000 ram-counted=9900 ram-total=32000",
     "Linux ended a process of its control group for lack of RAM: `dmesg` tells which. At 0:50.000 "
     "the program had 8.8 GiB of RAM. 500 MiB more were swapped out. The limit of its control "
     "group was 9.8 GiB. 9.7 GiB counted against that."},
    {"killed=KILL lack=none ram=9000 ram-total=32000 ram-left=20000",
     "Linux did not end it for lack of RAM. Something else sent SIGKILL: earlyoom, systemd-oomd or "
     "a user. At 0:50.000 the program had 8.8 GiB of RAM. The machine had 19.5 GiB left."},
    {"killed=KILL ram=9000 pinned=2000",
     "SIGKILL often comes from the kernel, for lack of RAM: `dmesg` tells. At 0:50.000 the program "
     "had 8.8 GiB of RAM. The program had 2.0 GiB of RAM page-locked."},
    {"killed=SEGV ram=9000", ""},
};

static const struct row notes[] = {
    {"full", ""},
    {"full kept=900 graphs live=6000", ""},
    {"full graphs live=6000", "CUDA graphs were captured: what they keep counts as idle, and goes "
                              "back in no mode before they do."},
    {"full graphs", ""},
    {"full full reported=no full", "Other code was refused memory, too: 1x."},
    {"full full reported=went-on full",
     "1 more was refused, and the work went on at once without it."},
    {"full full reported=went-on full reported=went-on full",
     "2 more were refused, and the work went on at once without them."},
    {"full host full", "Linux refused to lock RAM, too: 1x."},
    {"host full host", ""},
    {"full live=6000 mode=compact", "PyTorch's message counts idle memory as free."},
    {"full live=6000 mode=compact miscounted",
     "PyTorch's own counter says 0: it leaves out those that vramgc raised for it."},
    {"full live=6000", ""},
    {"full live-peak=4000 driver-pool",
     "The driver's pool keeps much idle memory; one of vramgc (--async pages) does not."},
    {"fragmented hook=cudaMallocAsync live-peak=4000 driver-pool", ""},
    {"full live-peak=4000", HELD},
    {"full live-peak=4000 graphs", ""},
    {"full live-peak=4000 mode=compact threshold=60",
     "Up to 7.7 GiB were held for 3.9 GiB of tensors: below 60 % of the card (VRAMGC_THRESHOLD) "
     "vramgc leaves idle memory alone; `vramgc run --lowvram` does not, and moves no model to "
     "RAM."},
    {"full live-peak=4000 lowvram=1", ""},
    {"live-peak=4000", ""},
    {"live-now=7000 mode=observe", ""},
    {"live-now=4000 mode=observe",
     "3.8 GiB stayed idle now. Without --mode observe, and with --lowvram, it goes back at once."},
    {"live-now=4000 used-peak=4000 held-peak=4000 live-peak=4000",
     "3.8 GiB stayed idle now. The card was never over 80 % full, so vramgc left it alone. With "
     "--lowvram idle memory goes back at once."},
    {"live-now=4000 used-peak=7900",
     "3.8 GiB stayed idle now. The card was then not over 80 % full, so vramgc left it alone. With "
     "--lowvram idle memory goes back at once."},
    {"full live-now=4000 used-now=7900 used-peak=7900", ""},
    {"live-now=4000 used-now=7900 used-peak=7900",
     "3.8 GiB stayed idle now. More than 80 % of the card were in use: vramgc gives such memory "
     "back after a second, or some more where the program takes as much again (VRAMGC_COOLDOWN); "
     "with --lowvram at once."},
    {"live-now=4000 used-peak=7900 graphs", ""},
    {"live-now=4000 used-peak=7900 driver-pool",
     "3.8 GiB stayed idle now. The card was then not over 80 % full, so vramgc left it alone. With "
     "--lowvram idle memory goes back at once."},
    {"live-now=4000 used-peak=7900 lowvram=1", ""},
    {"live-now=7500 used-peak=4000 held-peak=4000 live-peak=4000 held-now=7800",
     "300 MiB stayed idle now. The card was never over 80 % full, so vramgc left it alone. With "
     "--lowvram idle memory goes back at once."},
    {"live-now=1 reserved-now=2 used-peak=4000", ""},
    {"impossible", "The program asked to share PyTorch's memory with another process, or to map it "
                   "at a second place: mode compact cannot, --mode flush can."},
    {"reclaimed=3000 reclaim=1000", "vramgc gave back up to 1000 MiB at a time, 2.9 GiB in all as "
                                    "memory came and went. That took 0 ns."},
    {"reclaimed=1000 reclaim=1000", "vramgc gave back 1000 MiB. That took 0 ns."},
    {"reclaimed=1000",
     "vramgc gave back 1000 MiB, and each time as much came back meanwhile. That took 0 ns."},
    {"would", "Mode observe: flush would have given memory back 1 time."},
    {"would would", "Mode observe: flush would have given memory back 2 times."},
    {"full granted", "1 refused request was granted when asked again."},
    {"full granted full granted", "2 refused requests were granted when asked again."},
    {"full granted conf=expandable torch=2.13.0",
     "1 refused request was granted when asked again: " WARNING "means no more."},
    {"full granted conf=expandable torch=2.12.0",
     "1 refused request was granted when asked again."},
    {"full conf=expandable torch=2.13.0", WARNING "tells of the same, and of no other fault."},
    {"limit conf=expandable torch=2.13.0", ""},
    {"full conf=expandable torch=2.13.0 full granted",
     "1 refused request was granted when asked again. " WARNING
     "tells of the same, and of no other fault."},
    {"full conf=expandable torch=2.13.0 reported=no", ""},
    {"full unproven live-peak=4000",
     HELD " Mode compact would have needed 3.9 GiB at most where PyTorch held 7.7 GiB; `vramgc "
          "prove` tests for a minute whether this card can, and turns it on."},
    {"full unproven live-peak=4000 held-peak=6000 used-peak=6000 waste=100",
     "Up to 5.9 GiB were held for 3.9 GiB of tensors: below 80 % of the card (VRAMGC_THRESHOLD) "
     "vramgc leaves idle memory alone; `vramgc run --lowvram` does not, and moves no model to RAM. "
     "Mode compact with --lowvram would have needed 4.0 GiB at most where PyTorch held 5.9 GiB; "
     "`vramgc prove` tests for a minute whether this card can, and turns it on."},
    {"full unproven live-peak=4000 graphs", ""},
    {"unproven live-peak=4000",
     "Mode compact would have needed 3.9 GiB at most where PyTorch held 7.7 GiB; `vramgc prove` "
     "tests for a minute whether this card can, and turns it on."},
    {"full killed=KILL", "CRASHED at 1:40.000: SIGKILL."},
    {"full left=2000:decode fine", "After the error 2.0 GiB more stayed live at rest than before "
                                   "it, most of decode (vae.py:12): the next job lacks that."},
    {"full left=2000:decode", ""},
    {"full left=2000:load fine", ""},
    {"full left=200:decode fine", ""},
    {"full conf=expandable torch=2.13.0 other=6000 no-cache library=libc10_cuda.so", ""},
    {"rounded-peak=3000 locked-peak=3000 torch=2.9.1",
     "2.9 GiB of host memory were page-locked, all in powers of two: up to half of it may be "
     "PyTorch's rounding."},
    {"rounded-peak=3000 locked-peak=3000 torch=2.14.0",
     "2.9 GiB of host memory were page-locked, all in powers of two: up to half of it may be "
     "PyTorch's rounding (PYTORCH_ALLOC_CONF=pinned_max_round_threshold_mb:1 turns that off)."},
    {"rounded-peak=3000 locked-peak=3000 torch=2.14.0 conf=pinned_max_round_threshold_mb:1", ""},
    {"rounded-peak=3000 locked-peak=4000 torch=2.14.0", ""},
    {"rounded-peak=1000 locked-peak=1000 torch=2.14.0", ""},
    {"empties mode=compact lowvram=1",
     "The program itself emptied PyTorch's cache 20 times, for next to nothing: compact leaves no "
     "memory in it. Its own torch.cuda.empty_cache() can go."},
    {"empties mode=compact lowvram=1 command=ComfyUI/main.py", ""},
    {"empties mode=compact lowvram=1 command=ComfyUI/main.py+--disable-smart-memory",
     "The program itself emptied PyTorch's cache 20 times, for next to nothing: compact leaves no "
     "memory in it. Without --disable-smart-memory ComfyUI does so less often."},
    {"empties mode=compact", ""},
    {"empties mode=compact lowvram=1 conf=max_split_size_mb:64", ""},
    {"moves=4:4000", MOVED " diffusers keeps them with pipe.to(\"cuda\"), without "
                           "enable_model_cpu_offload()."},
    {"moves=4:4000 command=ComfyUI/main.py", MOVED " ComfyUI keeps them with --highvram."},
    {"moves=4:4000 command=stable-diffusion-webui/launch.py+--medvram",
     MOVED " Without --medvram and --lowvram A1111 keeps them."},
    {"moves=4:4000 command=sdnext/webui.py",
     MOVED " SD.Next keeps them with a higher GPU low watermark (Settings > Model Offloading)."},
    {"moves=4:4000 command=invokeai/run.py", MOVED},
    {"moves=3:4000", ""},
    {"moves=4:5000", ""},
    {"moves=4:4000 others-peak=1000", ""},
    {"moves=4:4000:varied", ""},
    {"moves=4:4000:stay", ""},
    {"moves=4:400", ""},
    {"got=300", "The program lacked memory, and got 300 MiB from a program (77) in 0 ns."},
    {"full got=2000", "The program lacked memory, and got 2.0 GiB from a program (77) in 0 ns."},
    {"short=1000 used-peak=7900",
     "The peak was short: 7.7 GiB were live around 0:50.000, 6.7 GiB at most in all other time."},
    {"short=1000 used-peak=7900 worker=VAE",
     "The peak was short: 7.7 GiB were live around 0:50.000, 6.7 GiB at most in all other time; "
     "the largest part beside models was of sample (k/sampling.py:12), VAE."},
    {"short=1000 used-peak=4000 held-peak=4000", ""},
    {"short=100 used-peak=7900", ""},
    {"short=1000 used-peak=7900 full grows=100", ""},
    {"short=1000 used-peak=7900 full request=390 load=load_model:7800", ""},
};

/* Rows that a case came to; a row is its condition. */
static struct {
    const struct when *reached[200];
    size_t count;
} self;

bool __real_facts_fit(const struct facts *facts, const struct when *when, const char *words);
bool __wrap_facts_fit(const struct facts *facts, const struct when *when, const char *words);

bool __wrap_facts_fit(const struct facts *facts, const struct when *when, const char *words) {
    bool fits = __real_facts_fit(facts, when, words);
    size_t i = 0;
    while (i < self.count && self.reached[i] != when)
        i++;
    if (fits && i == self.count && i < ARRAY_LENGTH(self.reached))
        self.reached[self.count++] = when;
    return fits;
}

static bool is_reached(const struct when *when) {
    for (size_t i = 0; i < self.count; i++)
        if (self.reached[i] == when)
            return true;
    return false;
}

static struct verdict verdict_in(const char *facts) {
    struct program program;
    struct stats_file *record = &program.record;
    case_make(&program, facts);
    struct verdict verdict = verdict_of(&record, 1);
    case_free(&program);
    return verdict;
}

static void expect(const struct row *row, const char *said) {
    if (strcmp(said, row->says) != 0)
        print_error("%s\n    says    %s\n    but for %s\n", row->facts, said, row->says);
    assert_string_equal(said, row->says);
}

static void each_case_has_its_verdict(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(words); i++) {
        struct verdict verdict = verdict_in(words[i].facts);
        expect(&words[i], verdict_name(&verdict));
    }
}

static void each_case_is_told(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(whats); i++)
        expect(&whats[i], verdict_in(whats[i].facts).what);
}

static void who_had_most_is_told(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(mosts); i++)
        expect(&mosts[i], verdict_in(mosts[i].facts).most);
}

static void each_case_is_explained(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(whys); i++)
        expect(&whys[i], verdict_in(whys[i].facts).cause);
}

static void each_case_has_its_advice(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(todos); i++)
        expect(&todos[i], verdict_in(todos[i].facts).todo);
}

static void the_rest_is_noted(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(notes); i++)
        expect(&notes[i], verdict_in(notes[i].facts).note);
}

static void look_at_all(const struct row *rows, size_t count) {
    for (size_t i = 0; i < count; i++)
        verdict_in(rows[i].facts);
}

/* An odd row out is a sentence that nobody gets, or that no test sees. */
static void no_row_is_never_reached(void **state) {
    size_t missing = 0;
    (void)state;
    look_at_all(words, ARRAY_LENGTH(words));
    look_at_all(whats, ARRAY_LENGTH(whats));
    look_at_all(whys, ARRAY_LENGTH(whys));
    look_at_all(todos, ARRAY_LENGTH(todos));
    look_at_all(notes, ARRAY_LENGTH(notes));
    for (size_t i = 0; i < sentence_count; i++)
        if (sentences[i].what != SAY_NEXT && !is_reached(&sentences[i].when)) {
            print_error("sentence %zu is never said: %s\n", i, sentences[i].words);
            missing++;
        }
    for (size_t i = 0; i < cause_row_count; i++)
        if (!is_reached(&cause_rows[i].when)) {
            print_error("row %zu of the causes is never reached\n", i);
            missing++;
        }
    assert_int_equal(missing, 0);
}

static void each_verdict_is_there(void **state) {
    bool kinds[VERDICT_KINDS] = {0}, causes[VRAMGC_CAUSES] = {0};
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(words); i++) {
        struct verdict verdict = verdict_in(words[i].facts);
        kinds[verdict.kind] = true;
        causes[verdict.oom] = causes[verdict.oom] || verdict.kind == VERDICT_OOM;
    }
    kinds[VERDICT_NONE] = verdict_of(NULL, 0).kind == VERDICT_NONE;
    for (size_t i = 0; i < VERDICT_KINDS; i++)
        assert_true(kinds[i]);
    for (size_t i = 0; i < VRAMGC_CAUSES; i++)
        assert_true(causes[i]);
}

/* A case has room for all words that a sentence may need. */
static void no_word_is_left_open(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(todos); i++) {
        struct verdict verdict = verdict_in(todos[i].facts);
        assert_null(strpbrk(verdict.cause, "{[]}"));
        assert_null(strpbrk(verdict.todo, "{[]}"));
        assert_null(strpbrk(verdict.note, "{[]}"));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_case_has_its_verdict), cmocka_unit_test(each_case_is_explained),
        cmocka_unit_test(each_case_has_its_advice),  cmocka_unit_test(the_rest_is_noted),
        cmocka_unit_test(no_row_is_never_reached),   cmocka_unit_test(each_verdict_is_there),
        cmocka_unit_test(no_word_is_left_open),      cmocka_unit_test(each_case_is_told),
        cmocka_unit_test(who_had_most_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
