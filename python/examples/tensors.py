"""An array from one agent to another, without a copy. python tensors.py ws://127.0.0.1:8765/session."""

import sys

import numpy as np

import parlance


async def main() -> None:
    url = sys.argv[1] if len(sys.argv) > 1 else "ws://127.0.0.1:8765/session"
    async with (
        parlance.connect(url, token="team", agent_id="receiver") as receiver,
        parlance.connect(url, token="team", agent_id="sender") as sender,
    ):
        array = np.linspace(0, 1, 1_000_000, dtype="float32").reshape(1_000, 1_000)
        await sender.send_tensor(array, to="receiver", metadata={"model_id": "mine"})
        async for message in receiver:
            if message.tensor is not None:
                received = message.tensor.numpy()
                print(message.sender, message.tensor, message.tensor.metadata.model_id, np.array_equal(received, array))
                break


parlance.run(main())
