/* rounds.c: see rounds.h. It must do nothing between the rounds that could favour one side. */
#include "rounds.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void give_up(const char *what) {
    fprintf(stderr, "bench: %s\n", what);
    exit(2);
}

static int by_value(const void *left, const void *right) {
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

static double quantile(const double *sorted, unsigned count, double share) {
    return sorted[(unsigned)(share * (count - 1) + 0.5)];
}

struct comparison compare(round_function round, void *context, unsigned rounds) {
    double *values = calloc(3 * (size_t)rounds, sizeof *values);
    if (!values)
        give_up("out of memory");
    double *sides[2] = {values, values + rounds};
    double *added = values + 2 * (size_t)rounds;
    round(false, context);
    round(true, context);
    for (unsigned i = 0; i < rounds; i++) {
        bool first = i & 1;
        sides[first][i] = round(first, context);
        sides[!first][i] = round(!first, context);
        added[i] = sides[1][i] - sides[0][i];
    }
    qsort(sides[0], rounds, sizeof(double), by_value);
    qsort(sides[1], rounds, sizeof(double), by_value);
    qsort(added, rounds, sizeof(double), by_value);
    struct comparison result = {
        .without_ns = quantile(sides[0], rounds, 0.25),
        .with_ns = quantile(sides[1], rounds, 0.25),
        .added_ns = quantile(added, rounds, 0.5),
        .added_low_ns = quantile(added, rounds, 0.25),
        .added_high_ns = quantile(added, rounds, 0.75),
        .rounds = rounds,
    };
    free(values);
    return result;
}

void print_comparison(const char *name, const struct comparison *result, size_t operations) {
    printf("{\"name\": \"%s\", \"unit\": \"ns\", \"without\": %.2f, \"with\": %.2f, "
           "\"added\": %.2f, \"added_low\": %.2f, \"added_high\": %.2f, "
           "\"rounds\": %u, \"operations_per_round\": %zu}\n",
           name, result->without_ns, result->with_ns, result->added_ns, result->added_low_ns,
           result->added_high_ns, result->rounds, operations);
    fflush(stdout);
}
