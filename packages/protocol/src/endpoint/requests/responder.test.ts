import { describe, expect, it } from 'vitest';
import { ProtocolError, RequestError } from '../../base/errors.js';
import { resolveLimits } from '../../base/limits.js';
import { encodeUtf8 } from '../../base/text.js';
import { createBodyCoder } from '../../codec/auto/coder.js';
import { BodyCodec, type CodedBody, plainBody } from '../../codec/body.js';
import { encodeMap } from '../../control/maps.js';
import { type Clock, systemClock } from '../../platform/clock.js';
import { encodeHttpRequest, encodeHttpResponse } from '../http/head.js';
import { type Message, ReceivedMessage } from '../messages/message.js';
import { decodeMetadata, encodeMetadata } from '../messages/metadata.js';
import { SILENT_LOGGER } from '../ports.js';
import type { Session } from '../session.js';
import { isTickOver } from '../tick.js';
import { Cancellation } from './cancellation.js';
import type { KeptRequest } from './keeping.js';
import type { ReplySink } from './output.js';
import { answer, type RequestHandler, Responder } from './responder.js';

const coder = createBodyCoder({
  algorithms: ['NONE'],
  encoding: undefined,
  limits: resolveLimits(),
  security: undefined,
  yield: () => Promise.resolve(),
});

const OPTIONS = {
  session: { id: 'sess' } as Session,
  coder,
  logger: SILENT_LOGGER,
  maxMetadataSize: 100,
  clock: systemClock,
  read: async (blob: Pick<Blob, 'arrayBuffer'>) => new Uint8Array(await blob.arrayBuffer()),
  batch: undefined,
};

/** Returns everything that `handler` sends to the requester for a request with `metadata`. */
async function replyOf(
  handler: RequestHandler | undefined,
  {
    metadata,
    isWanted = () => true,
    body: bytes = encodeUtf8('ask'),
    request,
    rest = () => undefined,
    yielded,
  }: {
    metadata?: Uint8Array;
    isWanted?: () => boolean;
    body?: Uint8Array;
    request?: ReceivedMessage;
    rest?: (size: number) => Promise<void> | undefined;
    /** Of a process before. */
    yielded?: readonly CodedBody[];
  } = {},
) {
  const sent: unknown[] = [];
  const described = ({ bytes, metadata: extra }: CodedBody) => [
    Buffer.from(bytes).toString(),
    ...(extra === undefined ? [] : [decodeMetadata(extra, 32)]),
  ];
  const sink: ReplySink = {
    respond: (body) => sent.push('response', ...described(body)),
    chunk: (body) => sent.push('part', ...described(body)),
    end: () => sent.push('end'),
    fail: (error) => sent.push('failure', error),
    refuse: (error) => sent.push('refusal', error),
    isWanted,
    runToCompletion: () => sent.push('runs to completion'),
    ready: () => Promise.resolve(),
    hasRoom: () => true,
    keep: () => {
      throw new ProtocolError('unsupported', 'only a server keeps replies');
    },
    takeUp: async () => ({ state: 'unbegun' }),
  };
  const body = { ...plainBody(bytes), originalLength: undefined, charge: 0, metadata };
  const message = request ?? new ReceivedMessage(body, coder);
  await answer(message, handler, new Cancellation(), sink, { ...OPTIONS, rest }, { yielded });
  return sent;
}

it('sends a value that a handler returns at once, and waits for a promise of any kind', async () => {
  const sent: string[] = [];
  const sink = {
    respond: ({ bytes }: CodedBody) => void sent.push(Buffer.from(bytes).toString()),
  } as unknown as ReplySink;
  const message = new ReceivedMessage({ ...plainBody(encodeUtf8('ask')), charge: 0 }, coder);
  const begin = (handler: RequestHandler) =>
    answer(message, handler, new Cancellation(), sink, { ...OPTIONS, rest: () => undefined });
  const atOnce = begin(() => 'value');
  expect(sent).toEqual(['value']);
  // biome-ignore lint/suspicious/noThenProperty: a promise of another kind.
  const thenable = Object.assign(() => {}, { then: (resolve: (reply: string) => void) => resolve('late') });
  const late = begin(() => thenable as unknown as Promise<string>);
  expect(sent).toEqual(['value']);
  await Promise.all([atOnce, late]);
  expect(sent).toEqual(['value', 'late']);
});

it('sends what one part returns behind the parts of a process before as another part', async () => {
  expect(await replyOf(() => 'whole', { yielded: [] })).toEqual(['response', 'whole']);
  const handler: RequestHandler = async (_request, { yielded, setMetadata }) => {
    setMetadata({ n: 1 });
    return `${yielded.length} more`;
  };
  // A RESPONSE after parts is a fault of the protocol.
  const sent = await replyOf(handler, { yielded: [plainBody(encodeUtf8('first'))] });
  expect(sent).toEqual(['part', '', { n: 1 }, 'part', '1 more', 'end']);
  expect(await replyOf(() => undefined, { yielded: [plainBody(encodeUtf8('a'))] })).toEqual([
    'part',
    '',
    'end',
  ]);
});

it('calls no handler again if its request is over by the time the keeper answers', async () => {
  const over = new ProtocolError('interrupted', 'another node continues the session');
  const failed: unknown[] = [];
  const channel = {
    ...{ consume: () => false, isWanted: () => false, runToCompletion() {} },
    fail: (_streamId: number, error: unknown) => failed.push(error),
  };
  const responder: Responder = new Responder({
    ...{
      ...OPTIONS,
      rest: () => undefined,
      core: { channel } as never,
      transmit() {},
      ready: async () => {},
    },
    ...{ hasRoom: () => true, onAnswered() {}, repeat() {}, markKept: () => undefined },
    keeper: {
      keep: () => undefined,
      takeUp: async () => {
        responder.cancel(3, over);
        return { state: 'unkept' };
      },
    },
  });
  const message = new ReceivedMessage({ ...plainBody(encodeUtf8('ask')), charge: 0 }, coder);
  let calls = 0;
  await responder.run(3, message, () => `${++calls}`, { attempt: 2, kept: 'reply_a', yielded: [] });
  expect([calls, failed]).toEqual([0, [over]]);
});

it('knows of a handler that is called again before that says so once more', async () => {
  const isRepeated: boolean[] = [];
  const note = ({ isRepeated: is }: KeptRequest) => void isRepeated.push(is());
  const channel = { consume: () => false, respond() {}, isWanted: () => true, runToCompletion() {} };
  const responder = new Responder({
    ...{
      ...OPTIONS,
      rest: () => undefined,
      core: { channel } as never,
      transmit() {},
      ready: async () => {},
    },
    ...{ hasRoom: () => true, onAnswered() {}, repeat() {}, markKept: () => undefined },
    keeper: {
      keep: (request) => note(request) as undefined,
      takeUp: async (request) => {
        note(request);
        return { state: 'unkept' };
      },
    },
  });
  const message = new ReceivedMessage({ ...plainBody(encodeUtf8('ask')), charge: 0 }, coder);
  const keeps: RequestHandler = (_request, { keep }) => void keep({});
  await responder.run(1, message, keeps);
  await responder.run(3, message, keeps, { attempt: 2, kept: 'reply_a', yielded: [] });
  expect(isRepeated).toEqual([false, true]);
});

it('joins parts while the handler asks for it, and keeps their order with other parts', async () => {
  const sent = await replyOf(async function* (_request, { setBatch }) {
    yield 'a';
    setBatch({ ms: 10_000, bytes: 4 });
    yield 'b';
    yield { text: 'c' };
    yield { json: 1 };
    yield 'de';
    yield 'fg';
    yield 'h';
    setBatch(undefined);
    yield 'i';
    setBatch({ ms: 10_000 });
    yield 'j';
    yield 'k';
  });
  expect(sent.filter((item) => item !== 'part')).toEqual(['a', 'bc', '1', 'defg', 'h', 'i', 'jk', 'end']);
});

it('joins nothing of a handler that is called again, which counts what it has yielded', async () => {
  const sent = await replyOf(async function* (_request, { setBatch, ifProcessDies }) {
    setBatch({ ms: 10_000 });
    yield 'a';
    yield 'b';
    ifProcessDies('again');
    yield 'c';
    yield 'd';
  });
  expect(sent.filter((item) => item !== 'part')).toEqual(['ab', 'c', 'd', 'end']);
});

describe('parts of a reply to a request by fetch', () => {
  const asked = {
    metadata: encodeMetadata(encodeHttpRequest({ path: '/', headers: new Map() }), 100) as Uint8Array,
  };
  const answerAs = (type: string | undefined): RequestHandler =>
    async function* (_request, { setBatch, setMetadata }) {
      setBatch({ ms: 10_000 });
      if (type !== undefined) {
        setMetadata(encodeHttpResponse({ status: 200, headers: new Map([['content-type', type]]) }));
      }
      yield 'a';
      yield 'b';
    };
  const partsOf = async (handler: RequestHandler) =>
    (await replyOf(handler, asked)).filter((item) => item === 'a' || item === 'b' || item === 'ab');

  it('are never joined if they are events, or if a former call has said what they are', async () => {
    expect(await partsOf(answerAs('text/event-stream; charset=utf-8'))).toEqual(['a', 'b']);
    expect(await partsOf(answerAs('Text/Event-Stream'))).toEqual(['a', 'b']);
    expect(await partsOf(answerAs(undefined))).toEqual(['a', 'b']);
  });

  it('are joined if they are a body of another kind', async () => {
    expect(await partsOf(answerAs('text/plain'))).toEqual(['ab']);
    expect(await partsOf(answerAs('application/json'))).toEqual(['ab']);
  });
});

it('drops a pending batch when the handler fails', async () => {
  const sent = await replyOf(async function* (_request, { setBatch }) {
    setBatch({ ms: 10_000 });
    yield 'lost';
    throw new RequestError('no_more', 'stop');
  });
  expect(sent).toMatchObject(['failure', { code: 'no_more' }]);
});

it('fails if a batch that its timer sent cannot be coded', async () => {
  const sent = await replyOf(async function* (_request, { setBatch }) {
    setBatch({ ms: 0 });
    yield { tokens: [1] };
    await new Promise((resolve) => setTimeout(resolve, 20));
    yield 'after';
  });
  expect(sent).toMatchObject(['failure', { code: 'unsupported' }]);
});

describe('a handler that', () => {
  it.each<[string, RequestHandler, unknown[]]>([
    ['returns a part answers with it', () => 'one', ['response', 'one']],
    ['returns it later answers with it', async () => ({ json: [1] }), ['response', '[1]']],
    ['returns nothing answers with an empty part', () => undefined, ['response', '']],
    [
      'yields parts ends after them',
      async function* () {
        yield 'a';
        yield { text: 'b' };
      },
      ['part', 'a', 'part', 'b', 'end'],
    ],
    [
      'sets metadata sends it with the part that it returns',
      (_request, context) => {
        context.setMetadata({ status: 200 });
        return 'one';
      },
      ['response', 'one', { status: 200 }],
    ],
    [
      'sets metadata sends it once, before the next part',
      async function* (_request, context) {
        context.setMetadata({ status: 1 });
        context.setMetadata({ status: 2 });
        yield 'a';
        yield 'b';
        context.setMetadata({ status: 3 });
      },
      ['part', '', { status: 2 }, 'part', 'a', 'part', 'b', 'part', '', { status: 3 }, 'end'],
    ],
  ])('%s', async (_name, handler, sent) => {
    expect(await replyOf(handler)).toEqual(sent);
  });

  it('throws at once, later or between parts fails the request with what it threw', async () => {
    const error = new RequestError('mine', 'why');
    const fail = () => {
      throw error;
    };
    expect(await replyOf(fail)).toEqual(['failure', error]);
    expect(await replyOf(async () => fail())).toEqual(['failure', error]);
    const between = async function* () {
      yield 'a';
      fail();
    };
    expect(await replyOf(between)).toEqual(['part', 'a', 'failure', error]);
  });

  it('is not asked for another part once the reply is not wanted', async () => {
    let returned = false;
    const endless = async function* () {
      try {
        for (;;) yield 'a';
      } finally {
        returned = true;
      }
    };
    let wanted = 2;
    expect(await replyOf(endless, { isWanted: () => wanted-- > 0 })).toEqual([
      'part',
      'a',
      'part',
      'a',
      'end',
    ]);
    expect(returned).toBe(true);
  });

  it('runs to completion continues although its parts are not wanted', async () => {
    const finished: string[] = [];
    const work: RequestHandler = async function* (_request, context) {
      context.runToCompletion();
      for (const part of ['a', 'b', 'c']) {
        yield part;
        finished.push(part);
      }
    };
    let wanted = 1;
    const sent = await replyOf(work, { isWanted: () => wanted-- > 0 });
    expect(sent).toEqual(['runs to completion', 'part', 'a', 'end']);
    expect(finished).toEqual(['a', 'b', 'c']);
  });

  it('sets metadata over the limit fails the request', async () => {
    const tooMuch: RequestHandler = (_request, context) => {
      context.setMetadata({ a: 'x'.repeat(100) });
      return 'one';
    };
    expect(await replyOf(tooMuch)).toEqual([
      'failure',
      expect.objectContaining({ code: 'metadata_too_large' }),
    ]);
  });

  it('reads the metadata of the requester', async () => {
    const metadata = encodeMap({ traceparent: '00-1' });
    const echo: RequestHandler = (request, context) => ({ json: [context.metadata, request.text] });
    expect(await replyOf(echo, { metadata })).toEqual(['response', '[{"traceparent":"00-1"},"ask"]']);
  });
});

it('refuses a request whose metadata cannot be read, without running its handler', async () => {
  let ran = false;
  const handler = () => {
    ran = true;
    return 'one';
  };
  const sent = await replyOf(handler, { metadata: Uint8Array.of(0xc1) });
  expect(sent).toEqual(['refusal', expect.objectContaining({ code: 'bad_message' })]);
  expect(ran).toBe(false);
});

describe('a request that cannot be decoded', () => {
  const undecodable = (codec: BodyCodec, bytes: Uint8Array) =>
    new ReceivedMessage(
      {
        codec,
        bytes,
        originalLength: undefined,
        secret: false,
        metadata: undefined,
        charge: 0,
      },
      coder,
    );

  it.each([
    ['its text', 'bad_utf8', (request: Message) => request.text],
    ['its JSON', 'bad_utf8', (request: Message) => request.json<string>()],
  ])('is refused if the handler reads %s', async (_name, code, ask) => {
    expect(await replyOf(ask, { body: Uint8Array.of(0xff) })).toEqual([
      'refusal',
      expect.objectContaining({ code }),
    ]);
  });

  it('is refused with the code of its error', async () => {
    const request = undecodable(BodyCodec.BROTLI, Uint8Array.of(1, 2, 3));
    expect(await replyOf(() => request.text, { request })).toEqual([
      'refusal',
      expect.objectContaining({ code: 'bad_compression' }),
    ]);
    expect(await replyOf((request) => request.json<string>())).toEqual([
      'refusal',
      expect.objectContaining({ code: 'bad_json' }),
    ]);
  });

  it('is refused in the middle of a reply as well', async () => {
    const sent = await replyOf(
      async function* (request) {
        yield 'part';
        yield request.text;
      },
      { body: Uint8Array.of(0xff) },
    );
    expect(sent).toEqual(['part', 'part', 'refusal', expect.objectContaining({ code: 'bad_utf8' })]);
  });

  it('does not excuse the handler if it fails to decode something else', async () => {
    const other = undecodable(BodyCodec.PLAIN, Uint8Array.of(0xff));
    const sent = await replyOf(() => other.text, { body: Uint8Array.of(0xff) });
    expect(sent).toEqual(['failure', expect.objectContaining({ code: 'bad_utf8' })]);
    const own = await replyOf(() => {
      throw new ProtocolError('bad_utf8', 'of a file');
    });
    expect(own).toEqual(['failure', expect.objectContaining({ code: 'bad_utf8' })]);
  });
});

describe('a reply whose parts are all ready', () => {
  /** A clock whose readings are a millisecond apart. */
  const slowClock = (): Clock => {
    let now = 0;
    return { ...systemClock, now: () => now++ };
  };

  it('lets the event loop tick after its time slice', async () => {
    const clock = slowClock();
    let ticks = 0;
    let isOver = false;
    const count = () => {
      ticks++;
      if (!isOver) setImmediate(count);
    };
    setImmediate(count);
    const sent = await replyOf(
      async function* () {
        for (let i = 0; i < 1_000; i++) yield 'x';
      },
      { rest: (size) => (isTickOver(clock, size) ? clock.yield() : undefined) },
    );
    isOver = true;
    // The clock is read once in 8 parts, and a tick takes five milliseconds.
    expect(ticks).toBeGreaterThan(10);
    expect(sent.filter((each) => each === 'part')).toHaveLength(1_000);
  });

  it('counts its bytes as well as its parts', () => {
    const readings = (size: number) => {
      let count = 0;
      const clock: Clock = { ...systemClock, now: () => count++, yield: () => new Promise(() => {}) };
      for (let i = 0; i < 70; i++) isTickOver(clock, size);
      return count;
    };
    expect(readings(0)).toBe(8);
    expect(readings(7 * 8 * 1024)).toBe(70);
    expect(readings(7 * 8 * 1024 - 1)).toBeLessThan(70);
  });

  it('begins to count again in each tick', async () => {
    const clock = slowClock();
    const over: boolean[] = [];
    for (let i = 0; i < 20; i++) {
      for (let part = 0; part < 8; part++) over.push(isTickOver(clock, 0));
      await clock.yield();
    }
    expect(over).not.toContain(true);
  });
});

it('answers `unsupported` without a handler', async () => {
  expect(await replyOf(undefined)).toEqual(['failure', expect.objectContaining({ code: 'unsupported' })]);
});

it('gives a handler a context that can be taken apart and copied', async () => {
  const seen: unknown[] = [];
  const sent = await replyOf(async (_request, context) => {
    const { signal, setMetadata, runToCompletion } = context;
    const copy = { ...context, attempt: 7 };
    seen.push(signal.aborted, copy.signal === signal, copy.attempt, Object.keys(copy).includes('session'));
    setMetadata({ a: 1 });
    runToCompletion();
    return 'ok';
  });
  expect(seen).toEqual([false, true, 7, true]);
  expect(sent).toEqual(['runs to completion', 'response', 'ok', { a: 1 }]);
});
