import { connect, RequestError } from '@parlance/client';
import { tokenFor } from './identity.js';
import { settings } from './settings.js';
import { factors } from './work.js';

const name = process.argv[2] ?? 'worker';
const session = await connect(settings.url, {
  token: tokenFor(name, settings.secret),
  agent: { metadata: { skill: 'factors' } },
  waitForServer: true,
  onRequest(request, { signal }) {
    const number = Number(request.text);
    if (!Number.isSafeInteger(number) || number < 1)
      throw new RequestError('not_a_number', 'send a whole number');
    console.log(`${request.from} asks for the factors of ${number}`);
    return factors(number, signal);
  },
});
console.log(`${name} works`);
for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => session.close());
