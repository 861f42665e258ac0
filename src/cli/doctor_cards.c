/* doctor_cards.c: asks the driver in a child, as `vramgc prove` does: a fault there ends only it.
 */
#include "cli/doctor_checks.h"
#include "cli/finding.h"
#include "cli/units.h"
#include "prove/child.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void tell_card(int device, const struct card *card) {
    char about[16];
    snprintf(about, sizeof about, "gpu%d", device);
    const char *simulated = card->simulated ? ", simulated" : "";
    switch (proof_look(&card->key).state) {
    case PROOF_PASSED:
        finding(MARK_OK, about, "%s%s, driver %s; proven: mode auto is compact", card->name,
                simulated, card->key.driver);
        break;
    case PROOF_FAILED:
        finding(MARK_NOTE, about,
                "%s%s, driver %s; its proof failed, mode auto is flush; `vramgc prove --share` "
                "prints it for a bug report",
                card->name, simulated, card->key.driver);
        break;
    case PROOF_OTHER:
        finding(MARK_NOTE, about,
                "%s%s, driver %s; proven with another driver or vramgc: run `vramgc prove` again",
                card->name, simulated, card->key.driver);
        break;
    case PROOF_NONE:
        finding(MARK_NOTE, about,
                "%s%s, driver %s; not proven, so mode auto is flush: run `vramgc prove` once",
                card->name, simulated, card->key.driver);
        break;
    }
}

/* What keeps a card from being tried now, as much of it in use, is nothing wrong. */
static void look(struct findings *findings, int count) {
    for (int i = 0; i < count; i++) {
        child_look(i, findings);
        if (*findings->card.name)
            tell_card(i, &findings->card);
        else
            finding(MARK_WRONG, "gpu", "gpu%d: %s", i, findings->card.busy);
    }
}

static void no_device(const char *why) {
    if (access("/dev/nvidiactl", F_OK) && access("/dev/dxg", F_OK))
        finding(MARK_WRONG, "driver",
                "%s; there is no /dev/nvidiactl: the NVIDIA driver is not loaded, or the container "
                "was started without --gpus all",
                why);
    else
        finding(MARK_WRONG, "driver", "%s", why);
}

void doctor_cards(void) {
    setenv("VRAMGC_MODE", "off", 1); /* for our children: a library of ours stays out of it */
    struct findings *findings = findings_new();
    const char *missing = driver_load();
    if (missing || !findings) {
        no_device(missing ? missing : "no memory");
        return;
    }
    int count = child_count_devices(findings);
    if (count == 0)
        no_device(*findings->card.busy ? findings->card.busy : "the driver sees no device");
    look(findings, count);
    memory_unmap(findings, sizeof *findings);
}
