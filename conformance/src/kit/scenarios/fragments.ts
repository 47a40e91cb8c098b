import { packed, textOf } from '../bodies.js';
import { must, mustEqual } from '../deviation.js';
import { bodyFrames, Codec, Flag, frame, Kind, varint } from '../frames.js';
import type { Scenario } from '../scenario.js';
import type { Session } from '../session.js';
import { checkTally } from './messages.js';

/** Bodies in several frames. */

const SECTION = '§4 The link: frames';
const META = packed({ test: 'echo' });

/** The first of two frames of a request, whose body has ten bytes. */
const first = (stream: number, flags = 0, codec = 0): Uint8Array =>
  frame(
    Kind.REQUEST,
    stream,
    Flag.MORE | Flag.META | flags | codec,
    varint(10),
    varint(META.length),
    META,
    'abcde',
  );

const ends = (
  name: string,
  title: string,
  codes: readonly number[],
  bytes: (stream: number) => readonly Uint8Array[],
): Scenario => ({
  name: `fragments/${name}`,
  section: SECTION,
  title,
  async run(kit) {
    const session = await kit.session();
    await session.stillWorks('the handshake');
    await session.violate(bytes(session.link.openStream().id), codes, title);
  },
});

/** A request in pieces, and one-way messages and other requests in between. */
async function interleaved(session: Session): Promise<void> {
  const text = Array.from({ length: 300 }, (_, index) => String.fromCharCode(97 + (index % 26))).join('');
  const calls = [session.link.openStream(), session.link.openStream()] as const;
  const [a, b] = calls.map(({ id }, index) =>
    bodyFrames(Kind.REQUEST, id, { bytes: text + index, metadata: META, pieces: [1, 7, 50] }),
  );
  const message = bodyFrames(Kind.MESSAGE, 0, { bytes: text, pieces: [100] });
  for (let index = 0; index < 10; index++)
    for (const frames of [a, b, message]) {
      const each = frames?.[index];
      if (each !== undefined) session.link.write(each);
    }
  for (const [index, call] of calls.entries()) {
    await session.over(call);
    mustEqual(call.response === undefined ? undefined : textOf(call.response), text + index, 'the echo');
  }
  await checkTally(session, [text]);
}

export const FRAGMENTS: readonly Scenario[] = [
  {
    name: 'fragments/large-reply',
    section: SECTION,
    title: 'A body above 64 KiB comes in frames of at most 64 KiB; the first states the total.',
    async run(kit) {
      const session = await kit.session({ link: { stream_window: 400_000 } });
      const text = 'x'.repeat(200_000);
      const body = await session.answer({ test: 'echo' }, { bytes: text });
      mustEqual(body.content.length, text.length, 'the length of the echo');
      must(textOf(body) === text, 'the echo is another text', body.content);
      must(body.frames >= 4, `200,000 bytes came in ${body.frames} frames`);
    },
  },
  {
    name: 'fragments/any-size',
    section: SECTION,
    title: 'A peer takes frames of any size, and those of several streams in turns.',
    run: async (kit) => interleaved(await kit.session()),
  },
  {
    name: 'fragments/first-without-bytes',
    section: SECTION,
    title: 'The first frame of a body may have no bytes of it.',
    async run(kit) {
      const session = await kit.session();
      const { id } = session.link.openStream();
      session.link.write(
        frame(Kind.REQUEST, id, Flag.MORE | Flag.META, varint(3), varint(META.length), META),
        frame(Kind.REQUEST, id, 0, 'abc'),
      );
      const call = await session.over(session.link.calls.get(id) as never);
      mustEqual(call.response === undefined ? undefined : textOf(call.response), 'abc', 'the echo');
    },
  },
  ends('too-few', 'Fewer bytes than the first frame states end the session with 4400.', [4400], (stream) => [
    first(stream),
    frame(Kind.REQUEST, stream, 0, 'fghi'),
  ]),
  ends('too-many', 'More bytes than the first frame states end the session with 4400.', [4400], (stream) => [
    first(stream),
    frame(Kind.REQUEST, stream, 0, 'fghijk'),
  ]),
  ends('another-codec', 'Another codec inside a body ends the session with 4400.', [4400], (stream) => [
    first(stream),
    frame(Kind.REQUEST, stream, Codec.TOKEN_NATIVE, 'fghij'),
  ]),
  ends('metadata-later', 'META on a later frame ends the session with 4400.', [4400], (stream) => [
    first(stream),
    frame(Kind.REQUEST, stream, Flag.META, varint(META.length), META, 'fghij'),
  ]),
  ends('nothing-more', 'A continuation without bytes ends the session with 4400.', [4400], (stream) => [
    first(stream),
    frame(Kind.REQUEST, stream, Flag.MORE),
  ]),
  ends(
    'another-kind',
    'Another body on a stream whose body is not complete ends the session with 4400.',
    [4400],
    (stream) => [first(stream), frame(Kind.MESSAGE, stream, 0, 'fghij')],
  ),
  ends('total-too-large', 'A total above the message limit ends the session with 4413.', [4413], (stream) => [
    frame(Kind.REQUEST, stream, Flag.MORE | Flag.META, varint(2 ** 31), varint(META.length), META, 'abcde'),
  ]),
  ends('metadata-too-large', 'More than 8 KiB of metadata end the session with 4413.', [4413], (stream) => [
    frame(Kind.REQUEST, stream, Flag.META, varint(9000), new Uint8Array(9000), 'abcde'),
  ]),
  {
    name: 'fragments/expanded-too-large',
    section: SECTION,
    title:
      'A body that states more content than the message limit ends the session with 4413 at its first frame.',
    async run(kit) {
      const session = await kit.session({ algorithms: ['BROTLI', 'NONE'] });
      await session.stillWorks('the handshake');
      const { id } = session.link.openStream();
      const head = [varint(10), varint(2 ** 31), varint(META.length), META];
      const bytes = frame(Kind.REQUEST, id, Flag.MORE | Flag.META | Codec.BROTLI, ...head, 'abcde');
      await session.violate(bytes, [4413], 'a body that expands beyond the message limit');
    },
  },
];
