import { beforeAll, describe, expect, it } from 'vitest';
import { Algorithm } from '../../base/constants.js';
import { resolveLimits } from '../../base/limits.js';
import { createBodyCoder } from '../../codec/auto/coder.js';
import { BodyCodec, isSized, type ReceivedBody } from '../../codec/body.js';
import type { BodyCoder } from '../../codec/coder.js';
import { LateCoder } from '../../codec/late-coder.js';
import { loadEncoding } from '../../codec/vocabulary/load.js';
import { encodeMap } from '../../control/maps.js';
import type { Encoding } from '../../tokenizer/encoding.js';
import type { Message } from '../messages/message.js';
import { createReply, type Reply } from './reply.js';

let encoding: Encoding;
beforeAll(async () => {
  encoding = await loadEncoding('CL100K_BASE');
});

const MAX_MESSAGE = 1_000;
const createTestReply = (id = 7) => {
  const coder = createBodyCoder({
    algorithms: Object.values(Algorithm),
    encoding,
    limits: resolveLimits({ maxMessageSize: MAX_MESSAGE }),
    security: undefined,
    yield: () => Promise.resolve(),
  });
  const seen = { cancelled: [] as number[], consumed: [] as number[], over: 0 };
  const host = {
    coder,
    cancel: (stream: number) => seen.cancelled.push(stream),
    consume: (_stream: number, charge: number) => seen.consumed.push(charge),
  };
  const reply = createReply(host, () => seen.over++);
  if (id !== 0) reply.begin(id);
  return { reply, coder, seen };
};
const bodyOf = (coder: BodyCoder, text: string, algorithm: Algorithm = 'NONE', charge = 1): ReceivedBody => {
  const body = coder.encode(text, { algorithm });
  return { ...body, originalLength: isSized(body.codec) ? body.originalLength : undefined, charge };
};
const withMetadata = (body: ReceivedBody, fields: Record<string, unknown>) => ({
  ...body,
  metadata: encodeMap(fields),
});
const textsOf = async (reply: Reply): Promise<string[]> => {
  const texts = [];
  for await (const part of reply) texts.push(part.text);
  return texts;
};

describe('a reply in parts', () => {
  it('is read part by part, then ends, and is over once', async () => {
    const { reply, coder, seen } = createTestReply();
    for (const text of ['a', 'b']) reply.handlePart(bodyOf(coder, text));
    expect(reply.isOver).toBe(false);
    reply.handleEnd();
    reply.handlePart(bodyOf(coder, 'late'));
    reply.handleResponse(bodyOf(coder, 'late'));
    reply.handleEnd(new Error('late'));
    expect(await textsOf(reply)).toEqual(['a', 'b']);
    expect([reply.isOver, seen.over, seen.cancelled]).toEqual([true, 1, []]);
  });

  it('gives the error to the reader of the text if the vocabulary of its tokens is not loaded', async () => {
    const { coder } = createTestReply();
    const late = new LateCoder({
      algorithms: ['TOKEN_NATIVE', 'NONE'],
      limits: resolveLimits(),
      create: () => undefined,
      load: () => undefined,
    });
    const reply = createReply({ coder: late, cancel() {}, consume() {} });
    reply.begin(1);
    reply.handlePart(bodyOf(coder, 'tokens', 'TOKEN_NATIVE'));
    reply.handleEnd();
    await expect(textsOf(reply)).rejects.toMatchObject({ code: 'codec_not_loaded' });
  });

  it('is a single part if the handler returned one', async () => {
    const { reply, coder } = createTestReply();
    reply.handleResponse(withMetadata(bodyOf(coder, 'all'), { status: 200 }));
    expect([await textsOf(reply), reply.metadata]).toEqual([['all'], { status: 200 }]);
  });

  it('throws an error after the parts that arrived', async () => {
    const { reply, coder } = createTestReply();
    reply.handlePart(bodyOf(coder, 'a'));
    reply.handleEnd(new Error('lost'));
    const iterator = reply[Symbol.asyncIterator]();
    expect((await iterator.next()).value?.text).toBe('a');
    await expect(iterator.next()).rejects.toThrow('lost');
  });

  it('joins a character that is split between two parts of tokens', async () => {
    const { reply, coder } = createTestReply();
    const ids = [...encoding.encode('\u{1f9d9}!')];
    expect(ids.length).toBeGreaterThan(2);
    for (const id of ids) {
      const { bytes, codec } = { ...bodyOf(coder, 'x', 'TOKEN_NATIVE'), ...coder.encodeTokens([id], {}) };
      reply.handlePart({ ...bodyOf(coder, ''), codec, bytes });
    }
    reply.handleEnd();
    const texts = await textsOf(reply);
    expect(texts.join('')).toBe('\u{1f9d9}!');
    expect(texts).toHaveLength(ids.length);
    expect(texts[0]).toBe('');
  });

  describe('that ends inside a character', () => {
    const incomplete = () => {
      const test = createTestReply();
      const [half] = encoding.encode('\u{1f9d9}');
      const { bytes, codec } = test.coder.encodeTokens([half as number], {});
      test.reply.handlePart({ ...bodyOf(test.coder, ''), codec, bytes });
      return test;
    };
    const bad = expect.objectContaining({ code: 'bad_utf8' });
    /** Returns the texts, followed by the error or 'end'. */
    const readAll = async (reply: Reply) => {
      const texts: string[] = [];
      try {
        for await (const part of reply) texts.push(part.text);
      } catch (error) {
        return [...texts, error];
      }
      return [...texts, 'end'];
    };

    it('fails after its last part, as the whole reply does', async () => {
      const { reply } = incomplete();
      reply.handleEnd();
      expect(await readAll(reply)).toEqual(['', bad]);
    });

    it('also fails if a part without tokens follows, whose own text can be read', async () => {
      const { reply, coder } = incomplete();
      reply.handlePart(bodyOf(coder, 'plain'));
      reply.handlePart(bodyOf(coder, 'tokens', 'TOKEN_NATIVE'));
      reply.handleEnd();
      expect(await readAll(reply)).toEqual(['', 'plain', 'tokens', bad]);
    });

    it('fails while its reader waits for more', async () => {
      const { reply } = incomplete();
      const reading = readAll(reply);
      await Promise.resolve();
      reply.handleEnd();
      expect(await reading).toEqual(['', bad]);
    });

    it('fails with the error of the session instead, if there is one', async () => {
      const { reply } = incomplete();
      reply.handleEnd(new Error('lost'));
      expect(await readAll(reply)).toEqual(['', new Error('lost')]);
    });

    it('can be read as tokens without an error', async () => {
      const { reply } = incomplete();
      reply.handleEnd();
      const ids: number[] = [];
      for await (const part of reply) ids.push(...(part.tokens ?? []));
      expect(ids).toHaveLength(1);
    });
  });

  it('accepts a response after metadata, but not after parts', async () => {
    const { reply, coder } = createTestReply();
    reply.handlePart(withMetadata({ ...bodyOf(coder, ''), bytes: new Uint8Array(0) }, { status: 200 }));
    reply.handleResponse(bodyOf(coder, 'all'));
    expect(await textsOf(reply)).toEqual(['all']);
    const other = createTestReply();
    other.reply.handlePart(bodyOf(coder, 'a'));
    expect(() => other.reply.handleResponse(bodyOf(coder, 'b'))).toThrow(
      expect.objectContaining({ code: 'bad_frame' }),
    );
  });

  it('returns credit when it is read, and not before', async () => {
    const { reply, coder, seen } = createTestReply();
    for (const charge of [10, 20]) reply.handlePart(bodyOf(coder, 'a', 'NONE', charge));
    expect(seen.consumed).toEqual([]);
    const iterator = reply[Symbol.asyncIterator]();
    await iterator.next();
    expect(seen.consumed).toEqual([10]);
    await iterator.next();
    expect(seen.consumed).toEqual([10, 20]);
  });

  it('takes its metadata from a part without content, which does not count as a part', async () => {
    const { reply, coder, seen } = createTestReply();
    expect(reply.metadata).toEqual({});
    reply.handlePart(withMetadata(bodyOf(coder, '', 'NONE', 30), { status: 206 }));
    expect([reply.metadata, seen.consumed]).toEqual([{ status: 206 }, [30]]);
    reply.handlePart(bodyOf(coder, ''));
    reply.handlePart(withMetadata(bodyOf(coder, 'a'), { status: 207 }));
    reply.handleEnd();
    expect([await textsOf(reply), reply.metadata]).toEqual([['', 'a'], { status: 207 }]);
  });
});

describe('a reply as a whole', () => {
  const whole = (...parts: readonly (readonly [string, Algorithm])[]): Promise<Message> => {
    const { reply, coder } = createTestReply();
    const message = reply.whole();
    for (const [text, algorithm] of parts) reply.handlePart(bodyOf(coder, text, algorithm));
    reply.handleEnd();
    return message;
  };

  it('joins the content of all parts, with any codec each', async () => {
    const message = await whole(['a é', 'NONE'], [' b', 'BROTLI'], [' c', 'TOKEN_NATIVE'], ['', 'NONE']);
    expect([message.text, message.algorithm, message.tokens]).toEqual(['a é b c', 'NONE', undefined]);
    expect((await whole()).text).toBe('');
  });

  it('consists of token IDs if all parts do', async () => {
    const message = await whole(['hello', 'TOKEN_NATIVE'], [' world', 'TOKEN_NATIVE']);
    expect([message.text, message.algorithm]).toEqual(['hello world', 'TOKEN_NATIVE']);
    expect([...(message.tokens ?? [])]).toEqual([...encoding.encode('hello'), ...encoding.encode(' world')]);
  });

  it('is the response that the handler returned', async () => {
    const { reply, coder, seen } = createTestReply();
    const message = reply.whole();
    reply.handleResponse(withMetadata(bodyOf(coder, 'all', 'BROTLI'), { status: 200 }));
    expect((await message).text).toBe('all');
    expect([(await message).metadata, seen.over]).toEqual([{ status: 200 }, 1]);
  });

  it('keeps the metadata that came with its parts', async () => {
    const { reply, coder } = createTestReply();
    const message = reply.whole();
    reply.handlePart(withMetadata(bodyOf(coder, ''), { status: 200 }));
    reply.handlePart(bodyOf(coder, 'a'));
    reply.handleEnd();
    expect((await message).metadata).toEqual({ status: 200 });
  });

  it('rejects with the error of the request', async () => {
    const { reply } = createTestReply();
    const message = reply.whole();
    reply.handleEnd(new Error('lost'));
    await expect(message).rejects.toThrow('lost');
  });

  it('rejects if a part cannot be decoded', async () => {
    const { reply, coder } = createTestReply();
    const message = reply.whole();
    reply.handlePart({ ...bodyOf(coder, 'a'), codec: BodyCodec.BROTLI, originalLength: 1 });
    reply.handleEnd();
    await expect(message).rejects.toMatchObject({ code: 'bad_compression' });
  });

  it('returns credit as it collects, because its size is limited like that of a message', async () => {
    const { reply, coder, seen } = createTestReply();
    const message = reply.whole();
    reply.handlePart(bodyOf(coder, 'x'.repeat(MAX_MESSAGE - 1), 'NONE', 5));
    reply.handlePart(bodyOf(coder, 'x', 'NONE', 6));
    expect(seen.consumed).toEqual([5, 6]);
    expect(() => reply.handlePart(bodyOf(coder, 'x'))).toThrow(
      expect.objectContaining({ code: 'message_too_large' }),
    );
    reply.handleEnd();
    expect((await message).text).toHaveLength(MAX_MESSAGE);
  });

  it('is limited by the size that its parts expand to, even if each alone is small enough', async () => {
    const most = ['x'.repeat(MAX_MESSAGE - 10), 'BROTLI'] as const;
    expect((await whole(most, ['y'.repeat(10), 'NONE'])).text).toHaveLength(MAX_MESSAGE);
    await expect(whole(most, ['y'.repeat(11), 'NONE'])).rejects.toMatchObject({
      code: 'decompressed_too_large',
    });
    await expect(whole(most, most, most)).rejects.toMatchObject({ code: 'decompressed_too_large' });
  });
});

describe('a reply that is no longer wanted', () => {
  it('is cancelled once at the peer, and unread parts are dropped and credited', async () => {
    const { reply, coder, seen } = createTestReply();
    reply.handlePart(bodyOf(coder, 'a', 'NONE', 9));
    reply.cancel();
    reply.cancel();
    reply.abort(new Error('late'));
    expect([seen.cancelled, seen.over, seen.consumed]).toEqual([[7], 1, [9]]);
    expect(await textsOf(reply)).toEqual([]);
  });

  it('is cancelled when its reader leaves, unless it is complete', async () => {
    for (const [ends, cancelled] of [
      [false, [7]],
      [true, []],
    ] as const) {
      const { reply, coder, seen } = createTestReply();
      reply.handlePart(bodyOf(coder, 'a'));
      reply.handlePart(bodyOf(coder, 'b'));
      if (ends) reply.handleEnd();
      for await (const part of reply) {
        expect(part.text).toBe('a');
        break;
      }
      expect(seen.cancelled).toEqual(cancelled);
    }
  });

  it('rejects the promise of the whole reply', async () => {
    const { reply } = createTestReply();
    const message = reply.whole();
    reply.cancel();
    await expect(message).rejects.toMatchObject({ code: 'cancelled' });
  });

  it('is aborted with the given reason, which a reader gets as an Error and a caller unchanged', async () => {
    const failure = new Error('too slow');
    const streamed = createTestReply();
    streamed.reply.abort(failure);
    await expect(textsOf(streamed.reply)).rejects.toBe(failure);
    expect(streamed.seen.cancelled).toEqual([7]);

    const odd = createTestReply();
    const message = odd.reply.whole();
    odd.reply.abort('enough');
    await expect(message).rejects.toBe('enough');
    const read = createTestReply();
    read.reply.abort('enough');
    await expect(textsOf(read.reply)).rejects.toMatchObject({ code: 'cancelled', cause: 'enough' });
  });

  it('sends nothing to the peer if the request was never sent', () => {
    for (const stop of [(reply: Reply) => reply.cancel(), (reply: Reply) => reply.abort(new Error('x'))]) {
      const { reply, seen } = createTestReply(0);
      stop(reply);
      expect([seen.cancelled, seen.over, reply.id]).toEqual([[], 1, 0]);
    }
  });
});
