"""replay.py: has the user's own PyTorch hand out and take back the blocks of a record, on a simulated card, and finds the smallest
one that they fit on: what `vramgc whatif` asks. Public calls of PyTorch only. It must never open a real card: where the driver that
is loaded is not the simulated one it says so and does nothing.

exec'd as text: argv[1] this, argv[2] folder of the simulated driver, argv[3] libvramgc.so, argv[4] folder of PyTorch's package or "",
argv[5] bytes beside PyTorch, most that were live, and PyTorch's memory fraction or 0, then settings, each MODE and PYTORCH'S
SETTING. Steps come on standard input (enum replay_kind of src/read/block_files.h). Answers, a line each: NUMBER SMALLEST RETRIES RESERVED ASKED, or NUMBER ! WHY, or ! WHY."""
import array, contextlib, importlib.util, os, re, sys

FOLDER, LIBRARY, PACKAGES = sys.argv[2:5]
FIGURES = sys.argv[5].split()
BESIDE, LIVE, FRACTION = int(FIGURES[0]), int(FIGURES[1]), float(FIGURES[2])
SETTINGS = list(zip(sys.argv[6::2], sys.argv[7::2]))
FREE, STREAM, EMPTY, WANT, FREE_LATE, POOL, KEEP, LEFT = 0, -1, -2, -3, -4, -6, -7, -8  # enum replay_kind
MIB = 1 << 20
STEP = 2 * MIB
MARGIN = 16 * MIB
FASTER = 10  # so much than the program itself; vramgc's own waits are as much shorter
TRIES = 3  # in mode flush, whose thread comes sooner or later: it is to fit each time
TENSORS = set()  # steps


def fail(why):
    print("!", " ".join(str(why).split())[:300], flush=True)
    sys.exit(1)


def start_again():
    """The same with the simulated driver and runtime in front, which the loader then takes for the real ones."""
    spec = importlib.util.find_spec("torch")
    if not spec or not spec.submodule_search_locations:
        fail(f"{sys.executable} has no PyTorch")
    with open(os.path.join(spec.submodule_search_locations[0], "version.py"), encoding="utf-8") as file:
        cuda = re.search(r"^cuda\b[^=\n]*=\s*'(\d+)\.", file.read(), re.M)
    if not cuda:
        fail(f"the PyTorch of {sys.executable} is made without CUDA")
    runtime = {"11": "libcudart.so.11.0", "12": "libcudart.so.12", "13": "libcudart.so.13"}.get(cuda[1])
    if not runtime:
        fail(f"the PyTorch of {sys.executable} is made for CUDA {cuda[1]}, of which vramgc knows no simulated runtime")
    ours = ("VRAMGC_", "PYTORCH_", "SIMGPU_", "CUDA_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    files = [LIBRARY] + [os.path.join(FOLDER, name) for name in ("libcuda.so.1", "libnvidia-ml.so.1", runtime)]
    environment.update(LD_PRELOAD=":".join(files), SIMGPU_CONTEXT_MEM="0", SIMGPU_DATA_LIMIT="64KiB", VRAMGC_MODE="off", VRAMGC_OUT="",
                       VRAMGC_LOG="off", VRAMGC_PEERS="off", VRAMGC_HOST="off", VRAMGC_FUNCTIONS="off", VRAMGC_WHATIF="1")
    os.execve(sys.executable, [sys.executable, "-c", "import sys; exec(sys.argv[1])"] + sys.argv[1:], environment)


def only_simulated():
    """The driver that is loaded, if any, is the simulated one."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        drivers = {line.split(None, 5)[5].strip() for line in maps if re.search(r"/lib(cuda|nvidia-ml)\.so", line)}
    return {os.path.realpath(path) for path in drivers} <= {os.path.realpath(os.path.join(FOLDER, name))
                                                            for name in ("libcuda.so.1", "libnvidia-ml.so.1")}


def blocks_of_several_streams(steps):
    """Which steps hand out blocks that other streams still use when they are given back: those are tensors here, for only these can be
    told so by public calls."""
    latest, found = {}, set()
    for index, (value, of) in enumerate(steps):
        if value > 0:
            latest[of] = index
        elif value == FREE_LATE:
            found.add(latest.get(of))
    return found


def replay(torch, steps, tensors):
    """Does all of them, or raises PyTorch's error."""
    allocate, delete = torch.cuda.caching_allocator_alloc, torch.cuda.caching_allocator_delete
    other = torch.cuda.Stream() if tensors else None
    live, streams, stream = {}, {0: torch.cuda.default_stream()}, 0
    pools, graphs, inside, pool, keeper, capturing = {}, {}, contextlib.ExitStack(), 0, 0, None

    def capture():
        """Into the pool: by a graph that lives as long as that of the program."""
        graph = torch.cuda.CUDAGraph()
        graphs.setdefault(keeper, []).append(graph)
        on = streams[stream] if stream else streams.setdefault(None, torch.cuda.Stream())  # never on the default one
        inside.enter_context(torch.cuda.stream(on))
        graph.capture_begin(getattr(pools[pool], "id", pools[pool]))
        inside.callback(graph.capture_end)
        return on.cuda_stream

    for index, (value, of) in enumerate(steps):
        if value > 0 and pool and not capturing and not (pool & 1 and keeper == pool):
            capturing = capture()
        if value > 0 and index in tensors:
            with torch.cuda.stream(streams[stream]):
                live[of] = torch.empty(value, dtype=torch.uint8, device="cuda")
        elif value > 0:
            live[of] = allocate(value, 0, capturing or streams[stream].cuda_stream)
        elif value == FREE_LATE and of in live:
            live.pop(of).record_stream(other)
        elif value == FREE:
            if of in live:
                delete(live.pop(of))
        elif value == STREAM:
            if of not in streams:
                streams[of] = torch.cuda.Stream()
            stream = of
        elif value == EMPTY:
            torch.cuda.empty_cache()
        elif value == WANT:
            delete(allocate(of, 0, streams[stream].cuda_stream))
        elif value == POOL:
            inside.close()
            pool, keeper, capturing = of, of, None
            if pool not in pools and pool:
                pools[pool] = torch.cuda.MemPool() if pool & 1 else torch.cuda.graph_pool_handle()
            if pool & 1:
                inside.enter_context(torch.cuda.use_mem_pool(pools[pool]))
        elif value == KEEP:
            inside.close()
            keeper, capturing = of, None
        elif value == LEFT:
            pools.pop(of if of & 1 else None, None)
            for graph in graphs.pop(of, ()):
                graph.reset()


def attempt_here(torch, steps, setting, size):
    mode, configuration = setting
    low = mode.endswith("+lowvram")
    sys.setswitchinterval(5e-3 / FASTER)  # until vramgc's thread has its turn
    os.environ.update(SIMGPU_MEM=str(size), SIMGPU_CONTEXT_MEM=str(BESIDE), VRAMGC_MODE=mode.partition("+")[0],
                      VRAMGC_LOWVRAM="1" if low else "0", VRAMGC_COOLDOWN=f"{1000 // FASTER}ms")
    if configuration:
        os.environ["PYTORCH_CUDA_ALLOC_CONF"] = os.environ["PYTORCH_ALLOC_CONF"] = configuration
    torch.cuda.init()
    if configuration and mode == "off":
        torch.cuda.memory._set_allocator_settings(configuration)
    if FRACTION:
        torch.cuda.set_per_process_memory_fraction(FRACTION)
    if not only_simulated():
        return "! a driver was loaded that is not the simulated one: nothing is done"
    torch.cuda.caching_allocator_delete(torch.cuda.caching_allocator_alloc(512, 0, 0))
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    try:
        replay(torch, steps, TENSORS)
    except torch.cuda.OutOfMemoryError:
        return "no"
    figures = torch.cuda.memory_stats()
    return f"{figures['num_alloc_retries']} {figures['reserved_bytes.all.peak']}"


def attempt(torch, steps, setting, size):
    """In a process of its own, for PyTorch begins with a card once: what it says, None if it did not fit."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            answer = attempt_here(torch, steps, setting, size)
        except BaseException as error:  # whatever it is, it is told
            answer = "! " + " ".join(str(error).split())[:300]
        os.write(write, answer.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        answer = pipe.read().decode()
    status = os.waitpid(child, 0)[1]
    if not answer:
        answer = f"! PyTorch ended with {status} on a simulated card of {size >> 20} MiB"
    if answer.startswith("!"):
        raise ValueError(answer[2:])
    return None if answer == "no" else answer


def smallest(torch, steps, setting):
    """Smallest card, and what PyTorch did there. Where memory is in pieces a larger card may fail again: so it is one on which the blocks
    fit, as they do MARGIN above it, and do not MARGIN below."""
    known, tries = {}, TRIES if setting[0].startswith("flush") else 1

    def fits(size):
        if size not in known:
            for _ in range(tries):
                known[size] = attempt(torch, steps, setting, size)
                if known[size] is None:
                    break
        return known[size] is not None

    def border(low, high):
        while high - low > STEP:
            middle = low + (high - low) // 2 // STEP * STEP
            low, high = (low, middle) if fits(middle) else (middle, high)
        return high

    def roomy(size):
        while not fits(size):
            size += max(MARGIN, size // 4 // STEP * STEP)
            if size > 1 << 42:
                raise ValueError("it fits on no card")
        return size

    beside = -(-BESIDE // STEP) * STEP
    bottom = beside + LIVE // STEP * STEP - STEP  # less than what was live
    high = roomy(beside + -(-4 * LIVE // STEP) * STEP + 256 * MIB)
    guess = beside + -(-int(known[high].split()[1]) // STEP) * STEP + STEP  # what it reserved there
    low, high = (bottom, guess) if bottom < guess < high and fits(guess) else (max(bottom, min(guess, high - STEP)), high)
    size = border(low, high)
    while not fits(size) or not fits(size + MARGIN):
        size += MARGIN
    while size - MARGIN > bottom and fits(size - MARGIN):
        size -= MARGIN
    return f"{size} {known[size]} {len(known)}"


def main():
    if PACKAGES:
        sys.path.insert(0, PACKAGES)
    if "VRAMGC_WHATIF" not in os.environ:
        start_again()
    numbers = array.array("q")
    numbers.frombytes(sys.stdin.buffer.read())
    steps = list(zip(numbers[0::2], numbers[1::2]))
    TENSORS.update(blocks_of_several_streams(steps))
    errors = os.dup(2)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # PyTorch's warnings of each card that is too small
    try:
        import torch
    except Exception as error:
        fail(f"PyTorch cannot be imported: {error}")
    if not only_simulated():
        fail("a driver was loaded that is not the simulated one: nothing is done")
    at_once = max(1, min(len(SETTINGS), len(os.sched_getaffinity(0))))
    children = []
    for first in range(at_once):
        child = os.fork()
        if child == 0:
            for number in range(first, len(SETTINGS), at_once):
                try:
                    answer = smallest(torch, steps, SETTINGS[number])
                except ValueError as error:
                    answer = f"! {error}"
                os.write(1, f"{number} {answer}\n".encode())
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)


main()
