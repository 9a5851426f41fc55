"""Training on two machines, of which one dies and is replaced: torchrun's own launch, two addresses on loopback."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import torch
from test_trainer import load_checkpoint, weights

from anyorder.training.config import load_config
from anyorder.training.run import train

STEPS, KILLED = 40, 6  # updates in all, and after how many a machine dies
CONFIG = """
name = "two-machines"
data = {{ languages = ["a", "b"], train = [{{ copy = 300, seed = 1 }}], valid = [{{ copy = 40, seed = 2 }}] }}
tokenizer = {{ vocabulary = 300 }}
model = {{ dim = 16, layers = 1, heads = 2, ffn = 32, positions = 24 }}
[[stages]]
name = "masked"
objective = "masked-translation"
steps = {steps}
tokens = 256
accumulate = {accumulate}
optimizer = "adam"
learning_rate = 1e-3
warmup = 4
dropout = 0.2
average = 0.9
validate = 40
bleu_sentences = 0
save_minutes = 0.0
"""
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "GLOO_SOCKET_IFNAME": "lo",
    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",  # or a machine that comes later is never told where the others meet
}


class Machine:
    """torchrun with its processes, at an address of its own; the one at the first address is where all meet."""

    def __init__(self, address: str, port: int, config: Path, out: Path) -> None:
        first = address == "127.0.0.1"
        meet = f"is_host={int(first)},keep_alive_interval=1,keep_alive_max_attempt=3,last_call_timeout=1"
        command = [
            sys.executable, "-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=1", "--max-restarts=3",
            "--monitor-interval=0.1", "--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}", "--rdzv-id=test",
            f"--local-addr={address}", f"--rdzv-conf={meet}",
            "-m", "anyorder", "train", str(config), "--out", str(out), "--threads", "1",
        ]  # fmt: skip
        self.said = out.with_name(f"{address}.log")
        with self.said.open("w") as file:
            self.process = subprocess.Popen(command, env=os.environ | ENVIRONMENT, stdout=file, stderr=file)

    def running(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        """As when the power goes: all its processes at once, without a word to anybody."""
        if self.running():
            here = psutil.Process(self.process.pid)
            for process in [here, *here.children(recursive=True)]:
                process.kill()
        self.process.wait()


@pytest.fixture
def machines() -> Iterator[list[Machine]]:
    """Those that a test starts; none is left."""
    started: list[Machine] = []
    yield started
    for machine in started:
        machine.kill()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux answers at all of 127.0.0.0/8")
def test_a_machine_dies_and_another_takes_its_place(machines: list[Machine], tmp_path: Path) -> None:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    config, out = tmp_path / "two.toml", tmp_path / "two"
    config.write_text(CONFIG.format(steps=STEPS, accumulate=1))

    def step() -> int:
        state = load_checkpoint(out / "masked" / "checkpoint.pt")
        return state["position"]["step"] if state else 0

    def words() -> str:
        return "\n".join(machine.said.read_text()[-2000:] for machine in machines)

    machines += [Machine(address, port, config, out) for address in ("127.0.0.1", "127.0.0.2")]
    while step() < KILLED:
        assert all(machine.running() for machine in machines), words()
        time.sleep(0.05)
    machines[1].kill()
    seen = [step()]
    assert seen[0] < STEPS, "it ended before a machine could die"
    machines.append(Machine("127.0.0.3", port, config, out))
    while machines[0].running() or machines[2].running():
        seen.append(step())
        time.sleep(0.05)
    assert [machine.process.returncode for machine in machines] == [0, -9, 0], words()
    assert "another process of this training is gone" in machines[0].said.read_text()
    assert seen == sorted(seen) and seen[-1] == STEPS, "it did not go on from the last checkpoint"
    torch.set_num_threads(1)
    config.write_text(CONFIG.format(steps=STEPS, accumulate=2))
    train(load_config(config), tmp_path / "one")  # one process that adds up two batches
    one, two = weights(tmp_path / "one" / "masked"), weights(out / "masked")
    for name in one:
        torch.testing.assert_close(one[name], two[name], rtol=1e-3, atol=2e-5, msg=name)
