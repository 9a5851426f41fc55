"""One thread a test process: the models here are tiny, and threads only get in each other's way."""

import torch

torch.set_num_threads(1)
