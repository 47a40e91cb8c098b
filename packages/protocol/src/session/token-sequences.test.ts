import { expect, it } from 'vitest';
import { resolveLimits } from '../base/limits.js';
import { createBodyCoder } from '../codec/auto/coder.js';
import { loadEncoding } from '../codec/vocabulary/load.js';
import { seeded } from '../testing/prose.js';
import { createSimulation, eventsOf } from '../testing/simulation.js';

/** A part of the million that `TOKEN_SEQUENCES=1000000` runs. */
const SEQUENCES = Number(process.env['TOKEN_SEQUENCES'] ?? 5_000);
const PER_STREAM = 500;

it(`${SEQUENCES} random sequences of token IDs arrive ID for ID`, async () => {
  const encoding = await loadEncoding('CL100K_BASE');
  const limits = resolveLimits({ messagesPerMinute: Infinity, bytesPerSecond: Infinity });
  const coder = createBodyCoder({
    algorithms: ['TOKEN_NATIVE'],
    encoding,
    limits,
    security: undefined,
    yield: () => Promise.resolve(),
  });
  const random = seeded(SEQUENCES);
  const simulation = createSimulation({ client: { limits }, server: { limits } });
  const { client, server } = simulation;
  simulation.settle();
  for (let done = 0; done < SEQUENCES; done += PER_STREAM) {
    const stream = client.core.channel.request(coder.encode('go', {}));
    simulation.settle();
    const sent = Array.from({ length: Math.min(PER_STREAM, SEQUENCES - done) }, () =>
      // Ordinary tokens of the vocabulary; together they need not be text.
      Uint32Array.from({ length: 1 + Math.floor(random() * 12) }, () => Math.floor(random() * 100_256)),
    );
    for (const ids of sent) server.core.channel.chunk(stream, coder.encodeTokens(ids, {}));
    server.core.channel.end(stream);
    simulation.settle();
    const parts = eventsOf(client, 'part');
    for (let i = 0; i < sent.length; i++) {
      const body = parts[i]?.body;
      if (body === undefined || coder.tokens(body).join() !== (sent[i] as Uint32Array).join()) {
        expect(body && [...coder.tokens(body)], `sequence ${done + i}`).toEqual([
          ...(sent[i] as Uint32Array),
        ]);
      }
      client.core.channel.consume(stream, body?.charge ?? 0);
    }
    expect(parts.length).toBe(sent.length);
    for (const end of [client, server]) {
      end.events.length = 0;
      end.sent.length = 0;
    }
  }
}, 600_000);
