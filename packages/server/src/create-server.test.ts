import { loggable, SILENT_LOGGER } from '@parlance/protocol/internal';
import { describe, expect, it } from 'vitest';
import { createServer } from './create-server.js';
import { without } from './server/features/choose-features.js';
import type { SessionServer } from './server/server.js';
import { resolveServerOptions } from './server/server-options.js';
import { OfferedOptions } from './server/session-options.js';

it('extensions of the sessions themselves can be left out', () => {
  const extensionsOf = (...names: string[]) => {
    const { features, options } = createServer({ features: names.map(without) }) as unknown as SessionServer;
    return Object.keys(new OfferedOptions(options, features).capabilities.extensions);
  };
  expect(extensionsOf()).toEqual(expect.arrayContaining(['link', 'resume', 'context', 'replies']));
  for (const name of ['resume', 'context', 'replies']) expect(extensionsOf(name)).not.toContain(name);
  expect(extensionsOf('link')).toEqual(['std']);
});

it('reads with a wire that it knows', () => {
  for (const wire of ['net', 'ws', undefined] as const) createServer({ wire });
  const unknown = { wire: 'wss' } as unknown as Parameters<typeof createServer>[0];
  expect(() => createServer(unknown)).toThrow('wire must be "net" or "ws", not "wss"');
});

it('has sessions over WebSockets, and over HTTP unless that is left out', () => {
  const given = (transports: unknown) => ({ transports }) as Parameters<typeof resolveServerOptions>[0];
  for (const transports of [undefined, ['websocket', 'http']])
    expect(resolveServerOptions(given(transports)).overHttp).toBe(true);
  expect(resolveServerOptions(given(['websocket'])).overHttp).toBe(false);
  for (const transports of [[], ['http'], ['http', 'websocket'], ['websocket', 'sse'], 'http'])
    expect(() => createServer(given(transports))).toThrow(/^transports/);
});

it('bounds the lines of one session in the log, and not what onError is called with', () => {
  const seen = { lines: 0, errors: 0 };
  const logger = { ...SILENT_LOGGER, warn: () => void seen.lines++ };
  const options = resolveServerOptions({ logger, onError: () => void seen.errors++ });
  const err = loggable(new Error('failed'));
  for (let i = 0; i < 100; i++) options.logger.warn({ event: 'request.failed', session: 's', err }, 'failed');
  expect(seen).toEqual({ lines: 60, errors: 100 });
});

describe('the memory of a process', () => {
  const maxMessageSize = 64 * 1024 * 1024;

  it('has room for the messages that the application allows: n bytes, and not n - 1', () => {
    const limits = { maxMessageSize };
    expect(resolveServerOptions({ limits, processMemory: 4 * maxMessageSize }).processMemory).toBe(2 ** 28);
    expect(() => resolveServerOptions({ limits, processMemory: 4 * maxMessageSize - 1 })).toThrow(
      expect.objectContaining({
        code: 'invalid_option',
        message:
          'limits.maxMessageSize of 67108864 bytes needs a processMemory of 268435456 bytes, and it is 268435455',
      }),
    );
  });

  it('may be small if the application has set no size of messages, or any', () => {
    for (const limits of [undefined, {}, { maxMessageSize: Infinity }, { sessionMemory: maxMessageSize }])
      expect(resolveServerOptions({ limits, processMemory: 1 }).processMemory).toBe(1);
  });

  it('is said to be too small if that is what the machine has', () => {
    const lines: unknown[] = [];
    const logger = { ...SILENT_LOGGER, warn: (...line: unknown[]) => void lines.push(line) };
    resolveServerOptions({ logger, limits: { maxMessageSize: 2 ** 50 } });
    expect(lines).toEqual([
      [
        { event: 'memory.small' },
        expect.stringMatching(/^limits.maxMessageSize of 1125899906842624 bytes needs /),
      ],
    ]);
  });
});
