"""make_map.py FILE DEVICE BLOCKS: puts beside a statistics file a map of PyTorch's blocks at an out-of-memory
(include/vramgc_format.h), as the library would: segments of 20 MiB with blocks of three states, and one larger hole."""
import struct
import sys

MIB = 1 << 20
path, device, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with open(path, "rb") as file:
    head = file.read(72)
pid, started = struct.unpack_from("=Q", head, 24)[0], struct.unpack_from("=Q", head, 56)[0]
blocks = []
for i in range(count):
    segment = 0x7F0000000000 + i // 10 * 64 * MIB
    state = (1, 1, 2, 0, 1)[i % 5]
    blocks.append(struct.pack("=QQQQQII", segment + i % 10 * 2 * MIB, 2 * MIB, segment, 20 * MIB, 0, state, 0))
hole = 0x7F0000000000 + (count // 10 + 1) * 64 * MIB
blocks.append(struct.pack("=QQQQQII", hole, 96 * MIB, hole, 96 * MIB, 0, 0, 1))
with open(f"{path}.oom{device}", "wb") as out:
    out.write(b"VRAMGCM\n" + struct.pack("=IIQQQQQQ", 48, device, pid, started, 4149 * 10**9 + 5 * 10**6, 1536 * MIB,
                                         700 * MIB, len(blocks)))
    out.write(b"".join(blocks))
