/* prove_card.c: see prove_card.h. It tells on standard output how far it is. */
#include "prove/prove_card.h"

#include "prove/child.h"
#include "prove/park_trial.h"
#include "prove/proof_file.h"
#include "vm/version.h"

#include <stdio.h>

static void tell(const char *name, const char *asked, const struct result *done) {
    static const char *const outcomes[] = {"passed", "FAILED", "left out",
                                           "not offered by this driver"};
    char time[32];
    struct text text = TEXT_IN(time);
    if (done) {
        text_add_duration(&text, done->ns);
        printf("%s (%s)\n", outcomes[done->outcome], time);
        if (*done->said)
            printf("                %s\n", done->said);
    } else {
        printf("  %-13s %s ... ", name, asked);
    }
    fflush(stdout);
}

static void tell_card(int device, const struct card *card) {
    char driver[64];
    struct text text = TEXT_IN(driver);
    driver_version_say_both(&text, card->key.cuda_version, card->key.version);
    printf("gpu%d  %s  %s  %zu MiB, %zu free; driver %s; engine %d%s\n", device, card->name,
           card->bus, card->total_bytes >> 20, card->free_bytes >> 20, driver, VM_VERSION,
           card->simulated ? "; SIMULATED: times mean nothing" : "");
    fflush(stdout);
}

/* Before anything is taken. */
static void spare_the_desktop(const struct card *card) {
    check_spare_bytes = card->display ? CARD_SPARE_MIB * MEBIBYTE : 0;
    if (card->display)
        printf("a display hangs on this card: %d MiB are left to it, and what it shows may "
               "stutter\n",
               CARD_SPARE_MIB);
}

static void tell_end(const struct findings *findings, const char *path) {
    if (findings->costs.unmap_waits)
        printf("unmapping waits for running kernels here: compact gives memory back while the GPU "
               "has nothing to do\n");
    if (findings->park.state == STATE_DONE && findings->park.outcome != CHECK_PASSED)
        printf("programs are not parked on this card: VRAMGC_PARK stays off\n");
    if (findings->failed)
        printf("%zu FAILED: mode auto stays flush on this card. `vramgc prove --share` prints the "
               "proof for a bug tracker: %s\n",
               findings->failed, path);
    else
        printf("passed: mode auto is compact on this card from now on (proof: %s)\n", path);
}

static int prove_one(int device, const char *version, const struct python *python,
                     struct findings *findings) {
    char path[512];
    if (!child_look(device, findings)) {
        fprintf(stderr, "vramgc: gpu%d cannot be tried now: %s\n", device, findings->card.busy);
        return PROVE_NOT_RUN;
    }
    tell_card(device, &findings->card);
    spare_the_desktop(&findings->card);
    if (child_run_checks(device, findings, tell)) {
        static const char name[] = "costs", asked[] = "what the driver's calls cost, by size";
        python_run(python, device, findings, tell);
        tell(name, asked, NULL);
        child_run_costs(device, findings);
        tell(name, asked, &findings->costs_result);
        park_trial_run(device, findings, tell);
    }
    if (!proof_write(findings, version, path, sizeof path)) {
        fprintf(stderr, "vramgc: the proof cannot be written to %s\n", path);
        return PROVE_NOT_RUN;
    }
    tell_end(findings, path);
    return findings->failed ? PROVE_FAILED : PROVE_PASSED;
}

static int prove_each(int device, const char *version, const struct python *python) {
    struct findings *findings = findings_new();
    if (!findings)
        return PROVE_NOT_RUN;
    int status = prove_one(device, version, python, findings);
    memory_unmap(findings, sizeof *findings);
    return status;
}

int prove_run(int device, const char *version, const struct python *python) {
    struct findings *findings = findings_new();
    const char *missing = driver_load();
    int status = PROVE_PASSED;
    char why[768];
    if (!proof_place(why, sizeof why)) { /* before the minute, not behind it */
        fprintf(stderr, "vramgc: no proof can be kept: %s\n", why);
        return PROVE_NOT_RUN;
    }
    if (missing || !findings) {
        fprintf(stderr, "vramgc: %s\n", missing ? missing : "no memory");
        return PROVE_NOT_RUN;
    }
    int count = child_count_devices(findings);
    if (count == 0 || device >= count) {
        fprintf(stderr, "vramgc: %s\n",
                count                    ? "there is no such device"
                : findings->card.busy[0] ? findings->card.busy
                                         : "the driver sees no device");
        status = PROVE_NOT_RUN;
    }
    for (int i = device < 0 ? 0 : device; i < (device < 0 ? count : device + 1) && i < count; i++) {
        int one = prove_each(i, version, python);
        status = one > status ? one : status;
    }
    memory_unmap(findings, sizeof *findings);
    return status;
}
