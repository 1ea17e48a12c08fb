// A member of a pool: which GPU is mine, and since when. The daemon needs
// pool.gpu.members = gpu0=/dev/nvidia0

import { Client } from 'counterd';

let highestFence = 0n;

/** Stands for the device, which refuses fences below the highest that it has seen. */
function use(device, fence) {
  if (fence < highestFence) throw new Error('another program has this device by now');
  highestFence = fence;
  console.log(`working on ${device}`);
}

const client = new Client();
for (let i = 0; i < 2; i++) {
  await client.withMember('gpu', { timeout: 10, by: 'member.mjs' }, (gpu) => use(gpu.value, gpu.fence));
}
const gpu = await client.member('gpu');
await gpu.release();
console.log(`gave back ${gpu.name}`);
await client.close();
