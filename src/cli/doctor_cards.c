/* doctor_cards.c: asks the driver in a child, as `vramgc prove` does: a fault there ends only it.
 */
#include "cli/doctor_checks.h"
#include "cli/finding.h"
#include "prove/child.h"
#include "prove/park_driver.h"
#include "base/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void tell_card(const char *about, const struct card *card) {
    static const char *const proofs[] = {
        [PROOF_PASSED] = "proven: mode auto is compact",
        [PROOF_FAILED] = ("its proof failed, mode auto is flush; "
                          "`vramgc prove --share` prints it for a bug report"),
        [PROOF_OTHER] = "proven with another driver or vramgc: run `vramgc prove` again",
        [PROOF_NONE] = "not proven, so mode auto is flush: run `vramgc prove` once",
    };
    struct proof proof = proof_look(&card->key);
    enum proof_state state = proof.state;
    const char *park = park_objection(proof.park);
    struct options options;
    char driver[64];
    struct text text = TEXT_IN(driver);
    driver_version_say_both(&text, card->key.cuda_version, card->key.version);
    finding(state == PROOF_PASSED ? MARK_OK : MARK_NOTE, about, "%s%s, driver %s; %s", card->name,
            card->simulated ? ", simulated" : "", driver, proofs[state]);
    options_read(&options, NULL, NULL, NULL);
    if (options.park)
        finding(park ? MARK_WRONG : MARK_OK, about, "VRAMGC_PARK: %s",
                park ? park : "the driver takes programs off the card");
}

/* One that is full is told as such; where it is too full for a context, nothing can begin there.
 * What else keeps it from being tried now, as much of it in use, is nothing wrong. */
static void look(struct findings *findings, int count) {
    for (int i = 0; i < count; i++) {
        struct card *card = &findings->card;
        char about[16];
        snprintf(about, sizeof about, "gpu%d", i);
        *card = (struct card){0};
        child_look(i, findings);
        if (*card->name)
            tell_card(about, card);
        if (card->full)
            finding(card->total_bytes ? MARK_NOTE : MARK_WRONG, about, "the card is full: %s%s%s",
                    card->busy, *card->user ? "; " : "", card->user);
        else if (!*card->name)
            finding(MARK_WRONG, "gpu", "gpu%d: %s", i, card->busy);
    }
}

/* ---- the driver ---- */

/* Looked for before the driver's library is loaded: started by root it makes /dev/nvidiactl itself,
 * also without a driver. */
struct traces {
    bool module; /* the kernel's part of the driver is loaded */
    bool device; /* and may be reached from here; WSL has its own */
};

static struct traces find_traces(void) {
    return (struct traces){
        .module = access("/proc/driver/nvidia/version", F_OK) == 0,
        .device = access("/dev/nvidiactl", F_OK) == 0 || access("/dev/dxg", F_OK) == 0,
    };
}

/* That there is no driver is said once, and only where it is so. */
static void no_device(const struct traces *traces, const char *why) {
    static const char no_driver[] = "no NVIDIA driver here: ";
    if (strncmp(why, no_driver, strlen(no_driver)) == 0)
        why += strlen(no_driver);
    if (traces->module && !traces->device)
        finding(MARK_WRONG, "driver",
                "%s; the NVIDIA driver is loaded, but there is no /dev/nvidiactl: the container "
                "was started without --gpus all",
                why);
    else if (!traces->module && access("/dev/dxg", F_OK))
        finding(
            MARK_WRONG, "driver",
            "%s: the NVIDIA driver is not loaded on this machine. Install it, or load it; start "
            "a container with --gpus all",
            why);
    else
        finding(MARK_WRONG, "driver", "%s", why);
}

/* Within one major version PyTorch runs on older drivers, too. */
static void compare(const char *torch_cuda, int driver_version) {
    int needed = 0, cuda = driver_version / 1000;
    char version[DRIVER_VERSION_BYTES], driver[64];
    struct text text = TEXT_IN(driver);
    if (sscanf(torch_cuda, "%d", &needed) != 1 || cuda <= 0 || needed <= cuda)
        return;
    driver_version_read(version, sizeof version);
    driver_version_say_both(&text, driver_version, version);
    text = TEXT_IN(version);
    if (driver_branch(needed * 1000))
        text_format(&text, " to %d or newer", driver_branch(needed * 1000));
    finding(MARK_WRONG, "PyTorch",
            "it is made for CUDA %s, the driver is %s: PyTorch will find no GPU; update the "
            "driver%s, or install the PyTorch for CUDA %d",
            torch_cuda, driver, version, cuda);
}

void doctor_cards(const char *torch_cuda) {
    setenv("VRAMGC_MODE", "off", 1); /* for our children: a library of ours stays out of it */
    struct traces traces = find_traces();
    struct findings *findings = findings_new();
    const char *missing = driver_load();
    if (missing || !findings) {
        no_device(&traces, missing ? missing : "no memory");
        return;
    }
    int count = child_count_devices(findings);
    if (count == 0)
        no_device(&traces,
                  *findings->card.busy ? findings->card.busy : "the driver sees no device");
    compare(torch_cuda, findings->driver_version);
    look(findings, count);
    memory_unmap(findings, sizeof *findings);
}
