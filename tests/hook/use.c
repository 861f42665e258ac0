/* use.c: the smallest program that uses the GPU: takes 3 MiB, keeps them, and says so. Linked
 * with the runtime. Words: errors:PATH, the first of all, makes a file of its own standard error,
 * lock:PATH, the first of all, locks a file as SQLite does, and locked ends unless another process
 * finds it locked; sleep:MS pauses, fds closes all descriptors but the standard ones, streams
 * writes to those, be they open or not, own:PATH opens twenty files of its own, PATH.0 to PATH.19,
 * and writes to them, threads counts the threads, kill is SIGKILL, end:N exits, leave:MS ends the
 * main thread; another one takes 1 MiB after that time, and ends. */
#include "cuda/cuda_api.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int threads(void) {
    DIR *folder = opendir("/proc/self/task");
    int number = 0;
    for (struct dirent *entry; folder && (entry = readdir(folder)) != NULL;)
        number += entry->d_name[0] != '.';
    if (folder)
        closedir(folder);
    return number;
}

/* They stay open. */
static void own_files(const char *path) {
    char name[256];
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "%s.%d", path, i);
        int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
        if (fd < 0 || write(fd, "precious\n", 9) != 9)
            exit(3);
    }
}

static void write_streams(void) {
    static const char text[] = "into the standard streams\n";
    for (int fd = 0; fd < 3; fd++)
        if (write(fd, text, sizeof text - 1) < 0)
            continue;
}

static void *go_on(void *milliseconds) {
    void *p = NULL;
    usleep((useconds_t)(uintptr_t)milliseconds * 1000);
    if (cudaMalloc(&p, 1 << 20) != cudaSuccess)
        exit(5);
    return NULL;
}

static void leave(unsigned milliseconds) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, go_on, (void *)(uintptr_t)milliseconds) != 0)
        exit(6);
    pthread_exit(NULL);
}

/* Not in the place of a standard stream. */
static void lock(const char *path) {
    struct flock whole = {.l_type = F_WRLCK};
    int low = open(path, O_RDWR | O_CREAT, 0600), fd = fcntl(low, F_DUPFD, 100);
    close(low);
    if (fcntl(fd, F_SETLK, &whole) != 0)
        exit(3);
}

static void is_locked(void) {
    struct flock whole = {.l_type = F_WRLCK};
    int status = 1;
    pid_t child = fork();
    if (child == 0)
        _exit(fcntl(100, F_GETLK, &whole) != 0 || whole.l_type == F_UNLCK);
    if (waitpid(child, &status, 0) != child || status != 0)
        exit(7);
}

static void word(const char *text) {
    if (strncmp(text, "sleep:", 6) == 0)
        usleep((useconds_t)atoi(text + 6) * 1000);
    else if (strcmp(text, "fds") == 0)
        for (int fd = 3; fd < 256; fd++)
            close(fd);
    else if (strcmp(text, "streams") == 0)
        write_streams();
    else if (strncmp(text, "own:", 4) == 0)
        own_files(text + 4);
    else if (strcmp(text, "locked") == 0)
        is_locked();
    else if (strcmp(text, "threads") == 0)
        printf("threads=%d\n", threads());
    else if (strcmp(text, "kill") == 0)
        kill(getpid(), 9);
    else if (strncmp(text, "end:", 4) == 0)
        exit(atoi(text + 4));
    else if (strncmp(text, "leave:", 6) == 0)
        leave((unsigned)atoi(text + 6));
    else
        exit(4);
}

/* As a daemon does that closes what it was given. */
static void data_as_errors(const char *path) {
    close(STDERR_FILENO);
    if (open(path, O_RDWR | O_CREAT | O_TRUNC, 0600) != STDERR_FILENO ||
        write(STDERR_FILENO, "precious\n", 9) != 9)
        exit(3);
}

int main(int count, char **arguments) {
    void *p = NULL;
    if (count > 1 && strncmp(arguments[1], "errors:", 7) == 0) {
        data_as_errors(arguments[1] + 7);
        arguments++;
        count--;
    } else if (count > 1 && strncmp(arguments[1], "lock:", 5) == 0) {
        lock(arguments[1] + 5);
        arguments++;
        count--;
    }
    if (cudaMalloc(&p, 3 << 20) != cudaSuccess)
        return 2;
    printf("took 3 MiB\n");
    fflush(stdout);
    for (int i = 1; i < count; i++) {
        word(arguments[i]);
        fflush(stdout);
    }
    return 0;
}
