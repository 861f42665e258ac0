"""Prompts of a data set encoded one after the other with the text encoder of Wan 2.1, as a script
for a video model does. Results go to the host; after each prompt Python's collection and
empty_cache, as the article does. Nothing stays on the device but the encoder."""

import models
import torch

PROMPTS = 24
LENGTH = 512  # tokens; shorter prompts are padded
VOCABULARY = 256000


def encode(encoder):
    ids = models.tokens(LENGTH, vocabulary=VOCABULARY, end=1)
    return encoder(ids, attention_mask=torch.ones_like(ids)).last_hidden_state


def loop(session, encode_prompt, prompts):
    """encode_prompt(encoder) gives what the script keeps."""
    encoder = models.umt5_xxl(torch.bfloat16).to("cuda")
    session.job("loaded")
    kept = []
    for number in range(prompts):
        kept.append(encode_prompt(encoder))
        session.gather()
        session.job(f"prompt {number}")
    return kept


@torch.no_grad()
def to_host(encoder):
    return encode(encoder).cpu().float().numpy()


def run(session):
    loop(session, to_host, PROMPTS)
