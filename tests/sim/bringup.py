"""The real PyTorch on the simulated device: every kind of call that a diffusion model makes works, and memory adds up.

Run under scripts/simgpu with the allocator setting to be tried in PYTORCH_ALLOC_CONF; tests/sim/simgpu.bats does."""
import gc
import os
import unittest

import torch
import torch.nn.functional as functional

MIB = 1 << 20
CONF = os.environ.get("PYTORCH_ALLOC_CONF", "")
ASYNC = "cudaMallocAsync" in CONF
CONV_WORKSPACE = float(os.environ.get("SIMGPU_CONV_WS", "1"))


def empty(*shape, dtype=torch.half):
    return torch.empty(*shape, dtype=dtype, device="cuda")


def tensor_bytes(*tensors):
    return sum(t.numel() * t.element_size() for t in tensors)


class BringUp(unittest.TestCase):
    def setUp(self):
        gc.collect()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()

    def test_device_is_the_one_asked_for(self):
        self.assertEqual(torch.cuda.get_device_capability(), (8, 9))
        self.assertEqual(torch.cuda.get_device_properties(0).total_memory, 6144 * MIB)
        self.assertEqual(torch.cuda.device_count(), 1)

    @unittest.skipIf(ASYNC, "this backend has no segments")
    def test_reserved_memory_is_what_the_driver_gave(self):
        before = torch.cuda.mem_get_info()[0]
        block = empty(4 * MIB, dtype=torch.uint8)
        reserved = torch.cuda.memory_reserved()
        self.assertGreaterEqual(reserved, tensor_bytes(block))
        self.assertEqual(before - torch.cuda.mem_get_info()[0], reserved)
        snapshot = torch.cuda.memory_snapshot()
        self.assertEqual(sum(segment["total_size"] for segment in snapshot), reserved)
        del block
        torch.cuda.empty_cache()
        self.assertEqual(torch.cuda.memory_reserved(), 0)
        self.assertEqual(torch.cuda.mem_get_info()[0], before)

    def test_small_copies_keep_their_values(self):
        values = torch.randn(1000)
        self.assertTrue(torch.equal(values.cuda().cpu(), values))
        pinned = values.pin_memory()
        moved = pinned.to("cuda", non_blocking=True)
        torch.cuda.synchronize()
        self.assertTrue(torch.equal(moved.cpu(), values))

    def test_layers_of_a_diffusion_model(self):
        with torch.no_grad():
            image = empty(2, 320, 64, 64)
            conv = torch.nn.Conv2d(320, 640, 3, padding=1, stride=2).half().cuda()
            self.assertEqual(conv(image).shape, (2, 640, 32, 32))
            linear = torch.nn.Linear(320, 1280).half().cuda()
            self.assertEqual(linear(empty(2, 4096, 320)).shape, (2, 4096, 1280))
            query = empty(2, 8, 1024, 64)
            self.assertEqual(functional.scaled_dot_product_attention(query, query, query).shape, query.shape)
            self.assertEqual(torch.nn.GroupNorm(32, 320).half().cuda()(image).shape, image.shape)
            self.assertEqual(torch.nn.LayerNorm(320).half().cuda()(empty(2, 77, 320)).shape, (2, 77, 320))
            self.assertEqual(torch.bmm(empty(8, 64, 32), empty(8, 32, 16)).shape, (8, 64, 16))
            self.assertEqual(functional.interpolate(image, scale_factor=2).shape, (2, 320, 128, 128))
            embedding = torch.nn.Embedding(100, 32).cuda()
            self.assertEqual(embedding(torch.arange(10, device="cuda")).shape, (10, 32))
            norm = torch.nn.BatchNorm2d(320).half().cuda()
            self.assertEqual(norm(image).shape, image.shape)
            self.assertEqual(norm.eval()(image).shape, image.shape)
            self.assertEqual(functional.max_pool2d(image, 2).shape, (2, 320, 32, 32))
            functional.silu(torch.cat([image, image], 1)).chunk(2, 1)[0].contiguous()
        torch.cuda.synchronize()

    def test_a_convolution_takes_the_workspace_of_its_model(self):
        image = empty(4, 320, 64, 64)
        conv = torch.nn.Conv2d(320, 320, 3, padding=1, bias=False).half().cuda()
        with torch.no_grad():
            conv(image)
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            result = conv(image)
        workspace = torch.cuda.max_memory_allocated() - before - tensor_bytes(result)
        expected = tensor_bytes(image, conv.weight, result)
        self.assertAlmostEqual(workspace / expected, CONV_WORKSPACE, delta=0.05)  # a block may be 1 MiB larger

    def test_a_convolution_without_room_for_a_workspace_takes_none(self):
        image = empty(1, 64, 512, 512)
        conv = torch.nn.Conv2d(64, 64, 3, padding=1, bias=False).half().cuda()
        result = tensor_bytes(image)
        filler = empty(torch.cuda.mem_get_info()[0] - result - 24 * MIB, dtype=torch.uint8)
        with torch.no_grad():
            self.assertEqual(conv(image).shape, image.shape)
        del filler

    def test_out_of_memory_is_an_error_that_one_survives(self):
        with self.assertRaises(torch.OutOfMemoryError):
            empty(7000 * MIB, dtype=torch.uint8)
        self.assertEqual(empty(10).shape, (10,))
        torch.cuda.synchronize()

    def test_streams_and_events(self):
        stream = torch.cuda.Stream()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        with torch.cuda.stream(stream):
            start.record()
            block = empty(MIB)
            block.fill_(1)
            end.record()
        torch.cuda.current_stream().wait_stream(stream)
        block.record_stream(torch.cuda.current_stream())
        end.synchronize()
        self.assertGreaterEqual(start.elapsed_time(end), 0)

    def test_a_captured_graph_is_replayed(self):
        layer = torch.nn.Linear(64, 64).cuda()
        source = torch.zeros(4, 64, device="cuda")
        graph = torch.cuda.CUDAGraph()
        with torch.no_grad():
            layer(source)
            torch.cuda.synchronize()
            with torch.cuda.graph(graph):
                result = layer(source * 2)
        for _ in range(3):
            graph.replay()
        torch.cuda.synchronize()
        self.assertEqual(result.shape, (4, 64))
        del result
        torch.cuda.synchronize()
        del graph


if __name__ == "__main__":
    unittest.main()
