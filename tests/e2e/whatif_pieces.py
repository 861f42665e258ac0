"""Leaves a card in pieces: ten segments of 100 MiB, each with one small tensor in it; then asks for 600 MiB."""
import torch

MIB = 1 << 20


def main():
    survivors = []
    for _ in range(10):
        large = torch.empty(100 * MIB, dtype=torch.uint8, device="cuda")
        del large
        survivors.append(torch.empty(2 * MIB, dtype=torch.uint8, device="cuda"))
        survivors.append(torch.empty(98 * MIB, dtype=torch.uint8, device="cuda"))
    del survivors[1::2]
    torch.empty(600 * MIB, dtype=torch.uint8, device="cuda")


main()
