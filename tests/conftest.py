"""One thread a test process: the models here are tiny, and threads only get in each other's way. Ray on loopback."""

import os

import torch

torch.set_num_threads(1)
os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # or Ray leaves loopback; it is read when Ray is imported
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112  or its workers wait while another test computes
