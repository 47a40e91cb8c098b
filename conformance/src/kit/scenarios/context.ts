import { crc32 } from 'node:zlib';
import { packed, textOf } from '../bodies.js';
import { type Coding, coded, u32 } from '../coding.js';
import { must, mustEqual } from '../deviation.js';
import { bodyFrames, Codec, Flag, frame, join, Kind, varint } from '../frames.js';
import type { Kit } from '../kit.js';
import type { Scenario } from '../scenario.js';
import { responseOf, type Session } from '../session.js';
import { toldBy } from '../told.js';
import { checkTally } from './messages.js';
import { checkParts } from './streams.js';

/** Bodies coded against earlier ones, in both directions. */

const SECTION = '§9 Context';
const A = 'The first message of this session, which others repeat.';
const B = 'The second message of this session, which others repeat as well.';

const sessionOf = (kit: Kit, bounds = { max_bytes: 4096, max_messages: 4 }) =>
  kit.session({ extensions: { context: JSON.stringify(bounds) } });

/** A request in context, and the echo of the peer, in any codec. */
async function echo(session: Session, text: string, coding: Coding = {}): Promise<void> {
  const { link } = session;
  const call = link.openStream();
  const bytes = coded(text, coding);
  await link.writeBody(Kind.REQUEST, call.id, {
    codec: Codec.CONTEXT,
    bytes,
    own: Buffer.byteLength(text),
    metadata: packed({ test: 'echo' }),
  });
  mustEqual(textOf(responseOf(await session.over(call))), text, 'the echo');
}

/** The first frame of a request in context. @returns what writes the other one and reads the echo. */
function begin(session: Session, text: string, coding: Coding): () => Promise<void> {
  const call = session.link.openStream();
  const [first, second] = bodyFrames(Kind.REQUEST, call.id, {
    codec: Codec.CONTEXT,
    bytes: coded(text, coding),
    metadata: packed({ test: 'echo' }),
    pieces: [4, 1000],
  });
  session.link.write(first as Uint8Array);
  return async () => {
    session.link.write(second as Uint8Array);
    mustEqual(textOf(responseOf(await session.over(call))), text, 'the echo');
  };
}

/** A body in context that the session must not survive. */
const ends = (name: string, title: string, bytes: (session: Session) => Uint8Array, flags = 0): Scenario => ({
  name: `context/${name}`,
  section: SECTION,
  title,
  async run(kit) {
    const session = await sessionOf(kit);
    await echo(session, A);
    const { id } = session.link.openStream();
    await session.violate(frame(Kind.REQUEST, id, Codec.CONTEXT | flags, bytes(session)), [4400], title);
  },
});

/** The text that the peer has read of a reply in context. */
async function replied(
  session: Session,
  frames: (id: number) => readonly Uint8Array[],
): Promise<readonly string[]> {
  const outer = await session.ask({ test: 'ask', size: 10 });
  const { id } = await session.asked('a request of the peer');
  session.link.write(...frames(id));
  session.link.answered(id);
  return (await toldBy(session, outer))[0].parts;
}

const part = (id: number, text: string, coding: Coding = {}): Uint8Array =>
  frame(Kind.CHUNK, id, Codec.CONTEXT, coded(text, { ...coding, isPart: true }));

export const CONTEXT: readonly Scenario[] = [
  {
    name: 'context/reads',
    section: SECTION,
    title: 'The peer reads bodies without a base, against the newest message, and against the one before it.',
    async run(kit) {
      const session = await sessionOf(kit);
      await echo(session, A);
      await echo(session, B);
      await echo(session, `${B} More.`, { base: 2, against: B });
      await echo(session, `${A} More.`, { base: 4, against: A });
      await echo(session, '');
    },
  },
  {
    name: 'context/replaces',
    section: SECTION,
    title: 'A body that takes its base’s place removes the base.',
    async run(kit) {
      const session = await sessionOf(kit, { max_bytes: 4096, max_messages: 8 });
      await echo(session, A);
      await echo(session, B);
      await echo(session, `${B} More.`, { base: 2, against: B, replaces: true });
      await echo(session, `${A} After that.`, { base: 3, against: A });
    },
  },
  {
    name: 'context/compressed',
    section: SECTION,
    title: 'The peer reads a middle in zstd, with the base as its dictionary or without one.',
    async run(kit) {
      const session = await sessionOf(kit);
      const long = 'Something long that repeats. '.repeat(30);
      await echo(session, long, { compressed: true });
      await echo(session, `Another beginning. ${long}`, { base: 2, against: long, compressed: true });
    },
  },
  {
    name: 'context/room-by-number',
    section: SECTION,
    title: 'The oldest message leaves if there are more than max_messages.',
    async run(kit) {
      const session = await sessionOf(kit, { max_bytes: 4096, max_messages: 2 });
      for (const text of [A, B, 'third']) await echo(session, text);
      await echo(session, `${B}!`, { base: 3, against: B });
      const { id } = session.link.openStream();
      const bytes = frame(Kind.REQUEST, id, Codec.CONTEXT, coded('x', { base: 4 }));
      await session.violate(bytes, [4400], 'a base that has left');
    },
  },
  {
    name: 'context/room-by-bytes',
    section: SECTION,
    title:
      'The oldest messages leave if there are more than max_bytes; a message that is larger changes nothing.',
    async run(kit) {
      const session = await sessionOf(kit, { max_bytes: 200, max_messages: 4 });
      await echo(session, A);
      await echo(session, 'b'.repeat(201));
      await echo(session, `${A} Still there.`, { base: 2, against: A, replaces: true });
      await echo(session, 'c'.repeat(150));
      await echo(session, `${'c'.repeat(150)} again`, { base: 2, against: 'c'.repeat(150) });
    },
  },
  {
    name: 'context/keeps-what-it-states',
    section: SECTION,
    title:
      'An end keeps max_bytes of messages, and a last part of 4,096 bytes for each of many open streams.',
    async run(kit) {
      const session = await sessionOf(kit, { max_bytes: 20_000, max_messages: 8 });
      const [older, newer] = ['o'.repeat(12_000), 'n'.repeat(8_000)];
      await echo(session, older);
      await echo(session, newer);
      await echo(session, `${older}.`.slice(0, 6_000), { base: 3, against: older });
      const outer = await session.ask({ test: 'ask', requests: 8, size: 10 });
      const streams: { readonly id: number; readonly text: string }[] = [];
      while (streams.length < 8) {
        const { id } = await session.asked('eight requests of the peer');
        streams.push({ id, text: `${id} `.padEnd(4_096, '.') });
      }
      for (const { id, text } of streams) session.link.write(part(id, text));
      for (const { id, text } of streams) {
        const shorter = text.slice(0, 4_000);
        session.link.write(part(id, shorter, { base: 1, against: text }));
        session.link.write(frame(Kind.END, id, u32(crc32(text + shorter))));
        session.link.answered(id);
      }
      for (const { parts } of await toldBy(session, outer))
        mustEqual(
          parts.map((text) => text.length),
          [4_096, 4_000],
          'the lengths of the parts',
        );
    },
  },
  {
    name: 'context/base-in-use',
    section: SECTION,
    title: 'A base stays while a body needs it, and a message for which no room can be made changes nothing.',
    async run(kit) {
      const session = await sessionOf(kit, { max_bytes: 4096, max_messages: 1 });
      await echo(session, A);
      const text = `${A} In two frames.`;
      const finish = begin(session, text, { base: 2, against: A });
      await echo(session, B);
      await finish();
      await echo(session, `${text} At last.`, { base: 2, against: text });
    },
  },
  {
    name: 'context/replaces-a-base-in-use',
    section: SECTION,
    title: 'A body that takes its base’s place leaves the base where it is while another body needs it.',
    async run(kit) {
      const session = await sessionOf(kit, { max_bytes: 4096, max_messages: 8 });
      await echo(session, A);
      const finish = begin(session, `${A} In two frames.`, { base: 2, against: A });
      await echo(session, `${A} More.`, { base: 2, against: A, replaces: true });
      await echo(session, `${A} Still there.`, { base: 3, against: A });
      await finish();
    },
  },
  {
    name: 'context/others-change-nothing',
    section: SECTION,
    title: 'Bodies in another codec change nothing.',
    async run(kit) {
      const session = await sessionOf(kit);
      await echo(session, A);
      await session.answer({ test: 'echo' }, { bytes: B });
      await session.answer({ test: 'echo' }, { bytes: B, secret: true });
      await echo(session, `${A} More.`, { base: 2, against: A });
    },
  },
  {
    name: 'context/parts-of-the-kit',
    section: SECTION,
    title: 'The peer reads parts in context, against the last part of their stream.',
    async run(kit) {
      const session = await sessionOf(kit);
      const texts = ['{"delta":"Just"}', '{"delta":"and"}', '{"delta":"more"}'];
      const parts = await replied(session, (id) => [
        part(id, texts[0] as string),
        part(id, texts[1] as string, { base: 1, against: texts[0] as string }),
        ...bodyFrames(Kind.CHUNK, id, { bytes: 'in between' }),
        part(id, texts[2] as string, { base: 1, against: texts[1] as string }),
        frame(Kind.END, id, u32(crc32(texts.join('')))),
      ]);
      mustEqual(parts, [texts[0], texts[1], 'in between', texts[2]], 'the parts that the peer has read');
    },
  },
  {
    name: 'context/large-parts-enter-the-list',
    section: SECTION,
    title: 'A part above 4,096 bytes enters the list and leaves the last part as it is.',
    async run(kit) {
      const session = await sessionOf(kit, { max_bytes: 20_000, max_messages: 4 });
      const long = 'p'.repeat(4097);
      const texts = ['the last part', long, 'the last part again'];
      const parts = await replied(session, (id) => [
        part(id, texts[0] as string),
        part(id, long),
        part(id, texts[2] as string, { base: 1, against: texts[0] as string }),
        frame(Kind.END, id, u32(crc32(texts.join('')))),
      ]);
      mustEqual(
        parts.map((text) => text.length),
        texts.map((text) => text.length),
        'the lengths of the parts',
      );
      await echo(session, `${long} and more`, { base: 2, against: long });
    },
  },
  {
    name: 'context/parts-of-the-peer',
    section: SECTION,
    title: 'Parts of the peer are what they have to be, and END has their CRC-32.',
    async run(kit) {
      const session = await sessionOf(kit, { max_bytes: 100_000, max_messages: 8 });
      for (const size of [60, 500, 5000]) {
        const call = await session.over(await session.ask({ test: 'stream', parts: 12, size }));
        checkParts(call.parts, 12, size);
      }
    },
  },
  {
    name: 'context/messages-of-the-peer',
    section: SECTION,
    title: 'Messages of the peer in context are what they have to be.',
    async run(kit) {
      const session = await sessionOf(kit, { max_bytes: 3000, max_messages: 3 });
      const texts = [A, `${A} ${B}`, A.repeat(30), B.repeat(30), `${A.repeat(30)} More.`, A];
      for (const text of texts) await session.answer({ test: 'say', messages: 2, text, codec: 'CONTEXT' });
      const { messages } = session.link;
      await session.until(() => messages.length >= 12 || undefined, 'twelve messages');
      mustEqual(
        messages.map(textOf),
        texts.flatMap((text) => [text, text]),
        'the messages',
      );
    },
  },
  {
    name: 'context/cancelled',
    section: SECTION,
    title: 'After a cancel both ends still keep the same messages.',
    async run(kit) {
      const session = await sessionOf(kit, { max_bytes: 100_000, max_messages: 8 });
      const call = await session.ask({ test: 'stream', parts: 2000, size: 5000 });
      await session.until(() => call.parts.length >= 3 || undefined, 'three parts');
      session.link.write(frame(Kind.CANCEL, call.id));
      await session.over(call, 'end or error after a cancel');
      const next = await session.over(await session.ask({ test: 'stream', parts: 6, size: 5000 }));
      checkParts(next.parts, 6, 5000);
    },
  },
  {
    name: 'context/over-cuts',
    section: SECTION,
    title: 'Both ends keep the same messages over lost connections.',
    async run(kit) {
      const session = await sessionOf(kit);
      await echo(session, A);
      session.cut();
      await echo(session, `${A} More.`, { base: 2, against: A, replaces: true });
      session.cut();
      await link(session, B);
      session.cut();
      await echo(session, `${B} More.`, { base: 2, against: B });
      await checkTally(session, [B]);
    },
  },
  ends('no-base', 'A base that is not there ends the session with 4400.', () => coded('x', { base: 3 })),
  ends('no-last-part', 'The last part of a stream that has none ends the session with 4400.', () =>
    coded('x', { base: 1 }),
  ),
  ends('replaces-nothing', 'A body that replaces base 0 ends the session with 4400.', () =>
    coded('x', { replaces: true }),
  ),
  ends('wrong-crc', 'A CRC that does not fit ends the session with 4400.', () => coded(A, { crc: 1 })),
  ends('too-much-of-the-base', 'More bytes than the base has end the session with 4400.', () =>
    join(2 * 4, varint(40), varint(40), u32(0), 'x'),
  ),
  ends('large-head', 'A first number above 512 ends the session with 4400.', () =>
    join(varint(600), 0, 0, u32(0)),
  ),
  ends('not-zstd', 'A compressed middle that is no zstd frame ends the session with 4400.', () =>
    join(1, u32(0), 'abcdef'),
  ),
  ends(
    'secret',
    'A body in context that is SECRET ends the session with 4400.',
    () => coded('x'),
    Flag.SECRET,
  ),
  {
    name: 'context/end-without-crc',
    section: SECTION,
    title: 'END without a CRC after parts in context ends the session with 4400.',
    async run(kit) {
      const session = await sessionOf(kit);
      await session.ask({ test: 'ask', size: 10 });
      const { id } = await session.asked('a request of the peer');
      await session.violate([part(id, A), frame(Kind.END, id)], [4400], 'END without a CRC');
    },
  },
  {
    name: 'context/end-with-wrong-crc',
    section: SECTION,
    title: 'END with a CRC that does not fit ends the session with 4400.',
    async run(kit) {
      const session = await sessionOf(kit);
      await session.ask({ test: 'ask', size: 10 });
      const { id } = await session.asked('a request of the peer');
      await session.violate([part(id, A), frame(Kind.END, id, u32(1))], [4400], 'END with a wrong CRC');
    },
  },
  {
    name: 'context/not-agreed',
    section: SECTION,
    title: 'A body in context without the extension ends the session with 4400.',
    async run(kit) {
      const session = await kit.session();
      await session.stillWorks('the handshake');
      must(session.agreement.context === undefined, 'context was agreed on');
      await session.violate(frame(Kind.MESSAGE, 0, Codec.CONTEXT, coded('x')), [4400], 'a body in context');
    },
  },
];

/** A one-way message in context. */
const link = (session: Session, text: string): Promise<void> =>
  session.link.writeBody(Kind.MESSAGE, 0, {
    codec: Codec.CONTEXT,
    bytes: coded(text),
    own: Buffer.byteLength(text),
  });
