// See random_operations.h. Operations are drawn from a generator of our own, so that a seed means
// the same everywhere; with several threads each has its own generator, but how they interleave is
// up to the scheduler.
#include "random_operations.h"

#include "allocator.h"
#include "view.h"

#include "../seed.h"

#include <atomic>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace {

// splitmix64: small, and good enough to choose operations.
class Generator {
  public:
    explicit Generator(uint64_t seed) : state_(seed) {}

    uint64_t below(uint64_t bound) {
        return next() % bound;
    }

  private:
    uint64_t next() {
        uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        return z ^ (z >> 31);
    }

    uint64_t state_;
};

struct Held {
    allocator::Owner tensor;
    int byte;
    int stream; // the stream that wrote the bytes, and reads them back
};

// The tensors of all threads, so that one thread frees what another allocated.
class Table {
  public:
    void put(Held held) {
        const std::lock_guard<std::mutex> lock(mutex_);
        all_.push_back(std::move(held));
    }

    size_t size() {
        const std::lock_guard<std::mutex> lock(mutex_);
        return all_.size();
    }

    bool take(uint64_t choice, Held &out) {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (all_.empty()) {
            return false;
        }
        std::swap(all_[choice % all_.size()], all_.back());
        out = std::move(all_.back());
        all_.pop_back();
        return true;
    }

  private:
    std::mutex mutex_;
    std::vector<Held> all_;
};

struct Run {
    const RandomOptions &options;
    Table table;
    std::atomic<size_t> allocations{0}, ooms{0}, corrupted{0};
};

// Half of all sizes are small, most others a few MiB, few are near the largest: about what a
// model's forward pass asks for.
size_t random_size(Generator &generator, size_t max_bytes) {
    const uint64_t kind = generator.below(100);
    const size_t bound = kind < 50 ? (1u << 20) : kind < 90 ? (12u << 20) : max_bytes;
    return 1 + generator.below(bound < max_bytes ? bound : max_bytes);
}

void allocate(Run &run, Generator &generator) {
    const int stream = static_cast<int>(generator.below(run.options.streams));
    allocator::set_stream(stream);
    Held held{allocator::allocate(random_size(generator, run.options.max_bytes)), 0, stream};
    run.allocations++;
    if (!held.tensor) {
        run.ooms++;
        return;
    }
    if (run.options.fill) {
        held.byte = static_cast<int>(generator.below(256));
        allocator::fill(*held.tensor, held.byte);
    }
    run.table.put(std::move(held));
}

// `recorded` in a hundred are used by another stream too, so that the block stays pending after the
// free.
void release(Run &run, Generator &generator, unsigned recorded) {
    Held held{nullptr, 0, 0};
    if (!run.table.take(generator.below(UINT64_MAX), held)) {
        return;
    }
    if (run.options.fill) {
        allocator::set_stream(held.stream);
        run.corrupted += !allocator::verify(*held.tensor, held.byte);
    }
    if (run.options.streams > 1 && generator.below(100) < recorded) {
        allocator::record_stream(*held.tensor,
                                 static_cast<int>(generator.below(run.options.streams)));
    }
}

void in_a_pool(Run &run, Generator &generator) {
    allocator::pool_begin();
    for (int i = 0; i < 5; i++) {
        allocate(run, generator);
        release(run, generator, 0);
    }
    allocator::pool_end();
}

void operation(Run &run, Generator &generator) {
    if (generator.below(400) == 0) {
        allocator::empty_cache();
        return;
    }
    if (run.options.pools && generator.below(200) == 0) {
        in_a_pool(run, generator);
        return;
    }
    // Around the wanted number of live tensors both are as likely; far from it one is three times
    // the other.
    const size_t chance = run.table.size() < run.options.live ? 65 : 35;
    generator.below(100) < chance ? allocate(run, generator) : release(run, generator, 15);
}

void operations(Run &run, Generator &generator, size_t count, int device) {
    allocator::set_device(device);
    for (size_t i = 0; i < count; i++) {
        operation(run, generator);
    }
    allocator::set_stream(0);
}

void on_threads(Run &run, std::vector<Generator> &generators, size_t count, int device) {
    std::vector<std::thread> threads;
    for (auto &generator : generators) {
        threads.emplace_back(
            [&run, &generator, count, device] { operations(run, generator, count, device); });
    }
    for (auto &thread : threads) {
        thread.join();
    }
}

// PyTorch completes pending frees at its next allocation, so some are made just before looking.
void check(Run &run, Generator &generator, int device, RandomResult &result) {
    result.checks++;
    if (run.options.overread) {
        allocator::overread(device);
    }
    if (!run.options.compare) {
        return;
    }
    for (int i = 0; i < 5; i++) {
        release(run, generator, 100);
    }
    const auto comparison = view::compare(device);
    result.blocks += comparison.blocks;
    result.pending += comparison.pending;
    result.differences += comparison.differences;
}

} // namespace

RandomResult random_operations(const RandomOptions &options) {
    Run run{options, {}, {}, {}, {}};
    RandomResult result = {};
    const int device = allocator::current_device();
    std::vector<Generator> generators;
    for (size_t i = 0; i < options.threads; i++) {
        generators.emplace_back(seed_from(options.seed) * 1000 + i);
    }
    for (size_t done = 0; done < options.operations; done += options.every) {
        const size_t left = options.operations - done;
        const size_t count = (options.every < left ? options.every : left) / options.threads;
        if (options.threads == 1) {
            operations(run, generators[0], count, device);
        } else {
            on_threads(run, generators, count, device);
        }
        result.operations += count * options.threads;
        check(run, generators[0], device, result);
    }
    result.allocations = run.allocations;
    result.ooms = run.ooms;
    result.corrupted = run.corrupted;
    return result;
}
