import { setTimeout as pause } from 'node:timers/promises';
import { type Body, packed, textOf } from '../bodies.js';
import { must, mustEqual } from '../deviation.js';
import { bodyFrames, Codec, frame, Kind } from '../frames.js';
import type { Scenario } from '../scenario.js';
import type { Session } from '../session.js';
import { toldBy } from '../told.js';

/** Requests and their replies, in both directions. */

const SECTION = '§4 The link: streams';

/** The text that a peer puts into part or message `index`. */
export const said = (what: string, index: number, size: number): string =>
  `${what} ${index} `.padEnd(size, '.');

/** @throws {Deviation} if the parts are not those of the wish `stream`. */
export function checkParts(parts: readonly Body[], number: number, size: number): void {
  const expected = Array.from({ length: number }, (_, index) => said('part', index + 1, size));
  mustEqual(parts.map(textOf), expected, 'the parts');
}

/** A frame that the session must not survive. */
const ends = (
  name: string,
  title: string,
  bytes: (session: Session) => Uint8Array | readonly Uint8Array[],
): Scenario => ({
  name: `streams/${name}`,
  section: SECTION,
  title,
  async run(kit) {
    const session = await kit.session();
    await session.stillWorks('the handshake');
    const made = bytes(session);
    await session.violate(made, [4400], title);
  },
});

/** A stream of the kit that is not open yet, and one of the peer that never was. */
const ownNext = (session: Session) => session.link.openStream().id;
const foreign = (session: Session) => (session.link.openStream().id % 2 === 1 ? 2 : 1);

export const STREAMS: readonly Scenario[] = [
  {
    name: 'streams/response',
    section: SECTION,
    title: 'A request is answered by one response.',
    async run(kit) {
      const session = await kit.session();
      for (const text of ['hi', '', 'Grüße 👋', 'x'.repeat(5000)])
        mustEqual(textOf(await session.answer({ test: 'echo' }, { bytes: text })), text, 'the echo');
    },
  },
  {
    name: 'streams/parts',
    section: SECTION,
    title: 'A request is answered by parts in order, and an end.',
    async run(kit) {
      const session = await kit.session();
      const call = await session.over(await session.ask({ test: 'stream', parts: 50, size: 20 }));
      must(call.end !== undefined, `the stream ended with ${JSON.stringify(call.error ?? 'a response')}`);
      checkParts(call.parts, 50, 20);
    },
  },
  {
    name: 'streams/error',
    section: SECTION,
    title: 'A request is answered by an error, a map with code, message and what its sender adds.',
    async run(kit) {
      const session = await kit.session();
      const call = await session.over(
        await session.ask({ test: 'fail', code: 'no_such_thing', message: 'not here', retryable: true }),
      );
      mustEqual(call.error?.['code'], 'no_such_thing', 'the code');
      mustEqual(call.error?.['message'], 'not here', 'the message');
      mustEqual(call.error?.['retryable'], true, 'retryable');
      await session.stillWorks('an error');
    },
  },
  {
    name: 'streams/interleaved',
    section: SECTION,
    title: 'Many streams are open at a time, and each keeps its order.',
    async run(kit) {
      const session = await kit.session();
      const calls = [];
      for (let index = 1; index <= 10; index++)
        calls.push(await session.ask({ test: 'stream', parts: 5 + index, size: 30 }));
      for (const [index, call] of calls.entries()) {
        await session.over(call);
        checkParts(call.parts, 6 + index, 30);
      }
    },
  },
  {
    name: 'streams/ids-of-the-peer',
    section: SECTION,
    title: 'The peer opens streams of its own parity, each larger than the one before.',
    async run(kit) {
      const session = await kit.session();
      const outer = await session.ask({ test: 'ask', requests: 3, size: 10 });
      for (let index = 1; index <= 3; index++) {
        const { id, body } = await session.asked('three requests of the peer');
        mustEqual(textOf(body), said('question', 1, 10), 'the request of the peer');
        mustEqual(body.metadata, { test: 'answer' }, 'its metadata');
        session.respond(id, { bytes: `answer ${index}` });
      }
      const told = await toldBy(session, outer);
      mustEqual(
        told.flatMap(({ parts }) => parts).sort(),
        ['answer 1', 'answer 2', 'answer 3'],
        'the answers',
      );
    },
  },
  {
    name: 'streams/parts-to-the-peer',
    section: SECTION,
    title: 'The peer reads parts and an end, and an error behind parts.',
    async run(kit) {
      const session = await kit.session();
      for (const code of [undefined, 'broken_off']) {
        const outer = await session.ask({ test: 'ask', size: 10 });
        const { id } = await session.asked('a request of the peer');
        for (const text of ['a', 'b', 'c'])
          session.link.write(...bodyFrames(Kind.CHUNK, id, { bytes: text }));
        if (code === undefined) session.end(id);
        else session.link.write(frame(Kind.ERROR, id, packed({ code, message: 'a test' })));
        const [told] = await toldBy(session, outer);
        mustEqual(told.parts, ['a', 'b', 'c'], 'the parts that the peer has read');
        mustEqual(told.error?.['code'], code, 'the error that the peer has read');
      }
    },
  },
  {
    name: 'streams/response-after-parts',
    section: SECTION,
    title: 'A response after parts fails the request at its requester, and nothing else.',
    async run(kit) {
      const session = await kit.session();
      const outer = await session.ask({ test: 'ask', size: 10 });
      const { id } = await session.asked('a request of the peer');
      session.link.write(...bodyFrames(Kind.CHUNK, id, { bytes: 'a' }));
      session.respond(id, { bytes: 'b' });
      const [told] = await toldBy(session, outer);
      must(told.error !== undefined, 'a response after parts has not failed the request');
      await session.stillWorks('a response after parts');
    },
  },
  {
    name: 'streams/end-inside-a-body',
    section: SECTION,
    title: 'An end inside a part ends the session with 4400.',
    async run(kit) {
      const session = await kit.session();
      await session.ask({ test: 'ask', size: 10 });
      const { id } = await session.asked('a request of the peer');
      const [first] = bodyFrames(Kind.CHUNK, id, { bytes: 'ab', pieces: [1] });
      await session.violate([first as Uint8Array, frame(Kind.END, id)], [4400], 'an end inside a body');
    },
  },
  {
    name: 'streams/most-of-the-peer',
    section: SECTION,
    title: 'The peer has no more streams open than the kit allows, and opens the others when it may.',
    async run(kit) {
      const session = await kit.session({ link: { max_streams: 3 } });
      const outer = await session.ask({ test: 'ask', requests: 8, size: 10 });
      let answered = 0;
      for (; answered < 8; answered++) {
        const asked = await session.until(
          () => session.link.asked.shift() ?? outer.response ?? outer.error,
          'a request of the peer',
        );
        if (!('id' in asked)) break;
        await pause(20);
        session.respond(Number(asked.id), { bytes: 'answer' });
      }
      // An end may refuse what goes beyond the limit, or keep it until a stream is free.
      must(answered >= 3, `only ${answered} requests although three may be open`);
      await session.over(outer);
      await session.stillWorks('the limit of streams');
    },
  },
  {
    name: 'streams/late-frames',
    section: SECTION,
    title: 'A frame that comes after its stream is over is dropped.',
    async run(kit) {
      const session = await kit.session();
      const call = await session.over(await session.ask({ test: 'echo' }, { bytes: 'a' }));
      session.link.write(frame(Kind.CANCEL, call.id));
      await session.stillWorks('a late cancel');
    },
  },
  {
    name: 'streams/metadata',
    section: SECTION,
    title: 'Metadata travel with a request and with its reply.',
    async run(kit) {
      const session = await kit.session();
      const reply = { name: 'value', list: [1, 'two', null, true], map: { nested: 0.5 } };
      const body = await session.answer({ test: 'echo', reply }, { bytes: 'content' });
      mustEqual(textOf(body), 'content', 'the echo');
      mustEqual(body.metadata, reply, 'the metadata of the reply');
    },
  },
  {
    name: 'streams/undecodable-metadata',
    section: '§14 Errors of decoding',
    title: 'Metadata that are not a map are answered with bad_message; the session continues.',
    async run(kit) {
      const session = await kit.session();
      const call = session.link.openStream();
      session.link.write(...bodyFrames(Kind.REQUEST, call.id, { bytes: 'x', metadata: packed([1]) }));
      mustEqual((await session.over(call)).error?.['code'], 'bad_message', 'the code of the error');
      await session.stillWorks('metadata that cannot be read');
    },
  },
  {
    name: 'streams/too-many',
    section: SECTION,
    title: 'One stream more than max_streams ends the session with 4400.',
    async run(kit) {
      const session = await kit.session();
      const most = session.streamsToFill();
      const hang = packed({ test: 'hang' });
      for (let index = 0; index < most; index++) await session.ask({ test: 'hang' });
      await session.violate(
        bodyFrames(Kind.REQUEST, ownNext(session), { bytes: '', metadata: hang }),
        [4400],
        'one stream too many',
      );
    },
  },
  ends(
    'never-opened',
    'A response on a stream that was never opened ends the session with 4400.',
    (session) => bodyFrames(Kind.RESPONSE, foreign(session) + 100, { bytes: 'x' }),
  ),
  ends('wrong-parity', 'A request on a stream of the other end ends the session with 4400.', (session) =>
    bodyFrames(Kind.REQUEST, foreign(session) + 100, { bytes: 'x' }),
  ),
  ends('descending', 'A request on a stream below the last one ends the session with 4400.', (session) => {
    const [low, high] = [ownNext(session), ownNext(session)];
    return [
      ...bodyFrames(Kind.REQUEST, high, { bytes: '', metadata: packed({ test: 'hang' }) }),
      ...bodyFrames(Kind.REQUEST, low, { bytes: '', metadata: packed({ test: 'hang' }) }),
    ];
  }),
  ends(
    'stream-of-messages',
    'A one-way message on another stream than 0 ends the session with 4400.',
    (session) => bodyFrames(Kind.MESSAGE, ownNext(session), { bytes: 'x' }),
  ),
  ends('unknown-kind', 'An unknown kind of link frame ends the session with 4400.', () =>
    Uint8Array.of(0x1f, 1),
  ),
  ends('unknown-codec', 'An unknown codec ends the session with 4400.', () =>
    Uint8Array.of(0x10, 0, 0x0f, 1),
  ),
  ends('long-varint', 'A varint that is not in its shortest form ends the session with 4400.', () =>
    Uint8Array.of(0x10, 0x80, 0x00, 0, 1),
  ),
  ends('cut-frame', 'A link frame without its codec byte ends the session with 4400.', () =>
    Uint8Array.of(0x10, 0),
  ),
  ends('address', 'ADDRESSED without the extension agents ends the session with 4400.', () =>
    Uint8Array.of(0x10, 0, 0x40 | Codec.NONE, 0, 1),
  ),
  {
    name: 'streams/late-frames-count',
    section: SECTION,
    title: 'A late frame is counted: it is acknowledged, and the session can be resumed behind it.',
    async run(kit) {
      const session = await kit.session();
      const { link } = session;
      const call = await session.over(await session.ask({ test: 'echo' }, { bytes: 'a' }));
      link.write(frame(Kind.CANCEL, call.id));
      const outer = await session.ask({ test: 'ask', size: 10 });
      const { id } = await session.asked('a request of the peer');
      session.respond(id, { bytes: 'answer' });
      await session.over(outer);
      link.write(...bodyFrames(Kind.CHUNK, id, { bytes: 'late' }));
      await session.until(
        () => link.confirmed === link.written.length || undefined,
        'the acknowledgement of frames that were late',
      );
      session.cut();
      await session.stillWorks('a lost connection after late frames');
    },
  },
];
