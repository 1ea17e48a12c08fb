"""A member of a pool: which GPU is mine, and since when. The daemon needs
pool.gpu.members = gpu0=/dev/nvidia0
"""

import counterd

highest_fence = 0


def use(device: str, fence: int) -> None:
    """Stands for the device, which refuses fences below the highest that it has seen."""
    global highest_fence
    if fence < highest_fence:
        raise PermissionError("another program has this device by now")
    highest_fence = fence
    print(f"working on {device}")


with counterd.Client() as client:
    for _ in range(2):
        with client.member("gpu", timeout=10, by="member.py") as gpu:
            use(gpu.value or gpu.name, gpu.fence)
    print(f"gave back {gpu.name}")
