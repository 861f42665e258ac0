/* why_rows.h: what holds, in the words of case.h, and what a report then says of why it was,
 * written out. */
#ifndef WHY_ROWS_H
#define WHY_ROWS_H

#include "sentence_rows.h"

#define OPTIMIZER                                                                                  \
    "The optimizer that sample (sampling.py:12) calls was making tensors as large as the weights " \
    "that are trained: AdamW two of each at the first step, which stay, and one more at every "    \
    "step."
#define IDLE_SAID "PyTorch kept much idle memory: 7.7 GiB for 3.9 GiB of tensors."
#define STILL_ONE                                                                                  \
    "The card is full: 500 MiB more were needed. Earlier jobs (1) fitted: is this one larger, or " \
    "do several work at once?"

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
    {"full", "The card is full: 500 MiB more were needed."},
    {"full request=390 load=Model.from_pretrained:7800",
     "Model.from_pretrained (sampling.py:12) had put 7.6 GiB on the card and was not done."},
    {"full request=390 load=load_model:7800:callee",
     "load_model (sampling.py:12) had put 7.6 GiB on the card and was not done."},
    {"rounded request=8 load=load_model:7700:part",
     "load_model (sampling.py:12) had put 7.6 GiB on the card and was not done."},
    {"full request=8 load=load_unet:7700:after",
     "Part.__init__ (sampling.py:12) had put 100 MiB on the card and was not done."},
    {"full request=50 load=load_unet:7700:after", "The card is full."},
    {"full request=8 load=StaticCache.__init__:7700", "The card is full."},
    {"rounded request=50 load=LoadModel:7800",
     "LoadModel (sampling.py:12) had put 7.6 GiB on the card and was not done."},
    {"full request=50 grows=0 load=load_model:7800",
     "load_model (sampling.py:12) had put 6.7 GiB on the card and was not done. 900 MiB that it "
     "put there before are still live."},
    {"full request=900 grows=0 load=load_model:7800",
     "load_model (sampling.py:12) had put 6.7 GiB on the card and was not done. 900 MiB that it "
     "put there before are still live."},
    {"full request=900 grows=1 load=load_model:7800",
     "load_model (sampling.py:12) had put 6.7 GiB on the card and was not done. 939 MiB that it "
     "put there before are still live."},
    {"full request=900 grows=50 load=load_model:7800 jobs=2000:2000",
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
    {"full request=390 load=apply_model:3000", "The card is full: 290 MiB more were needed."},
    {"full full failed=2000",
     "decode (vae.py:12) had run out of memory just before, and 2.0 GiB of its tensors were "
     "still live."},
    {"full full failed=2000:threads:same",
     "Another thread had run out of memory just before, in decode (vae.py:12), too: 2.0 GiB of its "
     "tensors were live."},
    {"full stale=1200:decode", "The card is full. 1.2 GiB are tensors of decode (vae.py:12) that "
                               "were there before, while the "
                               "program rested."},
    {"full stale=400:decode", STILL_ONE},
    {"full stale=1200:load", STILL_ONE},
    {"full stale=1200:asker", STILL_ONE},
    {"full stale=1200:decode theirs=100", STILL_ONE},
    {"full full failed=400", "The card is full: 500 MiB more were needed."},
    {"full reported=went-on full failed=2000", "The card is full: 500 MiB more were needed."},
    {"full full failed=2000 rested", "The card is full: 500 MiB more were needed."},
    {"full full failed=2000 grows=0", "The card is full: 500 MiB more were needed."},
    {"full request=100", "The card is full."},
    {"rounded", "The card is full: the last of PyTorch's steps of 12 or 20 MiB did not fit."},
    {"rounded jobs=500:600", "The card is full: the last of PyTorch's steps of 12 or 20 MiB did "
                             "not fit. 1.2 GiB more stay live than after the first job."},
    {"rounded request=90 held=7000 live=6900 process=a:900 states=1000", OPTIMIZER},
    {"rounded request=90 held=7000 live=6900 process=a:900 load=load_model:6800 weights=7000",
     "load_model (sampling.py:12) had put 6.6 GiB on the card and was not done; the files of "
     "weights that were open have 6.8 GiB."},
    {"rounded request=90 held=7000 live=6900 process=a:900 load=load_model:6800 jobs=2000:2000",
     "load_model (sampling.py:12) had put 900 MiB on the card and was not done. 5.8 GiB that it "
     "put there before are still live."},
    {"full rounded request=90 failed=2000:threads:same",
     "Another thread had run out of memory just before, in decode (vae.py:12), too: 2.0 GiB of its "
     "tensors were live."},
    {"full rounded request=90 failed=2000", "decode (vae.py:12) had run out of memory just before, "
                                            "and 2.0 GiB of its tensors were still live."},
    {"rounded request=90 stale=1200:decode",
     "The card is full. 1.2 GiB are tensors of decode (vae.py:12) that were there before, while "
     "the program rested."},
    {"rounded request=3000 free=3010 held=5000 live=4900 pile=42:together",
     "sample (sampling.py:12) has 42 tensors, and this request is as large as all of them "
     "together, as torch.cat() makes it to join them."},
    {"rounded request=90 attends=3000",
     "attn_processor.__call__ (vae.py:12) has 2.9 GiB of the card: attention makes its scores "
     "whole here, each with each, as it does where no fast kernel of PyTorch's can serve."},
    {"rounded request=90 row=9", "sample (sampling.py:12) has 9 tensors of 90.0 MiB, and wanted "
                                 "one more: how many it makes in all is not known."},
    {"rounded request=2100 free=2110 held=5000 live=4900 phase=Attention.forward",
     "Attention.forward (sampling.py:12) wanted 2.1 GiB at once: attention makes its scores whole "
     "here, each with each, as it does where no fast kernel of PyTorch's can serve."},
    {"full other=6000 no-cache",
     "The program holds 5.9 GiB, none of it by PyTorch's caching allocator."},
    {"full other=6000", "Other code in this program holds 5.9 GiB; PyTorch does not know it."},
    {"full other=6000 library=libxformers.so",
     "Other code in this program, mostly libxformers.so, holds 5.9 GiB; PyTorch does not know it."},
    {"full request=9000", "The request alone, 8.8 GiB, is larger than the card, 8.0 GiB."},
    {"full request=8200", "The request alone, 8.0 GiB, is larger than the card."},
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
    {"full request=3000 pile=42:together phase=Block.__init__ phase=denoise",
     "The card is full: 2.8 GiB more were needed."},
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
    {"full phase=optimizer", "The card is full: 500 MiB more were needed."},
    {"full request=8 grows=0 load=sample:7800 phase=optimizer", OPTIMIZER},
    {"full states=400", "The card is full: 500 MiB more were needed."},
    {"full grows=100 states=1000", OPTIMIZER},
    {"fragmented states=1000", OPTIMIZER},
    {"fragmented request=940",
     "Fragmentation: 1000 MiB were free or idle, but in pieces. In one piece that were 60.0 MiB "
     "more than was wanted: the card is nearly full, too."},
    {"fragmented request=950", "The card is full."},
    {"full live=5000 mode=compact",
     "The card is full: 500 MiB more were needed. 2.8 GiB were idle, in pieces of "
     "which live tensors have a part."},
    {"full request=3000 attends=3000 phase=CrossAttention.forward", /* who asked has none */
     "CrossAttention.forward (sampling.py:12) wanted 2.9 GiB at once: attention makes its scores "
     "whole here, each with each, as it does where no fast kernel of PyTorch's can serve."},
    {"full request=390 held=7000 live=6900 load=load_model:6800 process=a:700",
     "load_model (sampling.py:12) had put 6.6 GiB on the card and was not done."},
    {"full request=390 held=7000 live=6900 load=load_model:6800 process=a:700 weights=7000",
     "Another process holds 700 MiB of the card (a, pid 701)."},
    {"fragmented load=load_model:6800",
     "load_model (sampling.py:12) had put 6.6 GiB on the card and was not done."},
    {"full held=7000 live=6900 process=a:400:child process=b:300:child",
     "2 processes that this program started hold 700 MiB of the card (the largest: a, pid 701)."},
    {"full held=4000 live=4000 process=x:3000 process=a:400:child process=b:300:child",
     "Another process holds 2.9 GiB of the card (x, pid 701)."},
    {"full held=5000 live=4900 process=a:900 process=b:800 process=c:800",
     "Other processes hold 2.4 GiB of the card (the largest: a, pid 701)."},
    {"full request=400 row=9",
     "sample (sampling.py:12) has 9 tensors of 400 MiB, and wanted one more: how many it makes in "
     "all is not known."},
    {"full request=400 row=9 phase=denoise", "The card is full: 300 MiB more were needed."},
    {"full attends=3000",
     "attn_processor.__call__ (vae.py:12) has 2.9 GiB of the card: attention makes its scores "
     "whole here, each with each, as it does where no fast kernel of PyTorch's can serve."},
    {"full attends=1000", "The card is full: 500 MiB more were needed."},
    {SEARCH " full request=300 phase=train.step fine",
     "train.step (sampling.py:12) ran out of memory 3 times, wanted less each time, and then went "
     "on: the program was looking for what fits."},
    {SEARCH " full request=300 phase=train.step", "The card is full: 200 MiB more were needed."},
    {SEARCH " full request=300 phase=train.step fine rested",
     "The card is full: 200 MiB more were needed."},
    {SEARCH " full request=700 phase=train.step fine",
     "The card is full: 600 MiB more were needed."},
    {"full moves=2:600", "The card is full: 500 MiB more were needed. Earlier jobs (2) fitted, "
                         "with 2.9 GiB at most: is this one larger, or do several work at once?"},
    {"full live=2700 moves=2:600",
     "The card is full: 500 MiB more were needed. Earlier jobs (2) fitted: is this one larger, or "
     "do several work at once?"},
    {"full full moves=2:600 rested",
     "The card is full: 500 MiB more were needed, and 900 MiB more stay live than before the first "
     "error."},
    {"full full live=2700 moves=2:600:stay rested", /* the third had an error, too */
     "The card is full: 500 MiB more were needed. Earlier jobs (2) fitted: is this one larger, or "
     "do several work at once?"},
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

#endif
