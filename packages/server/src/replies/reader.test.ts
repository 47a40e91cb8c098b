import {
  Algorithm,
  BodyCodec,
  type CodedBody,
  type EncodingName,
  getEncoding,
  loadEncoding,
  resolveLimits,
} from '@parlance/protocol';
import { createBodyCoder } from '@parlance/protocol/internal';
import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { memoryReplies } from '../engine/logs/memory.js';
import type { ReplyEntry } from '../engine/logs/reply.js';
import type { ServerEndpoint } from '../session/endpoint.js';
import { ReplyLog } from './log.js';
import { heldBytes, RecordCoders, ReplyReader } from './reader.js';
import { encodeRecord } from './record.js';

const limits = resolveLimits();
const ENCODING = 'CL100K_BASE';
const coders = new RecordCoders({ limits, security: undefined });

beforeAll(async () => {
  await Promise.all([loadEncoding(ENCODING), loadEncoding('O200K_BASE')]);
});

const coderOf = (algorithms: readonly Algorithm[], encoding: EncodingName | undefined) =>
  createBodyCoder({
    algorithms,
    encoding: encoding === undefined ? undefined : getEncoding(encoding),
    limits,
    security: undefined,
    yield: () => Promise.resolve(),
  });

const encodingOf = () => getEncoding(ENCODING) as NonNullable<ReturnType<typeof getEncoding>>;

/** Bytes that sessions of this test hold. */
let reserved = 0;
let room = Infinity;
const reserve = (size: number) => {
  reserved += size;
  return {
    release: () => {
      reserved -= size;
    },
  };
};

function sessionOf(algorithms: readonly Algorithm[], encoding: EncodingName | undefined): ServerEndpoint {
  return {
    principal: 'ada',
    coder: coderOf(algorithms, encoding),
    negotiated: { algorithms, encoding: encoding ?? null },
    core: { awaitedCodecs: new Set() },
    memory: { charge: reserve, tryReserve: (size: number) => (size <= room ? reserve(size) : undefined) },
  } as unknown as ServerEndpoint;
}

const HEAD: ReplyEntry = {
  id: 'reply_a',
  owner: 'ada',
  principal: 'ada',
  name: undefined,
  share: undefined,
  encoding: ENCODING,
  ttlMs: 1,
  startedAt: 0,
  parts: 0,
  end: undefined,
};

function logOf(bodies: readonly CodedBody[]): ReplyLog {
  const memory = memoryReplies(() => 0, { maxBytes: 1e9, onDropped() {} });
  const log = new ReplyLog({
    ...{ engine: memory, local: memory.local, incarnation: 'aaaaaa', now: () => 0 },
    bounds: { maxReplies: 1, maxReplyBytes: 1e9, maxOwnerBytes: 1e9, maxBytes: 1e9 },
    logger: { debug() {}, info() {}, warn() {}, error() {} },
    isAlive: async () => true,
  });
  log.open(HEAD);
  for (const body of bodies) log.append(HEAD.id, encodeRecord(body, undefined));
  return log;
}

/** One call of `read` does not return all of a long reply. */
async function recordsAfter(log: ReplyLog, after: number): Promise<Uint8Array[]> {
  const records: Uint8Array[] = [];
  for (;;) {
    const more = (await log.read(HEAD.id, after + records.length))?.records ?? [];
    if (more.length === 0) return records;
    records.push(...more);
  }
}

/** The text of each part after number `after`, as the client of a session reads it that gets the held bytes. */
async function follow(log: ReplyLog, after: number, session: ServerEndpoint): Promise<string[]> {
  const coder = coders.for(ENCODING);
  const held = await heldBytes(log, HEAD, after, coder);
  const reader = new ReplyReader(HEAD, coder, session, true, held);
  const texts: string[] = [];
  let partText = reader.sharesTokens ? session.coder.createPartText(held) : undefined;
  for (const body of reader.all(await recordsAfter(log, after))) {
    const received = { ...body, charge: 0 };
    if (body.codec === BodyCodec.TOKEN_NATIVE) {
      partText ??= session.coder.createPartText();
      texts.push(partText.push(session.coder.tokens(received)));
    } else {
      partText = undefined;
      texts.push(Buffer.from(session.coder.decode(received)).toString());
    }
  }
  return texts;
}

/** Texts of many bytes and tokens a character. */
const texts = fc.string({
  unit: fc.constantFrom('a', ' the', 'é', '世', '🦀', '👩‍👩‍👧', 'ẞ', '\u{1f9ff}', '𝔘'),
  maxLength: 20,
});
/** A run of tokens that is cut anywhere, also inside a character and into nothing, or a plain part. */
const runs = fc.array(
  fc.oneof(
    {
      weight: 4,
      arbitrary: fc.record({
        text: texts,
        cuts: fc.array(fc.nat({ max: 4 }), { minLength: 1, maxLength: 12 }),
      }),
    },
    { weight: 1, arbitrary: fc.record({ plain: texts.filter((text) => text !== '') }) },
  ),
  { maxLength: 6 },
);

function bodiesOf(parts: readonly ({ text: string; cuts: readonly number[] } | { plain: string })[]) {
  const coder = coderOf(['TOKEN_NATIVE'], ENCODING);
  const bodies: CodedBody[] = [];
  for (const part of parts) {
    if ('plain' in part) {
      const bytes = Buffer.from(part.plain);
      bodies.push({
        codec: BodyCodec.PLAIN,
        bytes,
        originalLength: bytes.length,
        secret: false,
        metadata: undefined,
      });
      continue;
    }
    const ids = [...encodingOf().encode(part.text)];
    for (let at = 0, cut = 0; at < ids.length; cut++) {
      const size = Math.max(
        cut % part.cuts.length === 0 ? 1 : 0,
        part.cuts[cut % part.cuts.length] as number,
      );
      bodies.push(coder.encodeTokens(Uint32Array.from(ids.slice(at, at + size)), {}));
      at += size;
    }
  }
  return bodies;
}

describe('a reader of a kept reply', () => {
  it.each([
    ['that shares its tokens', () => sessionOf(['TOKEN_NATIVE', 'NONE'], ENCODING)],
    ['with another encoding', () => sessionOf(['TOKEN_NATIVE', 'NONE'], 'O200K_BASE')],
    ['without tokens', () => sessionOf(['NONE'], undefined)],
  ])('%s reads the same text from every part on', async (_what, create) => {
    await fc.assert(
      fc.asyncProperty(runs, async (parts) => {
        const log = logOf(bodiesOf(parts));
        const session = create();
        const all = await follow(log, 0, session);
        for (let after = 0; after <= all.length + 1; after++) {
          expect(await follow(log, after, session)).toEqual(all.slice(after));
        }
        const spoken = parts.map((part) => ('plain' in part ? part.plain : part.text)).join('');
        expect(all.join('')).toBe(spoken);
        expect(reserved).toBe(0);
      }),
      { numRuns: 150 },
    );
  });

  it('finds the beginning of a character beyond any number of empty parts', async () => {
    const ids = [...encodingOf().encode('🧿')];
    expect(ids).toHaveLength(3);
    const coder = coderOf(['TOKEN_NATIVE'], ENCODING);
    const tokens = (some: readonly number[]) => coder.encodeTokens(Uint32Array.from(some), {});
    const empty = Array.from({ length: 40 }, () => tokens([]));
    const log = logOf(ids.flatMap((id) => [tokens([id]), ...empty]));
    for (const session of [sessionOf(['TOKEN_NATIVE'], ENCODING), sessionOf(['NONE'], undefined)]) {
      for (const after of [0, 41, 60, 82]) expect((await follow(log, after, session)).join('')).toBe('🧿');
    }
  });

  it('holds what it has read as memory of its session, and is refused what is not there', async () => {
    const log = logOf(
      [1, 2, 3].map((fill) => ({
        codec: BodyCodec.PLAIN,
        bytes: new Uint8Array(5_000).fill(fill),
        originalLength: 5_000,
        secret: false,
        metadata: undefined,
      })),
    );
    const reader = new ReplyReader(HEAD, coders.for(ENCODING), sessionOf(['NONE'], undefined), true);
    const records = (await log.read(HEAD.id, 0))?.records ?? [];
    const parts = reader.all(records);
    parts.next();
    expect(reserved).toBeGreaterThan(15_000);
    parts.return(undefined);
    expect(reserved).toBe(0);
    room = 1_000;
    try {
      expect(() => reader.all(records).next()).toThrow(expect.objectContaining({ code: 'over_budget' }));
      // A part as it is written is not refused.
      expect(reader.all([Uint8Array.of(0, 65)]).next().value.bytes).toEqual(Uint8Array.of(65));
    } finally {
      room = Infinity;
    }
  });
});

it('there is a coder for each encoding, and one for none', () => {
  expect(coders.for(ENCODING)).toBe(coders.for(ENCODING));
  expect(coders.for(undefined)).not.toBe(coders.for(ENCODING));
  expect(Object.values(Algorithm).length).toBeGreaterThan(3);
});
