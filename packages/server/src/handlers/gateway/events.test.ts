import { eventTextOf, type ServerSentEvent } from '@parlance/protocol';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readEventParts, readEventsAlone, readPieces } from './events.js';
import { GatewayFailure } from './failure.js';
import { createSecret } from './secret.js';

const NOTHING = createSecret([]);
const OPTIONS = { maxSize: 10_000, hasSigns: true, now: () => 0 };
const textIn = (part: string | Uint8Array) => Buffer.from(part).toString();
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

async function collect<Each>(parts: AsyncIterable<Each>): Promise<Each[]> {
  const collected: Each[] = [];
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
        const parts = await collect(readEventParts(chunked(text, lengths), NOTHING, OPTIONS));
        expect(parts.map(textIn).map(eventTextOf).join('')).toBe(text);
      }),
    );
  });

  it('lose comments, reconnection times, CR line ends and a byte-order mark, and keep a rest', async () => {
    const text = '\ufeff: hello\r\nretry: 5\r\ndata: {"a":1}\r\n\r\n: ping\n\ndata:[DONE]\n\ndata: cut off';
    const options = { ...OPTIONS, hasSigns: false };
    expect(await collect(readEventParts(chunked(text, [1]), NOTHING, options))).toEqual([
      '{"a":1}',
      '[DONE]',
      'data: cut off\n:',
    ]);
  });

  it('are whole for a reader of events alone', async () => {
    const read = async (text: string) =>
      (await collect(readEventsAlone(chunked(text, [3]), NOTHING, OPTIONS))).map(textIn);
    expect(await read('data: a\n\ndata: b')).toEqual(['a', 'b']);
    expect(await read('data: a\n\ndata: b\n')).toEqual(['a', 'b']);
    expect((await read('{"error":1}')).join('')).toBe('{"error":1}\n\n');
  });

  it('of n bytes are accepted and of n + 1 refused, after all complete ones', async () => {
    const of = (length: number) =>
      `data: first\n\ndata: ${'ü'.repeat(length / 2)}${'x'.repeat(length % 2)}\n\n`;
    const options = { ...OPTIONS, maxSize: 50 };
    expect(await collect(readEventParts(chunked(of(50), [9]), NOTHING, options))).toHaveLength(2);
    const seen: unknown[] = [];
    const reading = (async () => {
      for await (const part of readEventParts(chunked(of(51), [9]), NOTHING, options)) seen.push(part);
    })();
    expect(await failureOf(reading)).toBe('upstream_unusable');
    expect(seen).toEqual(['first']);
  });

  it('of many lines are bounded as a whole', async () => {
    const lines = chunked('data: 123456789\n'.repeat(100), [16]);
    const options = { ...OPTIONS, maxSize: 60 };
    expect(await failureOf(collect(readEventParts(lines, NOTHING, options)))).toBe('upstream_unusable');
  });
});

describe('a body that is not events', () => {
  it('is passed on as it comes, byte for byte', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.uint8Array({ minLength: 1 }),
        cuts,
        fc.boolean(),
        async (bytes, lengths, isText) => {
          const secret = createSecret(['k'.repeat(20)]);
          const pieces = await collect(readPieces(chunked(bytes, lengths), secret, isText));
          expect(Buffer.concat(pieces.map((piece) => Buffer.from(piece)))).toEqual(Buffer.from(bytes));
        },
      ),
    );
    expect(await collect(readPieces(chunked('{"a":1}\n{"a":2}\n', [8]), NOTHING, true))).toEqual([
      '{"a":1}\n',
      '{"a":2}\n',
    ]);
  });

  it('is never split inside a character if it is text', async () => {
    const text = '👩‍👩‍👧x'.repeat(40_000);
    const pieces = await collect(
      readPieces(chunked(text, [16_384, 16_383]), createSecret(['k'.repeat(20)]), true),
    );
    expect(pieces.every((piece) => typeof piece === 'string')).toBe(true);
    expect(pieces.join('')).toBe(text);
  });
});

describe('a secret', () => {
  const key = 'sk-0123456789abcdef';
  const secret = createSecret([key]);
  const passed = async (text: string, lengths: readonly number[]) =>
    (await collect(readPieces(chunked(text, lengths), secret, true))).map(textIn);

  it('is hidden however it is cut, in all its forms', async () => {
    const forms = [
      key,
      Buffer.from(key).toString('hex'),
      Buffer.from(`k=${key}`).toString('base64').slice(3),
    ];
    for (const form of forms) {
      for (let length = 1; length <= form.length + 1; length++) {
        const text = (await passed(`${'x'.repeat(5)}${form}${'y'.repeat(9)}${form}`, [length])).join('');
        expect(text).toContain('[hidden]');
        expect(text).not.toContain(form.slice(0, 12));
      }
    }
  });

  it('holds only what may be its beginning', async () => {
    expect(await passed('a sk-01. sk- .', [8, 4])).toEqual(['a sk-01.', ' ', 'sk- .']);
    expect(await passed('sk-0123', [4])).toEqual(['sk-0123']);
    expect(await passed('no, not here', [3])).toEqual(['no,', ' no', 't h', 'ere']);
  });

  it('is hidden in events', async () => {
    const text = `event: ${key}\ndata: ${key}\n\n`;
    expect(await collect(readEventParts(chunked(text, [5]), secret, OPTIONS))).toEqual([
      'event: [hidden]\ndata: [hidden]',
    ]);
  });

  it('needs at least 16 characters', () => {
    expect(createSecret(['x'.repeat(16)]).hide('x'.repeat(16))).toBe('[hidden]');
    expect(createSecret(['x'.repeat(15)]).hide('x'.repeat(15))).toBe('x'.repeat(15));
    expect(createSecret(['ollama', '']).hide('ollama')).toBe('ollama');
  });
});
