/* test_sentences.c: a case, and what is said of it: the verdict, why it was, what to do, and what
 * else there is to know. No row of a table may be one that no case here comes to. */
#include "unit.h"

#include "case.h"
#include "judge/cause.h"
#include "judge/sentences.h"
#include "judge/verdict.h"
#include "base/base.h"
#include "sentence_rows.h"
#include "why_rows.h"

#include <string.h>

#define HELD                                                                                       \
    "Up to 7.7 GiB were held for 3.9 GiB of tensors: below 80 % of the card (VRAMGC_THRESHOLD) "   \
    "vramgc leaves idle memory alone; `vramgc run --lowvram` does not, and moves no model to RAM."
#define MOVED                                                                                      \
    "In each of 3 jobs the program moved models to the card and back to RAM, without need: with "  \
    "all of them there 6.8 GiB would have been live."
#define FINE                                                                                       \
    "No allocation failed: 7.7 GiB held at the peak for 7.7 GiB of tensors, hardly more than "     \
    "needed."
#define WARNING "PyTorch's warning \"mapping failed with OOM\" "

static const struct row whats[] = {
    {"rounded request=8 free=8 idle=0",
     "OUT OF MEMORY 1x, at 1:00.000: 8.0 MiB wanted, 8.0 MiB free "
     "(PyTorch takes 12 or 20 MiB at a time)."},
    {"live-peak=7900 spilled=800", "No allocation failed: 7.7 GiB held at the peak for 7.7 GiB of "
                                   "tensors, up to 800 MiB of which "
                                   "lay in RAM, for the card had no room."},
    {"", FINE},
    {"live-peak=4000", "No allocation failed: 7.7 GiB held at the peak for 3.9 GiB of tensors."},
    {"two-cards live-peak=4000",
     "No allocation failed: 7.7 GiB held at the peak on GPU 0 for 3.9 GiB of tensors."},
    {"others-held=2000",
     "No allocation failed: 7.7 GiB held at the peak; PyTorch held up to 7.7 GiB "
     "for 7.7 GiB of live memory, other libraries up to 2.0 GiB."},
    {"no-cache", "The program used CUDA, but vramgc saw no memory of PyTorch's allocator."},
    {"no-cache stopped", "The program used CUDA, but vramgc saw no memory of PyTorch's allocator: "
                         "it was stopped, perhaps before it took any."},
    {"no-cache others-held=6000 library=libc10_cuda.so",
     "PyTorch's cache is off (PYTORCH_NO_CUDA_MEMORY_CACHING): each of its tensors, 5.9 GiB at "
     "most, was a request of its own to the driver."},
    {"& no-cache others-held=6000 library=libc10_cuda.so", FINE},
    {"no-cache reserved-peak=100", "No allocation failed."},
    {"killed=SEGV live-peak=4000",
     "CRASHED at 1:40.000: SIGSEGV. No allocation had failed: 7.7 GiB "
     "held at the peak for 3.9 GiB of tensors."},
    {"grows=100", "Memory grows: +2.8 GiB, to 4.8 GiB. " FINE},
    {"job-grows=36", "Host memory grows: +36.0 MiB a round of work on the card, 58 rounds. " FINE},
    {"job-grows=36:load", FINE},
    {"job-grows=1", FINE},
    {"job-grows=36 jobs=500:0", "Host memory grows: +36.0 MiB a round of work on the card, 58 "
                                "rounds. " FINE},
    {"job-grows=36 moves=9:100", FINE},
    {"host-grows=100:pinned",
     "Host memory grows: +100 MiB a job, 29 jobs. It is page-locked. " FINE},
};

static const struct row words[] = {
    {"", "ok"},
    {"full", "full"},
    {"fragmented", "fragmentation"},
    {"rounded", "full"},
    {"driver", "driver"},
    {"limit", "limit"},
    {"host", "host_memory"},
    {"unknown", "full"},
    {"fragmented hook=cudaMallocAsync", "pool"},
    {"full hook=cudaMallocAsync", "full"},
    {"full live=6000 kept=900", "private_pool"},
    {"full grows=100", "growth"},
    {"full process=python:3000 held=4000", "other_process"},
    {"full other=6000", "other_code"},
    {"full request=390 other=4000 live=3800 load=load_model:3700 weights=3900", "other_code"},
    {"full request=9000", "too_large"},
    {"full request=9000 limited=9000", "limit"},
    {"full request=390 load=load_model:7800 limited=700", "limit"},
    {"full limited=700", "limit"},
    {"full reported=went-on", "ok"},
    {"full granted", "full"},
    {"grows=100", "grows"},
    {"host-grows=100", "grows"},
    {"live-peak=4000", "idle"},
    {"no-cache", "unknown"},
    {"killed=KILL", "crashed"},
    {"killed=SEGV", "crashed"},
    {"killed=SEGV stopped", "ok"},
    {"full pile=20", "growth"},
    {"full pile=20 jobs=500:600", "full"},
    {"full request=390 load=load_model:7800", "full"},
    {"full request=390 load=offload_model:7800", "growth"},
    {"fragmented pile=20", "fragmentation"},
    {"fragmented grows=100", "growth"},
    {"fragmented kept=900", "private_pool"},
    {"fragmented kept=900 mode=compact", "fragmentation"},
    {"fragmented kept=900 mode=compact graphs", "private_pool"},
    {"fragmented request=102 kept=2", "fragmentation"},
    {"rounded limited=700", "limit"},
    {"rounded request=9000", "too_large"},
    {"host request=9000", "host_memory"},
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
    {"& held-peak=4000 live-peak=1000 driver-pool",
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
    {"live-now=4000 mode=observe graphs", ""},
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
    {"used-now=7900 used-peak=7900", ""},
    {"live-now=4000 used-now=7900 used-peak=7900 lowvram=1", ""},
    {"live-now=4000 used-now=7900 used-peak=7900 graphs", ""},
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
    {"unproven", ""},
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
    {"full moves=4:4000", ""},
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

/* The peak is 7.7 GiB. A program that is ended while it takes more has had no look at that. */
static const struct row mosts[] = {
    {"owner=7800", "7.6 GiB of 7.6 GiB live at the peak: sample (k/sampling.py:12)"},
    {"full stale=1200:decode", "1.2 GiB of 7.7 GiB live then: decode (k/vae.py:12); 1.2 GiB of it "
                               "more than after the first job"},
    {"full stale=1200:asker", "1.2 GiB of 7.7 GiB live then: asker (k/vae.py:12)"},
    {"owner=6000", "5.9 GiB of 5.9 GiB live near the peak: sample (k/sampling.py:12)"},
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
    struct program programs[2];
    struct stats_file *records[] = {&programs[0].record, &programs[1].record};
    const char *other = strchr(facts, '&');
    case_make(&programs[0], facts);
    if (other)
        case_make(&programs[1], other + 1);
    struct verdict verdict = verdict_of(records, other ? 2 : 1);
    case_free(&programs[0]);
    if (other)
        case_free(&programs[1]);
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

/* What was idle is one figure in the verdict and in the sum. */
static const struct row sums[] = {
    {"full live=7700 idle=120",
     "live 7.5 GiB + idle 120 MiB + idle in pieces 80.0 MiB + others and driver 192 MiB + free 100 "
     "MiB = 8.0 GiB"},
    {"full live=7700 idle=20",
     "live 7.5 GiB + idle 200 MiB + others and driver 192 MiB + free 100 MiB = 8.0 GiB"},
};

static void who_had_the_card_adds_up(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(sums); i++)
        expect(&sums[i], verdict_in(sums[i].facts).sum);
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
        cmocka_unit_test(who_had_most_is_told),      cmocka_unit_test(who_had_the_card_adds_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
