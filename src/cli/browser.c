/* browser.c: see browser.h. What opens a page is asked, never guessed: xdg-open knows the user's
 * choice, wslview the one outside of WSL. */
#include "cli/browser.h"
#include "read/complain.h"
#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* Without any of these xdg-open would look for a browser of the terminal. */
static bool has_screen(void) {
    static const char *const names[] = {"DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "WSL_DISTRO_NAME"};
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
        const char *value = getenv(names[i]);
        if (value && *value)
            return true;
    }
    return false;
}

static pid_t start(const char *opener, const char *path) {
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    char *const arguments[] = {(char *)(uintptr_t)opener, (char *)(uintptr_t)path, NULL};
    pid_t pid = 0;
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
    bool started = posix_spawnp(&pid, opener, &files, &attributes, arguments, environ) == 0;
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
    return started ? pid : 0;
}

/* Some go on as long as the browser does: one that has not failed in three seconds has opened it.
 */
static bool succeeds(pid_t pid) {
    uint64_t until_ns = clock_ns() + 3 * SECOND_NS;
    int status = 0;
    for (;;) {
        pid_t ended = waitpid(pid, &status, WNOHANG);
        if (ended == pid)
            return WIFEXITED(status) && WEXITSTATUS(status) == 0;
        if ((ended < 0 && errno != EINTR) || clock_ns() > until_ns)
            return ended == 0;
        sleep_ns(20 * MILLISECOND_NS);
    }
}

static bool open_with(const char *opener, const char *path) {
    pid_t pid = start(opener, path);
    return pid > 0 && succeeds(pid);
}

bool browser_open(const char *path) {
    char *full = realpath(path, NULL);
    const char *shown = full ? full : path;
    bool screen = has_screen();
    bool opened = screen && (open_with("xdg-open", shown) || open_with("wslview", shown));
    if (opened)
        complain("opened %s", shown);
    else
        complain("%s: open %s in one", screen ? "no browser was found" : "no screen for a browser",
                 shown);
    free(full);
    return opened;
}
