// Units of a limit: at most 10 calls of an interface at once, of which this program makes 3.

import { Busy, Client } from 'counterd';

const client = new Client();
const units = await client.units('api', 3, 10);
try {
  console.log(`${units.count} calls, ${await client.usage('api')} in use`);
  await client.units('api', 8, 10);
} catch (error) {
  if (!(error instanceof Busy)) throw error;
  console.log('8 more are too many');
} finally {
  await units.release();
}
console.log(`${await client.usage('api')} in use`);
await client.close();
