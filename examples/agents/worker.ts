import { setTimeout as pause } from 'node:timers/promises';
import { connect } from '@parlance/client';
import { RequestError } from '@parlance/protocol';
import { MODELS, type ModelName } from './models.js';

/** A worker in its own process: it factorises numbers and reads hidden states. */

const [url = '', name = '', model = ''] = process.argv.slice(2);
const { identity, encoding } = MODELS[model as ModelName];

const session = await connect(url, {
  token: name,
  encodings: [encoding],
  agent: { metadata: { skill: 'factors', model } },
  avp: { identity },
  async *onRequest(request, { signal }) {
    const { factor } = request.json<{ factor: number }>();
    if (!Number.isSafeInteger(factor) || factor < 2) {
      throw new RequestError('not_a_number', 'expected a whole number of at least 2');
    }
    let rest = factor;
    yield `${factor} =`;
    for (let divisor = 2; rest > 1 && !signal.aborted; divisor++) {
      for (; rest % divisor === 0; rest /= divisor) {
        // Slow enough to watch.
        await pause(60);
        yield rest === factor ? ` ${divisor}` : ` × ${divisor}`;
      }
    }
  },
});

for await (const message of session) {
  if (message.from === undefined) continue;
  const { tensor } = message;
  const state = tensor?.data === undefined ? message.json<{ state: number[] }>().state : tensor.toTyped();
  const length = Math.hypot(...[...state].map(Number));
  await session.send({ length, as: tensor === undefined ? 'text' : 'tensor' }, { to: message.from });
}
