/* prove_card.c: see prove_card.h. It has no words of its own for what it finds. */
#include "prove/prove_card.h"

#include "prove/child.h"
#include "prove/park_trial.h"
#include "prove/proof_file.h"
#include "vm/version.h"

#include <stdio.h>

static const struct prove_telling *tell;

static int not_tried(const char *why, bool others_use_it) {
    tell->not_tried(why, others_use_it);
    return PROVE_NOT_RUN;
}

static int prove_one(int device, const char *version, const struct python *python,
                     struct findings *findings) {
    char path[512], why[640];
    if (!child_look(device, findings)) {
        snprintf(why, sizeof why, "gpu%d cannot be tried now: %s", device, findings->card.busy);
        return not_tried(why, findings->card.others);
    }
    check_spare_bytes = findings->card.display ? CARD_SPARE_MIB * MEBIBYTE : 0;
    tell->begin(device, &findings->card);
    if (child_run_checks(device, findings, tell->row)) {
        static const char name[] = "costs", asked[] = "what the driver's calls cost, by size";
        python_run(python, device, findings, tell->row);
        tell->row(name, asked, NULL);
        child_run_costs(device, findings);
        tell->row(name, asked, &findings->costs_result);
        park_trial_run(device, findings, tell->row);
    }
    if (!proof_write(findings, version, path, sizeof path)) {
        snprintf(why, sizeof why, "the proof cannot be written to %s", path);
        return not_tried(why, false);
    }
    tell->end(path);
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

static int prove_all(int device, const char *version, const struct python *python,
                     struct findings *findings) {
    int count = child_count_devices(findings), status = PROVE_PASSED;
    if (count == 0)
        return not_tried(findings->card.busy[0] ? findings->card.busy : "the driver sees no device",
                         false);
    if (device >= count)
        return not_tried("there is no such device", false);
    for (int i = device < 0 ? 0 : device; i < (device < 0 ? count : device + 1); i++) {
        int one = prove_each(i, version, python);
        status = one > status ? one : status;
    }
    return status;
}

int prove_run(int device, const char *version, const struct python *python,
              const struct prove_telling *telling) {
    char why[768], cannot[800];
    tell = telling;
    if (!proof_place(why, sizeof why)) { /* before the minute, not behind it */
        snprintf(cannot, sizeof cannot, "no proof can be kept: %s", why);
        return not_tried(cannot, false);
    }
    const char *missing = driver_load();
    struct findings *findings = missing ? NULL : findings_new();
    if (!findings)
        return not_tried(missing ? missing : "no memory", false);
    int status = prove_all(device, version, python, findings);
    memory_unmap(findings, sizeof *findings);
    return status;
}
