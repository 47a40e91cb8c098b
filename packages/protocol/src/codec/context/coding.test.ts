import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { bytesOf } from '../../base/testing/bytes.js';
import { errorCode } from '../../testing/error-code.js';
import { createProse, seeded } from '../../testing/prose.js';
import { platform } from '../../testing/this-platform.js';
import { decodeContextBody, describeContextBody, encodeContextBody } from './body.js';
import { ContextDecoder } from './decoder.js';
import { ContextEncoder, type ContextOffer } from './encoder.js';
import { NO_MATCH } from './similarity.js';

const PARAMETERS = { maxBytes: 1024 * 1024, maxMessages: 8 };
const MAX_MESSAGE = 16 * 1024 * 1024;
const textOf = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
const hex = (bytes: Uint8Array) => [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join(' ');

beforeAll(() => platform.loadZstd());

/** Both ends of one direction. */
function createPair(parameters = PARAMETERS, maxMessage = MAX_MESSAGE) {
  const encoder = new ContextEncoder(parameters);
  const decoder = new ContextDecoder(parameters, maxMessage);
  return {
    encoder,
    decoder,
    /** Sends a message in one frame; returns its size on the wire. */
    pass(text: string, { streamId = 0, isPart = false } = {}): ContextOffer {
      const content = bytesOf(text);
      const offer = encoder.code(content, encoder.match(content, streamId, isPart), isPart);
      encoder.begin(streamId, offer);
      encoder.complete(streamId);
      decoder.begin(streamId, offer.bytes);
      expect(textOf(decoder.complete(streamId, offer.bytes, isPart))).toBe(text);
      return offer;
    },
  };
}

/** A request with the first `turns` turns of a conversation. */
const request = (turns: readonly string[], user = 'u1') =>
  JSON.stringify({
    model: 'gpt-4o',
    messages: turns.map((content, i) => ({ role: i % 2 ? 'assistant' : 'user', content })),
    temperature: 0.7,
    stream: true,
    user,
  });
const chunk = (content: string) =>
  `{"id":"chatcmpl-AbCdEfGhIjKlMnOpQrStUvWxYz123","object":"chat.completion.chunk","created":1723456789,"model":"gpt-4o-2024-08-06","system_fingerprint":"fp_3aa7262c27","choices":[{"index":0,"delta":{"content":${JSON.stringify(content)}},"logprobs":null,"finish_reason":null}]}`;

describe('a message in context', () => {
  it('has a layout that can be read back, and described without its base', () => {
    const { pass } = createPair();
    const first = pass('{"type":"count","n":1}');
    expect(hex(first.bytes)).toBe(
      '00 fc 33 69 de 7b 22 74 79 70 65 22 3a 22 63 6f 75 6e 74 22 2c 22 6e 22 3a 31 7d',
    );
    const second = pass('{"type":"count","n":22}');
    expect(hex(second.bytes)).toBe('0a 14 01 9b d8 c4 3d 32 32');
    expect(describeContextBody(second.bytes, false)).toEqual({
      base: 'message 1 back',
      replacesBase: true,
      prefix: 20,
      suffix: 1,
      coding: 'as it is',
      middle: 2,
      decodedMiddle: 2,
      length: 23,
      checksum: 0x3dc4d89b,
    });
  });

  it('needs about nine bytes for the next part of a stream, and none for a CRC of its own', () => {
    const { pass, encoder, decoder } = createPair();
    const first = pass(chunk('Hello'), { streamId: 1, isPart: true });
    expect(first.bytes.length).toBeGreaterThan(150);
    for (const word of [' there', ',', ' world', '"', '\n\n', '😀']) {
      const offer = pass(chunk(word), { streamId: 1, isPart: true });
      expect(offer.bytes.length - bytesOf(JSON.stringify(word)).length + 2).toBeLessThanOrEqual(4);
      expect(describeContextBody(offer.bytes, true)).toMatchObject({
        base: 'last part of the stream',
        checksum: undefined,
      });
    }
    const end = encoder.end(1);
    expect(end.length).toBe(4);
    decoder.end(1, end);
    // A new stream begins without the last part of another one.
    expect(pass(chunk('Hello'), { streamId: 3, isPart: true }).base).toBe(0);
  });

  it('needs a fiftieth of a conversation, even if edited or interleaved with others', () => {
    const prose = [createProse(1), createProse(2)] as const;
    const turns = prose.map((next) => Array.from({ length: 80 }, () => next(280)));
    const histories: Record<string, string[]> = { appended: [], edited: [], interleaved: [], alike: [] };
    for (let i = 1; i <= 40; i++) {
      const [one, other] = turns.map((each) => each.slice(0, 2 * i)) as [string[], string[]];
      const edited = one.with(i, `${one[i]} (edit ${i * 7919})`);
      histories['appended']?.push(request(one));
      histories['edited']?.push(request(edited));
      histories['interleaved']?.push(request(one), request(other, 'u2'));
      // The same instructions, and edits near the beginning.
      histories['alike']?.push(
        request([turns[0]![0]!, ...other.slice(1)].with(1, `edit ${i}`)),
        request(one.with(1, `edit ${i * 31}`)),
      );
    }
    for (const [name, requests] of Object.entries(histories)) {
      const { pass } = createPair();
      let wire = 0;
      for (const text of requests) wire += pass(text).bytes.length;
      const last = requests.slice(name === 'appended' || name === 'edited' ? -1 : -2);
      const once = last.reduce((sum, text) => sum + platform.zstdCompress(bytesOf(text), 3).length, 0);
      expect(wire, name).toBeLessThan(once * 1.1 + requests.length * 64);
    }
  });

  it('lets a conversation replace its shorter version, and keeps branches separate', () => {
    const next = createProse(3);
    const root = Array.from({ length: 6 }, () => next(200));
    const { pass, encoder } = createPair();
    for (let i = 1; i <= 6; i++) pass(request(root.slice(0, i)));
    expect(encoder.state.bases.length).toBe(1);
    const branches = Array.from({ length: 4 }, () => [...root]);
    for (let round = 0; round < 3; round++) {
      for (const branch of branches) {
        branch.push(next(100));
        const { bytes } = pass(request(branch));
        expect(bytes.length).toBeLessThan(450);
      }
    }
    expect(encoder.state.bases.length).toBe(4);
  });
});

describe('short conversations in turns', () => {
  it('cost what each costs alone, from their second requests on', () => {
    const prose = [createProse(21), createProse(22), createProse(23)];
    const turns = prose.map((next) => Array.from({ length: 16 }, () => next(30)));
    const sizesOf = (requests: readonly string[]) => {
      const { pass } = createPair();
      return requests.reduce((sum, text) => sum + pass(text).bytes.length, 0);
    };
    const each = turns.map((all, user) =>
      Array.from({ length: 8 }, (_, i) => request(all.slice(0, 2 * i + 1), `u${user}`)),
    );
    const alone = each.reduce((sum, requests) => sum + sizesOf(requests), 0);
    const together = Array.from({ length: 8 }, (_, i) =>
      each.map((requests) => requests[i] as string),
    ).flat();
    expect(together.at(-1)?.length).toBeLessThan(4096);
    expect(sizesOf(together)).toBeLessThan(alone * 1.05);
  });
});

describe('the level of a compressed middle', () => {
  const next = createProse(24);
  const turnsOf = (count: number) => Array.from({ length: count }, () => next(300));

  it.each([
    ['a base of a few turns', 4, 0.98],
    ['a base of 20 turns', 20, 0.98],
    ['a base of 100 turns', 100, 1],
  ])('makes it smaller than level 3, if that is quick, against %s', (_name, count, most) => {
    const { pass } = createPair();
    const turns = turnsOf(count);
    const base = bytesOf(request(turns));
    pass(request(turns));
    const content = request([...turns, next(600)]);
    const { bytes, prefix, suffix, middle } = pass(content);
    const between = bytesOf(content).subarray(prefix, bytesOf(content).length - suffix);
    expect(bytes.length - middle).toBeLessThan(16);
    expect(middle).toBeLessThanOrEqual(platform.zstdCompress(between, 3, base).length * most);
  });
});

describe('a history of megabytes', () => {
  const LARGE = { maxBytes: 4 * 1024 * 1024, maxMessages: 8 };

  it('costs what is new, and its memory is bounded', () => {
    const next = createProse(11);
    const turns = Array.from({ length: 20 }, () => next(5_000));
    const { pass, encoder, decoder } = createPair(LARGE);
    let [json, largest] = [0, 0];
    pass(request(turns));
    for (; json < 3.6 * 1024 * 1024; json = largest) {
      for (let i = 0; i < 8; i++) turns.push(next(5_000));
      turns.push(next(150));
      const text = request(turns);
      largest = text.length;
      const { bytes } = pass(text);
      const added = platform.zstdCompress(bytesOf(request(turns.slice(-9))), 3).length;
      expect(bytes.length, `of ${text.length} bytes`).toBeLessThan(added * 1.2 + 100);
    }
    for (const { state } of [encoder, decoder]) {
      expect([state.bases.length, state.bytes]).toEqual([1, largest]);
      expect(state.packedBytes).toBeLessThan(2 * 1024 * 1024);
    }
    expect(decoder.state.packedBytes).toBe(encoder.state.packedBytes);
    // One more word costs little more than a word, however long the history.
    turns.push('and now?');
    expect(pass(request(turns)).bytes.length).toBeLessThan(100);
  });

  it('is coded against what could be kept, once it cannot be kept itself', () => {
    const next = createProse(12);
    const turns = Array.from({ length: 20 }, () => next(4_000));
    const limit = request(turns).length;
    const { pass, encoder } = createPair({ maxBytes: limit, maxMessages: 8 });
    pass(request(turns));
    for (let i = 1; i <= 3; i++) {
      turns.push(next(200));
      const { bytes, prefix } = pass(request(turns));
      expect(prefix).toBeGreaterThan(limit * 0.99);
      expect(bytes.length).toBeLessThan(i * 1_000 + 100);
      expect(lengthsOf(encoder)).toEqual([limit]);
    }
  });

  it('that was edited at its beginning, or lost it, is coded against the rest', () => {
    const next = createProse(13);
    const turns = Array.from({ length: 60 }, () => next(4_000));
    const { pass } = createPair(LARGE);
    pass(request(turns));
    const edited = pass(request(turns.with(0, `${next(30)} ${turns[0]}`)));
    expect(edited.bytes.length).toBeLessThan(400);
    const moved = request(turns.slice(30));
    expect(pass(moved).bytes.length).toBeLessThan(moved.length / 100);
  });
});

const lengthsOf = ({ state }: ContextEncoder) => state.bases.map(({ length }) => length);

it('keeps a conversation in the list while small messages come in between', () => {
  const next = createProse(6);
  const turns = Array.from({ length: 10 }, () => next(150));
  const { pass, encoder } = createPair();
  pass(request(turns));
  for (let i = 0; i < 50; i++) {
    pass(
      JSON.stringify({
        type: 'event',
        at: 1_700_000_000_000 + i * 7919,
        user: `u${i % 7}`,
        typing: i % 2 === 0,
      }),
    );
  }
  expect(encoder.state.bases.some(({ content }) => content.length > 9000)).toBe(true);
  turns.push(next(150));
  expect(pass(request(turns)).prefix).toBeGreaterThan(9000);
});

describe('a corrupted body', () => {
  const history = () => {
    const { encoder, decoder, pass } = createPair();
    const next = createProse(4);
    const turns = Array.from({ length: 4 }, () => next(60));
    pass(request(turns.slice(0, 2)));
    const content = bytesOf(request(turns));
    const offer = encoder.code(content, encoder.match(content, 0, false), false);
    expect(offer.compressed).toBe(true);
    return { decoder, offer, content };
  };

  it('ends in an error, never in another message', () => {
    const { decoder, offer, content } = history();
    fc.assert(
      fc.property(fc.nat(offer.bytes.length - 1), fc.integer({ min: 1, max: 255 }), (at, xor) => {
        const damaged = offer.bytes.slice();
        damaged[at]! ^= xor;
        let decoded: Uint8Array | undefined;
        // Each attempt uses its own stream and changes only the list of this decoder.
        const code = errorCode(() => {
          decoder.begin(0, damaged);
          decoded = decoder.complete(0, damaged, false);
        });
        if (decoded !== undefined) expect(textOf(decoded)).toBe(textOf(content));
        else
          expect([
            'bad_checksum',
            'bad_frame',
            'bad_compression',
            'bad_varint',
            'truncated',
            'decompressed_too_large',
            'message_too_large',
          ]).toContain(code);
        decoder.abandon(0);
      }),
      { numRuns: 2000 },
    );
  });

  it('is refused at every length except its own', () => {
    const { decoder, offer } = history();
    for (let length = 0; length < offer.bytes.length; length++) {
      const cut = offer.bytes.subarray(0, length);
      const code = errorCode(() => {
        decoder.begin(0, cut);
        decoder.complete(0, cut, false);
      });
      expect(code).not.toBe('none');
    }
  });

  it('among the parts of a stream is found at its end at the latest', () => {
    const { encoder, decoder, pass } = createPair();
    pass(chunk('one'), { streamId: 1, isPart: true });
    const content = bytesOf(chunk('two'));
    const offer = encoder.code(content, encoder.match(content, 1, true), true);
    encoder.begin(1, offer);
    encoder.complete(1);
    const damaged = offer.bytes.slice();
    damaged[damaged.length - 1]! ^= 1;
    decoder.begin(1, damaged);
    decoder.complete(1, damaged, true);
    expect(errorCode(() => decoder.end(1, encoder.end(1)))).toBe('bad_checksum');
  });

  it('cannot name a missing base', () => {
    const { decoder, pass } = createPair();
    pass('0123456789');
    const body = {
      replaces: false,
      compressed: false,
      prefix: 5,
      suffix: 5,
      checksum: 0,
      middle: new Uint8Array(0),
    };
    const codeOf = (changes: Partial<typeof body> & { base: number }, isPart = false) => {
      const bytes = encodeContextBody({ ...body, checksum: isPart ? undefined : 0, ...changes });
      return errorCode(() => {
        decoder.begin(7, bytes);
        decoder.complete(7, bytes, isPart);
      });
    };
    expect(codeOf({ base: 2 })).toBe('bad_checksum');
    expect(codeOf({ base: 2, suffix: 6 })).toBe('bad_frame');
    expect(codeOf({ base: 2, prefix: 2 ** 52, suffix: 2 ** 52 })).toBe('bad_frame');
    expect(codeOf({ base: 3 })).toBe('bad_frame');
    expect(codeOf({ base: 1 }, true)).toBe('bad_frame');
    expect(codeOf({ base: 0, replaces: true })).toBe('bad_frame');
    expect(codeOf({ base: 1, replaces: true }, true)).toBe('bad_frame');
    expect(codeOf({ base: 1000 })).toBe('bad_varint');
  });

  it('needs the right CRC at the end of a stream, and nothing else', () => {
    const codeOf = (length: number, streamId: number) => {
      const { decoder, pass } = createPair();
      pass(chunk('x'), { streamId: 1, isPart: true });
      return errorCode(() => decoder.end(streamId, new Uint8Array(length)));
    };
    expect([codeOf(0, 1), codeOf(3, 1), codeOf(4, 1), codeOf(5, 1)]).toEqual([
      'truncated',
      'truncated',
      'bad_checksum',
      'trailing_bytes',
    ]);
    expect([codeOf(0, 3), codeOf(4, 3)]).toEqual(['none', 'trailing_bytes']);
  });
});

describe('limits', () => {
  it('are checked before the message is assembled', () => {
    const { encoder, decoder } = createPair(PARAMETERS, 1000);
    const random = seeded(1);
    const code = (length: number, compressible: boolean) => {
      const content = Uint8Array.from({ length }, () => (compressible ? 65 : random() * 256));
      const offer = encoder.code(content, NO_MATCH, false);
      expect(offer.compressed).toBe(compressible);
      return errorCode(() => {
        decoder.begin(0, offer.bytes);
        decoder.complete(0, offer.bytes, false);
      });
    };
    expect([code(1000, true), code(1001, true)]).toEqual(['none', 'decompressed_too_large']);
    expect([code(1000, false), code(1001, false)]).toEqual(['none', 'message_too_large']);
  });

  it('include the bytes taken from the base', () => {
    const { pass, decoder } = createPair(PARAMETERS, 1000);
    pass('x'.repeat(900));
    const body = (middle: Uint8Array, compressed: boolean) =>
      encodeContextBody({
        base: 2,
        replaces: false,
        compressed,
        prefix: 900,
        suffix: 0,
        checksum: 0,
        middle,
      });
    const codeOf = (bytes: Uint8Array) =>
      errorCode(() => {
        decoder.begin(0, bytes);
        decoder.complete(0, bytes, false);
      });
    expect(codeOf(body(new Uint8Array(100), false))).toBe('bad_checksum');
    expect(codeOf(body(new Uint8Array(101), false))).toBe('message_too_large');
    const zeros = (length: number) => platform.zstdCompress(new Uint8Array(length), 3);
    expect(codeOf(body(zeros(100), true))).toBe('bad_checksum');
    expect(codeOf(body(zeros(101), true))).toBe('decompressed_too_large');
    const bomb = body(zeros(2 ** 26), true);
    const before = process.memoryUsage().rss;
    for (let i = 0; i < 100; i++) expect(codeOf(bomb)).toBe('decompressed_too_large');
    expect(process.memoryUsage().rss - before).toBeLessThan(2 ** 25);
  });
});

/** The events of a stream. */
const event = fc.record({
  stream: fc.nat(3),
  what: fc.constantFrom('body', 'body', 'body', 'first', 'last', 'cancel', 'end', 'fail'),
  isPart: fc.boolean(),
  conversation: fc.nat(2),
  edit: fc.nat(9),
});

it('leaves both ends with the same list after any history', () => {
  const prose = createProse(5);
  const paragraphs = Array.from({ length: 12 }, () => prose(50));
  fc.assert(
    fc.property(
      fc.array(event, { maxLength: 50 }),
      fc.constantFrom(1000, 6000, 100_000),
      (events, maxBytes) => {
        const { encoder, decoder } = createPair({ maxBytes, maxMessages: 3 });
        const turns = paragraphs.slice(0, 3).map((first) => [first]);
        const underWay = new Map<number, ContextOffer>();
        for (const { stream, what, isPart, conversation, edit } of events) {
          const history = turns[conversation] as string[];
          if (what === 'body' || what === 'first') {
            if (underWay.has(stream)) continue;
            if (edit < 6) history.push(paragraphs[(history.length + edit) % 12] as string);
            else history[Math.floor((edit * history.length) / 10)] += ` ${edit}`;
            const text = isPart ? chunk(paragraphs[edit]?.slice(0, 5 + edit) ?? '') : request(history);
            const content = bytesOf(text);
            const offer = encoder.code(content, encoder.match(content, stream, isPart), isPart);
            encoder.begin(stream, offer);
            decoder.begin(stream, offer.bytes.subarray(0, 1 + edit));
            underWay.set(stream, offer);
          }
          const offer = underWay.get(stream);
          if ((what === 'body' || what === 'last') && offer !== undefined) {
            underWay.delete(stream);
            encoder.complete(stream);
            expect(textOf(decoder.complete(stream, offer.bytes, offer.isPart))).toBe(textOf(offer.content));
          }
          if (what === 'cancel' || what === 'end' || what === 'fail') underWay.delete(stream);
          if (what === 'cancel') {
            encoder.abandon(stream);
            decoder.abandon(stream);
          }
          if (what === 'end') decoder.end(stream, encoder.end(stream));
          if (what === 'fail') {
            encoder.end(stream);
            decoder.fail(stream);
          }
          const [sent, received] = [encoder.state, decoder.state];
          expect(received.bases.map(({ content }) => textOf(content))).toEqual(
            sent.bases.map(({ content }) => textOf(content)),
          );
          expect(received.bases.map(({ pins }) => pins)).toEqual(sent.bases.map(({ pins }) => pins));
          expect(received.bytes).toBe(sent.bytes);
          for (let each = 0; each < 4; each++) {
            const [mine, theirs] = [sent.slot(each), received.slot(each)];
            expect(theirs && textOf(theirs.content)).toBe(mine && textOf(mine.content));
          }
        }
      },
    ),
    { numRuns: 150 },
  );
});

it('decodes only its own layout', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 40 }), fc.boolean(), (bytes, isPart) => {
      let body: ReturnType<typeof decodeContextBody> | undefined;
      const code = errorCode(() => {
        body = decodeContextBody(bytes, isPart);
      });
      if (body !== undefined) expect(encodeContextBody(body)).toEqual(bytes);
      else expect(['truncated', 'bad_varint', 'bad_frame']).toContain(code);
      expect(['none', 'truncated', 'bad_varint', 'bad_frame', 'bad_compression']).toContain(
        errorCode(() => describeContextBody(bytes, isPart)),
      );
    }),
    { numRuns: 1000 },
  );
});
