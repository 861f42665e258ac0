// c10drive: reads a small script and drives PyTorch's real caching allocator with it, without
// Python. README.md has the commands. Output is one line per command that has something to say; a
// failed expectation makes the exit status 1, a script that cannot be run 2. Nothing here knows how
// libvramgc.so works; it is asked through its public header, in view.cpp.
#include "allocator.h"
#include "random_operations.h"
#include "view.h"

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <unistd.h>
#include <vector>

namespace {

using Words = std::vector<std::string>;
using Figures = std::map<std::string, uint64_t>;

struct Driver {
    std::map<std::string, allocator::Owner> tensors;
    int stream = 0; // where commands work that name no stream
    size_t line = 0;
    std::string statement;
    bool failed = false;
};
Driver driver;

// A script that cannot be run, as opposed to an expectation that is not met.
struct BadScript : std::runtime_error {
    using std::runtime_error::runtime_error;
};

uint64_t number(const std::string &text) {
    size_t end = 0;
    double value = 0;
    try {
        value = std::stod(text, &end);
    } catch (const std::exception &) {
        throw BadScript("'" + text + "' is not a number");
    }
    const std::string unit = text.substr(end);
    static const std::map<std::string, double> units = {
        {"", 1}, {"B", 1}, {"KiB", 1024}, {"MiB", 1048576}, {"GiB", 1073741824}};
    const auto factor = units.find(unit);
    if (factor == units.end() || value < 0) {
        throw BadScript("'" + text + "' is not a number of bytes, KiB, MiB or GiB");
    }
    return static_cast<uint64_t>(value * factor->second);
}

int small(const std::string &text) {
    const uint64_t value = number(text);
    if (value > 1000000) {
        throw BadScript("'" + text + "' is too large here");
    }
    return static_cast<int>(value);
}

allocator::Tensor &tensor(const std::string &name) {
    const auto found = driver.tensors.find(name);
    if (found == driver.tensors.end()) {
        throw BadScript("no tensor '" + name + "'");
    }
    return *found->second;
}

Figures all_figures(const std::string &asked = "") {
    const int device = allocator::current_device();
    auto figures = allocator::statistics(device);
    if (asked.rfind("card.", 0) == 0)
        std::tie(figures["card.free"], figures["card.total"]) = allocator::memory_info();
    for (const auto &figure : view::figures(device)) {
        figures.insert(figure);
    }
    return figures;
}

void print_figures(const Figures &figures) {
    const char *separator = "{";
    for (const auto &figure : figures) {
        std::printf("%s\"%s\": %" PRIu64, separator, figure.first.c_str(), figure.second);
        separator = ", ";
    }
    std::puts(figures.empty() ? "{}" : "}");
}

void fail(const std::string &what) {
    std::printf("FAILED line %zu: %s: %s\n", driver.line, driver.statement.c_str(), what.c_str());
    driver.failed = true;
}

// "stream=2" style options after a command's fixed words.
std::map<std::string, std::string> options(const Words &words, size_t first, const Words &known) {
    std::map<std::string, std::string> found;
    for (size_t i = first; i < words.size(); i++) {
        const size_t equals = words[i].find('=');
        const std::string key = words[i].substr(0, equals);
        bool right = equals != std::string::npos;
        right = right && std::find(known.begin(), known.end(), key) != known.end();
        if (!right) {
            throw BadScript("'" + words[i] + "' is not understood here");
        }
        found[key] = words[i].substr(equals + 1);
    }
    return found;
}

void use_stream(const Words &words) {
    driver.stream = small(words[1]);
    allocator::set_stream(driver.stream);
}

// With count=N a loop in one command: the names are NAME.0, NAME.1, ...
void alloc(const Words &words) {
    const auto given = options(words, 3, {"stream", "count"});
    const size_t count = given.count("count") ? number(given.at("count")) : 1;
    allocator::set_stream(given.count("stream") ? small(given.at("stream")) : driver.stream);
    for (size_t i = 0; i < count; i++) {
        const std::string name =
            given.count("count") ? words[1] + "." + std::to_string(i) : words[1];
        if (driver.tensors.count(name)) {
            throw BadScript("'" + name + "' is there already");
        }
        allocator::Owner owner = allocator::allocate(number(words[2]));
        if (owner) {
            driver.tensors[name] = std::move(owner);
        } else {
            std::printf("oom %s\n", name.c_str());
        }
    }
    allocator::set_stream(driver.stream);
}

void take(const Words &words) {
    if (driver.tensors.count(words[1])) {
        throw BadScript("'" + words[1] + "' is there already");
    }
    const size_t bytes = number(words[2]);
    allocator::Owner owner = words[0] == "pin" ? allocator::pin(bytes) : allocator::take(bytes);
    if (owner) {
        driver.tensors[words[1]] = std::move(owner);
    } else {
        std::printf("oom %s\n", words[1].c_str());
    }
}

void capture_begin(const Words &words) {
    if (words.size() > 1 && words[1] != "relaxed") {
        throw BadScript("'" + words[1] + "' is not relaxed");
    }
    allocator::capture_begin(words.size() > 1);
}

void caching(const Words &words) {
    if (words[1] != "on" && words[1] != "off") {
        throw BadScript("'" + words[1] + "' is not on or off");
    }
    allocator::set_caching(words[1] == "on");
}

// Each NAME, or each NAME.0, NAME.1, ... that is there; one that ran out of memory is not.
void release(const Words &words) {
    for (size_t i = 1; i < words.size(); i++) {
        const std::string prefix = words[i] + ".";
        size_t found = driver.tensors.erase(words[i]);
        auto next = driver.tensors.lower_bound(prefix);
        while (next != driver.tensors.end() && next->first.compare(0, prefix.size(), prefix) == 0) {
            next = driver.tensors.erase(next);
            found++;
        }
        if (found == 0) {
            throw BadScript("no tensor '" + words[i] + "'");
        }
    }
}

void record(const Words &words) {
    allocator::record_stream(tensor(words[1]), small(words[2]));
}

void fill(const Words &words) {
    const auto given = options(words, 3, {"stream"});
    allocator::set_stream(given.count("stream") ? small(given.at("stream")) : driver.stream);
    allocator::fill(tensor(words[1]), small(words[2]));
    allocator::set_stream(driver.stream);
}

void verify(const Words &words) {
    allocator::synchronize();
    if (!allocator::verify(tensor(words[1]), small(words[2]))) {
        fail("'" + words[1] + "' does not hold " + words[2]);
    }
}

void where(const Words &words) {
    const auto &found = tensor(words[1]);
    std::printf("%s 0x%" PRIx64 " %zu\n", words[1].c_str(),
                reinterpret_cast<uint64_t>(allocator::address(found)), allocator::size(found));
}

void snapshot(const Words &) {
    const char *separator = "";
    std::printf("{\"blocks\": [");
    for (const auto &block : allocator::snapshot(allocator::current_device())) {
        std::printf("%s{\"address\": %" PRIu64 ", \"size\": %" PRIu64
                    ", \"state\": %u, \"stream\": %" PRIu64 ", \"segment_address\": %" PRIu64
                    ", \"segment_size\": %" PRIu64
                    ", \"is_expandable\": %s, \"is_large\": %s, \"pool\": %" PRIu64 "}",
                    separator, block.address, block.bytes, block.state, block.stream,
                    block.segment_address, block.segment_bytes, block.expandable ? "true" : "false",
                    block.large ? "true" : "false", block.pool);
        separator = ", ";
    }
    std::puts("]}");
}

void compare(const Words &) {
    const auto result = view::compare(allocator::current_device());
    std::printf("compare blocks=%zu pending=%zu differences=%zu\n", result.blocks, result.pending,
                result.differences);
    if (result.differences != 0) {
        fail("libvramgc's blocks differ from PyTorch's");
    }
}

void random(const Words &words) {
    const auto given = options(words, 1,
                               {"seed", "ops", "threads", "streams", "max", "live", "every",
                                "compare", "pools", "fill", "overread"});
    const auto value = [&given](const char *key, uint64_t standard) {
        return given.count(key) ? number(given.at(key)) : standard;
    };
    RandomOptions chosen;
    chosen.seed = value("seed", chosen.seed);
    chosen.operations = value("ops", chosen.operations);
    chosen.threads = value("threads", chosen.threads);
    chosen.streams = value("streams", chosen.streams);
    chosen.max_bytes = value("max", chosen.max_bytes);
    chosen.live = value("live", chosen.live);
    chosen.every = value("every", chosen.every);
    chosen.compare = value("compare", 0) != 0;
    chosen.pools = value("pools", 0) != 0;
    chosen.fill = value("fill", 0) != 0;
    chosen.overread = value("overread", 0) != 0;
    if (chosen.threads == 0 || chosen.streams == 0 || chosen.max_bytes == 0 ||
        chosen.every < chosen.threads) {
        throw BadScript("random: threads, streams and max are at least 1, every at least threads");
    }
    const auto r = random_operations(chosen);
    allocator::set_stream(driver.stream);
    std::printf("random operations=%zu allocations=%zu ooms=%zu checks=%zu blocks=%zu pending=%zu "
                "differences=%zu "
                "corrupted=%zu\n",
                r.operations, r.allocations, r.ooms, r.checks, r.blocks, r.pending, r.differences,
                r.corrupted);
    if (r.differences != 0 || r.corrupted != 0) {
        fail("random operations found differences");
    }
}

uint64_t operand(const Figures &figures, const std::string &text) {
    const auto found = figures.find(text);
    return found == figures.end() ? number(text) : found->second;
}

bool holds(uint64_t left, const std::string &relation, uint64_t right) {
    if (relation == "==") {
        return left == right;
    }
    if (relation == "!=") {
        return left != right;
    }
    if (relation == "<=") {
        return left <= right;
    }
    if (relation == ">=") {
        return left >= right;
    }
    if (relation == "<") {
        return left < right;
    }
    if (relation == ">") {
        return left > right;
    }
    throw BadScript("'" + relation + "' is not one of == != <= >= < >");
}

void expect(const Words &words) {
    const Figures figures = all_figures(words[1]);
    if (!figures.count(words[1])) {
        throw BadScript("no figure '" + words[1] + "'" +
                        (view::loaded() ? "" : " (libvramgc.so is not loaded)"));
    }
    const uint64_t left = figures.at(words[1]);
    const uint64_t right = operand(figures, words[3]);
    if (!holds(left, words[2], right)) {
        std::ostringstream text;
        text << left << " " << words[2] << " " << right << " does not hold";
        fail(text.str());
    }
}

void expect_oom(const Words &words) {
    allocator::Owner owner = allocator::allocate(number(words[1]));
    if (owner) {
        fail(words[1] + " did not run out of memory");
    }
}

// Waits for what is to come, on however busy a machine: only what hangs meets the limit. For
// mutants, of which many hang, it is nearer. Once it was met nothing is waited for.
bool comes(const std::function<bool()> &condition) {
    using std::chrono::steady_clock;
    static bool met = false;
    const char *text = std::getenv("C10DRIVE_PATIENCE_MS");
    const auto limit = std::chrono::milliseconds(met ? 0 : text ? small(text) : 60000);
    const auto end = steady_clock::now() + limit;
    while (!condition()) {
        if (steady_clock::now() > end) {
            met = true;
            return false;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return true;
}

void await(const Words &words) {
    const bool came = comes([&words] {
        const Figures now = all_figures(words[1]);
        return holds(operand(now, words[1]), words[2], operand(now, words[3]));
    });
    if (!came) {
        expect(words);
    }
}

// Asks a program, whose exit status 0 means yes.
void until(const Words &words) {
    if (!comes([&words] { return std::system(words[1].c_str()) == 0; })) {
        fail(words[1] + " does not say yes");
    }
}

void echo(const Words &words) {
    for (size_t i = 1; i < words.size(); i++) {
        std::printf("%s%s", i > 1 ? " " : "", words[i].c_str());
    }
    std::puts("");
}

void leave(const Words &words) {
    std::exit(driver.failed ? 1 : small(words[1]));
}

void leave_at_once(const Words &words) {
    std::fflush(stdout);
    _exit(driver.failed ? 1 : small(words[1]));
}

void raise_signal(const Words &words) {
    std::fflush(stdout);
    raise(small(words[1]));
}

struct Command {
    size_t least, most; // words after the command's name
    void (*run)(const Words &);
};

// clang-format off
const std::map<std::string, Command> commands = {
    {"stream", {1, 1, use_stream}},
    {"alloc", {2, 4, alloc}},
    {"cuda_malloc", {2, 2, take}},
    {"pin", {2, 2, take}},
    {"caching", {1, 1, caching}},
    {"free", {1, 1000, release}},
    {"free_all", {0, 0, [](const Words &) { driver.tensors.clear(); }}},
    {"record", {2, 2, record}},
    {"fill", {2, 3, fill}},
    {"hold", {1, 1, [](const Words &words) { allocator::hold(small(words[1]), true); }}},
    {"let_go", {1, 1, [](const Words &words) { allocator::hold(small(words[1]), false); }}},
    {"short_stream", {1, 1, [](const Words &words) { allocator::short_stream(tensor(words[1])); }}},
    {"memory_info", {0, 0, [](const Words &) { allocator::memory_info(); }}},
    {"verify", {2, 2, verify}},
    {"overread", {0, 0, [](const Words &) { allocator::overread(allocator::current_device()); }}},
    {"where", {1, 1, where}},
    {"synchronize", {0, 0, [](const Words &) { allocator::synchronize(); }}},
    {"empty_cache", {0, 0, [](const Words &) { allocator::empty_cache(); }}},
    {"device", {1, 1, [](const Words &words) {
        allocator::set_device(small(words[1]));
        allocator::set_stream(driver.stream); }}},
    {"conf", {1, 1, [](const Words &words) { allocator::configure(words[1]); }}},
    {"fraction", {1, 1, [](const Words &words) { allocator::set_fraction(std::stod(words[1])); }}},
    {"pool_begin", {0, 0, [](const Words &) { allocator::pool_begin(); }}},
    {"pool_end", {0, 0, [](const Words &) { allocator::pool_end(); }}},
    {"capture_begin", {0, 1, capture_begin}},
    {"capture_end", {0, 0, [](const Words &) { allocator::capture_end(); }}},
    {"graph_release", {0, 0, [](const Words &) { allocator::graph_release(); }}},
    {"stats", {0, 0, [](const Words &) { print_figures(all_figures()); }}},
    {"snapshot", {0, 0, snapshot}},
    {"compare", {0, 0, compare}},
    {"random", {0, 11, random}},
    {"expect", {3, 3, expect}},
    {"expect_oom", {1, 1, expect_oom}},
    {"await", {3, 3, await}},
    {"until", {1, 1, until}},
    {"mark", {1, 1, [](const Words &words) { view::mark(words[1]); }}},
    {"reclaim", {0, 0, [](const Words &) { view::reclaim(allocator::current_device()); }}},
    {"write_report", {1, 1, [](const Words &words) { view::write_report(words[1]); }}},
    {"sleep", {1, 1, [](const Words &words) {
        std::this_thread::sleep_for(std::chrono::milliseconds(number(words[1]))); }}},
    {"echo", {0, 1000, echo}},
    {"exit", {1, 1, leave}},
    {"_exit", {1, 1, leave_at_once}},
    {"raise", {1, 1, raise_signal}},
};
// clang-format on

void execute(const Words &words) {
    const auto found = commands.find(words[0]);
    if (found == commands.end()) {
        throw BadScript("unknown command '" + words[0] + "'");
    }
    const size_t given = words.size() - 1;
    if (given < found->second.least || given > found->second.most) {
        throw BadScript("'" + words[0] + "' does not take " + std::to_string(given) + " words");
    }
    found->second.run(words);
}

// Commands are separated by new lines or semicolons; # begins a comment.
void run_line(const std::string &line) {
    std::istringstream statements(line.substr(0, line.find('#')));
    for (std::string statement; std::getline(statements, statement, ';');) {
        std::istringstream text(statement);
        Words words;
        for (std::string word; text >> word;) {
            words.push_back(word);
        }
        if (!words.empty()) {
            driver.statement = statement.substr(statement.find_first_not_of(" \t"));
            execute(words);
        }
    }
}

void run_script(std::istream &script) {
    allocator::init();
    for (std::string line; std::getline(script, line);) {
        driver.line++;
        run_line(line);
        std::fflush(stdout);
    }
    driver.tensors.clear();
}

} // namespace

int main(int argc, char **argv) {
    try {
        if (argc == 1) {
            run_script(std::cin);
        } else if (argc == 3 && std::string(argv[1]) == "-c") {
            std::istringstream script(argv[2]);
            run_script(script);
        } else if (argc == 2 && argv[1][0] != '-') {
            std::ifstream script(argv[1]);
            if (!script) {
                throw BadScript(std::string("cannot read ") + argv[1]);
            }
            run_script(script);
        } else {
            std::fprintf(stderr, "usage: c10drive [FILE | -c 'COMMAND; COMMAND']   (else the "
                                 "script is read from stdin)\n");
            return 2;
        }
    } catch (const std::exception &error) {
        std::fflush(stdout);
        const std::string text = error.what();
        std::fprintf(stderr, "c10drive: line %zu: %s: %s\n", driver.line, driver.statement.c_str(),
                     text.substr(0, text.find('\n')).c_str());
        return 2;
    }
    return driver.failed ? 1 : 0;
}
