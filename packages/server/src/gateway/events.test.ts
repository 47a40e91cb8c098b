import { eventTextOf, type ServerSentEvent } from '@parlance/protocol';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readEventParts, readTextPieces } from './events.js';
import { GatewayFailure } from './failure.js';
import { createSecret } from './secret.js';

const NOTHING = createSecret([]);
const utf8 = new TextEncoder();

async function* chunked(text: string | Uint8Array, lengths: readonly number[]): AsyncGenerator<Uint8Array> {
  const bytes = typeof text === 'string' ? utf8.encode(text) : text;
  let at = 0;
  for (let i = 0; at < bytes.length; i++) {
    const end = at + (lengths[i % lengths.length] ?? bytes.length);
    yield bytes.subarray(at, end);
    at = end;
  }
}

async function collect(parts: AsyncIterable<string>): Promise<string[]> {
  const collected: string[] = [];
  for await (const part of parts) collected.push(part);
  return collected;
}

const failureOf = (promise: Promise<unknown>) =>
  promise.then(
    () => 'none',
    (error: unknown) => (error instanceof GatewayFailure ? error.code : error),
  );

const cuts = fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 5 });

describe('events', () => {
  const line = fc.string({ unit: 'grapheme' }).map((text) => text.replace(/[\r\n]/gu, ''));
  const event = fc.record(
    {
      data: fc.array(line, { minLength: 1, maxLength: 3 }).map((lines) => lines.join('\n')),
      event: fc.stringMatching(/^[a-z][a-z._]{0,12}$/),
    },
    { requiredKeys: ['data'] },
  );
  const textOf = ({ event: name, data }: ServerSentEvent) =>
    `${name === undefined ? '' : `event: ${name}\n`}${data
      .split('\n')
      .map((each) => `data: ${each}\n`)
      .join('')}\n`;

  it('become parts that restore their text, wherever the bytes are split', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(event, { maxLength: 4 }), cuts, async (events, lengths) => {
        const text = events.map((each) => textOf(each as ServerSentEvent)).join('');
        const parts = await collect(readEventParts(chunked(text, lengths), 10_000, NOTHING));
        expect(parts.map(eventTextOf).join('')).toBe(text);
      }),
    );
  });

  it('lose comments, reconnection times, CR line ends and a byte-order mark', async () => {
    const text = '\ufeff: hello\r\nretry: 5\r\ndata: {"a":1}\r\n\r\n: ping\n\ndata:[DONE]\n\ndata: cut off';
    expect(await collect(readEventParts(chunked(text, [1]), 1000, NOTHING))).toEqual(['{"a":1}', '[DONE]']);
  });

  it('of n characters are accepted and of n + 1 refused, after all complete ones', async () => {
    const of = (length: number) => `data: first\n\ndata: ${'x'.repeat(length - 'data: '.length)}`;
    expect(await collect(readEventParts(chunked(`${of(50)}\n\n`, [9]), 50, NOTHING))).toHaveLength(2);
    const seen: string[] = [];
    const reading = (async () => {
      for await (const part of readEventParts(chunked(of(51), [9]), 50, NOTHING)) seen.push(part);
    })();
    expect(await failureOf(reading)).toBe('upstream_unusable');
    expect(seen).toEqual(['first']);
  });

  it('of many lines are bounded as a whole', async () => {
    const lines = chunked('data: 123456789\n'.repeat(7), [16]);
    expect(await failureOf(collect(readEventParts(lines, 60, NOTHING)))).toBe('upstream_unusable');
  });

  it('that are not UTF-8 are refused', async () => {
    const bytes = Uint8Array.of(...utf8.encode('data: '), 0xff, 0x0a, 0x0a);
    expect(await failureOf(collect(readEventParts(chunked(bytes, [3]), 60, NOTHING)))).toBe(
      'upstream_unusable',
    );
  });
});

describe('text', () => {
  it('is passed on unchanged, in one piece if it is short', async () => {
    await fc.assert(
      fc.asyncProperty(fc.string({ unit: 'grapheme' }), cuts, async (text, lengths) => {
        const pieces = await collect(readTextPieces(chunked(`\ufeff${text}`, lengths), NOTHING));
        expect(pieces).toEqual([`\ufeff${text}`]);
      }),
    );
    expect(await collect(readTextPieces(chunked('', [1]), NOTHING))).toEqual([]);
  });

  it('of any length is complete, never split inside a character', async () => {
    const text = '👩‍👩‍👧x'.repeat(40_000);
    const pieces = await collect(
      readTextPieces(chunked(text, [16_384, 16_383]), createSecret(['k'.repeat(20)])),
    );
    expect(pieces.length).toBeGreaterThan(2);
    expect(pieces.some((piece) => /[\ud800-\udbff]$/.test(piece))).toBe(false);
    expect(pieces.join('')).toBe(text);
  });

  it('truncated inside a character is refused', async () => {
    const bytes = utf8.encode('{"a":"ä').subarray(0, -1);
    expect(await failureOf(collect(readTextPieces(chunked(bytes, [2]), NOTHING)))).toBe('upstream_unusable');
  });
});

describe('a secret', () => {
  const key = 'sk-0123456789abcdef';

  it('is hidden even if it spans two pieces', async () => {
    for (let shift = 0; shift <= key.length + 1; shift++) {
      const before = 'x'.repeat(64 * 1024 - shift);
      const text = `${before}${key}${'y'.repeat(70_000)}${key}`;
      const pieces = await collect(readTextPieces(chunked(text, [8192]), createSecret([key])));
      expect(pieces.join('')).toBe(`${before}[hidden]${'y'.repeat(70_000)}[hidden]`);
      expect(pieces.length).toBeGreaterThan(1);
    }
  });

  it('is hidden in events', async () => {
    const parts = await collect(
      readEventParts(chunked(`event: ${key}\ndata: ${key}\n\n`, [5]), 99, createSecret([key])),
    );
    expect(parts).toEqual(['event: [hidden]\ndata: [hidden]']);
  });

  it('needs at least 16 characters', () => {
    expect(createSecret(['x'.repeat(16)]).hide('x'.repeat(16))).toBe('[hidden]');
    expect(createSecret(['x'.repeat(15)]).hide('x'.repeat(15))).toBe('x'.repeat(15));
    expect(createSecret(['ollama', '']).hide('ollama')).toBe('ollama');
  });
});
