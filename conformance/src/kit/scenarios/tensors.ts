import { setTimeout as pause } from 'node:timers/promises';
import { crc32 } from 'node:zlib';
import { compressZstd, type Fields, packed } from '../bodies.js';
import type { Call } from '../calls.js';
import { u32 } from '../coding.js';
import { must, mustEqual, NotApplicable } from '../deviation.js';
import { bodyFrames, Codec, frame, join, Kind, MAX_TENSOR_PIECE, varint } from '../frames.js';
import { jsonIn } from '../members.js';
import { parametersOf } from '../offers.js';
import type { Scenario } from '../scenario.js';
import { responseOf, type Session } from '../session.js';
import { A_WHILE } from '../waiting.js';

/** Tensors, in both directions. */

const SECTION = '§10 Tensors';
const HEADER = 12;

interface Parts {
  readonly magic?: string;
  readonly version?: number;
  readonly flags?: number;
  readonly shape?: readonly number[];
  /** In the metadata. */
  readonly checksum?: number;
  /** Behind the frame. */
  readonly trailer?: Uint8Array;
  readonly payload?: Uint8Array;
  /** Fields of the metadata behind the usual ones. */
  readonly more?: Uint8Array;
}

const floats = (number: number): Uint8Array =>
  new Uint8Array(Float32Array.from({ length: number }, (_, index) => index).buffer);

/** An AVP frame (annex C) of float32. */
function tensor(parts: Parts = {}): Uint8Array {
  const { magic = 'AV', version = 1, flags = 0, shape = [6], payload = floats(6) } = parts;
  const { checksum, trailer, more = [] } = parts;
  const sizes = join(...shape.map(varint));
  const metadata = join(
    0x4a,
    varint(sizes.length),
    sizes,
    more,
    checksum === undefined ? [] : [0x78, ...varint(checksum)],
  );
  return join(
    magic,
    version,
    flags,
    u32(metadata.length + payload.length),
    u32(metadata.length),
    metadata,
    payload,
    trailer ?? [],
  );
}

async function sent(session: Session, bytes: Uint8Array, pieces?: readonly number[]) {
  const call = session.link.openStream();
  await session.link.writeBody(Kind.REQUEST, call.id, { codec: Codec.AVP, bytes, ...(pieces && { pieces }) });
  return await session.over(call, 'the answer to a tensor');
}

/** The two frames of a tensor that a receiver may refuse at the first. */
const halves = ({ id }: Call) =>
  bodyFrames(Kind.REQUEST, id, {
    codec: Codec.AVP,
    bytes: tensor({ magic: 'AW' }),
    pieces: [30],
  }) as unknown as readonly [Uint8Array, Uint8Array];

const accepts = (
  name: string,
  title: string,
  bytes: () => Uint8Array,
  pieces?: readonly number[],
): Scenario => ({
  name: `tensors/${name}`,
  section: SECTION,
  title,
  async run(kit) {
    const session = await kit.session();
    const call = await sent(session, bytes(), pieces);
    must(call.error === undefined, `a sound tensor is refused with ${JSON.stringify(call.error)}`);
    mustEqual(responseOf(call).content.length, 0, 'the length of the response to a tensor');
  },
});

const refuses = (
  name: string,
  title: string,
  codes: readonly string[],
  bytes: () => Uint8Array,
): Scenario => ({
  name: `tensors/${name}`,
  section: SECTION,
  title: `${title} is refused with ${codes.join(' or ')}; the session continues.`,
  async run(kit) {
    const session = await kit.session();
    const call = await sent(session, bytes());
    must(call.error !== undefined, 'a wrong tensor is accepted');
    must(
      codes.includes(String(call.error['code'])),
      `the code is ${call.error['code']}, expected ${codes.join(' or ')}`,
    );
    await session.stillWorks('a tensor that was refused');
  },
});

const ends = (name: string, title: string, bytes: (session: Session) => readonly Uint8Array[]): Scenario => ({
  name: `tensors/${name}`,
  section: SECTION,
  title,
  async run(kit) {
    const session = await kit.session();
    await session.stillWorks('the handshake');
    await session.violate(bytes(session), [4400], title);
  },
});

/** @returns the elements of a tensor of the peer. @throws {Deviation} if its frame is not as annex C says. */
function payloadOf(bytes: Uint8Array): Uint8Array {
  must(bytes.length >= HEADER && bytes[0] === 0x41 && bytes[1] === 0x56, 'not an AVP frame', bytes);
  mustEqual(bytes[2], 1, 'the version of AVP', bytes);
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  const [length, metadata] = [view.getUint32(4, true), view.getUint32(8, true)];
  const rest = bytes.length - HEADER - length;
  must(rest === 0 || rest === 4, `${rest} bytes behind an AVP frame`, bytes);
  const payload = bytes.subarray(HEADER + metadata, HEADER + length);
  if (rest === 4)
    mustEqual(view.getUint32(HEADER + length, true), crc32(payload), 'the CRC behind a tensor', bytes);
  return payload;
}

export const TENSORS: readonly Scenario[] = [
  accepts('without-checksum', 'A tensor without a checksum is accepted with an empty response.', () =>
    tensor(),
  ),
  accepts('with-checksum', 'A tensor with a checksum in its metadata is accepted.', () =>
    tensor({ checksum: crc32(floats(6)) }),
  ),
  accepts('with-trailer', 'A tensor with its checksum behind the frame is accepted.', () =>
    tensor({ trailer: u32(crc32(floats(6))) }),
  ),
  accepts(
    'in-pieces',
    'A tensor is taken in pieces of any size.',
    () => tensor({ trailer: u32(crc32(floats(6))) }),
    [1, 5, 2],
  ),
  accepts('large', 'A tensor larger than the window is let through.', () => {
    const payload = floats(60_000);
    return tensor({ payload, shape: [100, 600], trailer: u32(crc32(payload)) });
  }),
  refuses('wrong-checksum', 'A tensor whose checksum does not fit', ['bad_checksum'], () =>
    tensor({ checksum: 1 }),
  ),
  refuses('wrong-trailer', 'A tensor whose checksum behind the frame does not fit', ['bad_checksum'], () =>
    tensor({ trailer: u32(1) }),
  ),
  refuses('two-checksums', 'A tensor with checksums in both places', ['trailing_bytes'], () =>
    tensor({ checksum: crc32(floats(6)), trailer: u32(crc32(floats(6))) }),
  ),
  refuses('other-size', 'A tensor whose shape does not fit its size', ['bad_tensor'], () =>
    tensor({ shape: [7] }),
  ),
  refuses('unknown-version', 'Another version of AVP', ['unknown_version'], () => tensor({ version: 2 })),
  refuses('reserved-flag', 'A reserved flag', ['bad_header'], () => tensor({ flags: 0x80 })),
  refuses('wrong-flag', 'A flag that contradicts the metadata', ['bad_header'], () => tensor({ flags: 2 })),
  refuses('no-magic', 'A body without the magic number', ['bad_header'], () => tensor({ magic: 'AW' })),
  refuses('trailing', 'A tensor with two bytes behind it', ['trailing_bytes'], () =>
    tensor({ trailer: new Uint8Array(2) }),
  ),
  refuses('truncated', 'A tensor that ends too early', ['truncated'], () => tensor().subarray(0, 20)),
  refuses('unknown-compression', 'Another compression', ['bad_compression'], () =>
    tensor({ more: join(0x5a, 4, 'lzma') }),
  ),
  refuses('not-marked', 'Compression that the flags do not state', ['bad_compression', 'bad_header'], () =>
    tensor({ more: join(0x5a, 4, 'zstd') }),
  ),
  refuses('malformed-metadata', 'A tensor whose metadata end early', ['bad_message', 'truncated'], () =>
    tensor({ more: join(0x0a, 100, 'x') }),
  ),
  refuses('not-utf8', 'A text in the metadata that is not UTF-8', ['bad_utf8'], () =>
    tensor({ more: Uint8Array.of(0x0a, 1, 0xff) }),
  ),
  refuses('many-dimensions', 'A tensor of 65 dimensions', ['bad_tensor'], () =>
    tensor({ shape: Array.from({ length: 65 }, () => 1), payload: floats(1) }),
  ),
  ends(
    'empty-first-frame',
    'A first frame without a byte of its tensor ends the session with 4400.',
    (session) => {
      const { id } = session.link.openStream();
      return [frame(Kind.REQUEST, id, Codec.AVP | 0x10, varint(40))];
    },
  ),
  {
    name: 'tensors/large-frame',
    section: SECTION,
    title: 'A receiver takes 262,144 bytes of a tensor in one frame, as far as credit allows.',
    async run(kit) {
      const session = await kit.session();
      const size = Math.min(MAX_TENSOR_PIECE, session.windows.stream - 64);
      const values = Math.floor((size - 200) / 4);
      const call = await sent(session, tensor({ shape: [values], payload: floats(values) }), [size]);
      mustEqual(responseOf(call).content.length, 0, 'the length of the response to a tensor');
    },
  },
  {
    name: 'tensors/above-the-limit',
    section: SECTION,
    title: 'The peer begins no tensor above what the kit accepts.',
    async run(kit) {
      const session = await kit.session({ link: { max_transfer: 1_000 } });
      const told = jsonIn(await session.answer({ test: 'tensor', values: 1_000 }));
      mustEqual(told, { error: 'transfer_too_large' }, 'the outcome');
      mustEqual(session.link.asked.length, 0, 'the number of tensors');
    },
  },
  {
    name: 'tensors/far-above-the-limit',
    section: SECTION,
    title: 'A tensor far above the limit of the peer ends the session with 4413.',
    async run(kit) {
      const session = await kit.session();
      const { agreement } = session;
      const stated = (kit.door.peer === 'server' ? agreement.accept : agreement.hello)[
        'extensions'
      ] as Fields;
      const most = parametersOf(String(stated['link']), 'link')['max_transfer'];
      if (typeof most !== 'number') throw new NotApplicable('the peer states no max_transfer');
      const { id } = session.link.openStream();
      const head = frame(Kind.REQUEST, id, Codec.AVP | 0x10, varint(most + 70_000), 'AV');
      await session.violate(head, [4413], 'a tensor far above the limit');
    },
  },
  {
    name: 'tensors/cancelled',
    section: SECTION,
    title: 'A cancel of a tensor is answered by END at once.',
    async run(kit) {
      const session = await kit.session();
      const call = session.link.openStream();
      const [first] = bodyFrames(Kind.REQUEST, call.id, { codec: Codec.AVP, bytes: tensor(), pieces: [30] });
      session.link.write(first as Uint8Array, frame(Kind.CANCEL, call.id));
      await session.over(call, 'end after a cancel');
      must(call.end !== undefined, 'a cancel of a tensor is not answered by END');
      await session.stillWorks('a tensor that was cancelled');
    },
  },
  {
    name: 'tensors/refused-keeps-its-slot',
    section: SECTION,
    title: 'A tensor that was refused counts as open until its body has ended or it is cancelled.',
    async run(kit) {
      const session = await kit.session();
      const most = session.streamsToFill();
      for (let index = 0; index < most; index++) session.link.write(halves(session.link.openStream())[0]);
      await session.ping();
      // Whether it refuses a tensor at its head or at its end is the peer's to decide.
      await pause(A_WHILE);
      const [beyond] = halves(session.link.openStream());
      await session.violate(beyond, [4400], 'one stream too many, beside tensors that were refused');
    },
  },
  {
    name: 'tensors/refused-frees-its-slot',
    section: SECTION,
    title: 'A tensor that was refused gives its slot back when its body has ended or it is cancelled.',
    async run(kit) {
      const session = await kit.session();
      const rounds = Math.min(300, session.windows.maxStreams * 2 + 2);
      for (let round = 0; round < rounds; round++) {
        const call = session.link.openStream();
        const [first, rest] = halves(call);
        session.link.write(first);
        // At times the refusal has come before the sender continues.
        if (round % 100 < 4) await pause(20);
        session.link.write(round % 2 === 0 ? rest : frame(Kind.CANCEL, call.id));
        await session.over(call, 'the answer to a tensor');
      }
      await session.stillWorks(`${rounds} tensors that were refused`);
    },
  },
  ends('as-message', 'A one-way message in codec AVP ends the session with 4400.', () =>
    bodyFrames(Kind.MESSAGE, 0, { codec: Codec.AVP, bytes: tensor() }),
  ),
  {
    name: 'tensors/of-the-peer',
    section: SECTION,
    title: 'The peer sends a tensor as a request in codec AVP, and reads the empty response.',
    async run(kit) {
      // So large a window leaves the size of frames to the peer.
      const session = await kit.session({ link: { stream_window: 1_000_000 } });
      for (const values of [3, 100_000]) {
        const outer = await session.ask({ test: 'tensor', values });
        const { id, body } = await session.asked('a tensor of the peer');
        mustEqual(body.codec, Codec.AVP, 'the codec of a tensor');
        must(
          Buffer.compare(payloadOf(body.coded), floats(values)) === 0,
          'the elements of the tensor',
          body.coded,
        );
        session.respond(id, { bytes: '' });
        mustEqual(jsonIn(responseOf(await session.over(outer))), { error: null }, 'the outcome at the peer');
      }
    },
  },
  {
    name: 'tensors/refused-by-the-kit',
    section: SECTION,
    title: 'The peer learns that its tensor was refused.',
    async run(kit) {
      const session = await kit.session();
      const outer = await session.ask({ test: 'tensor', values: 3 });
      const { id } = await session.asked('a tensor of the peer');
      session.link.write(frame(Kind.ERROR, id, packed({ code: 'bad_checksum', message: 'a test' })));
      session.link.answered(id);
      mustEqual(jsonIn(responseOf(await session.over(outer))), { error: 'bad_checksum' }, 'the outcome');
    },
  },
  {
    name: 'tensors/compressed',
    section: SECTION,
    title: 'The checksum of a compressed tensor is that of its payload before compression.',
    async run(kit) {
      const session = await kit.session();
      const raw = floats(400);
      const payload = compressZstd(raw, new Uint8Array(0));
      const parts = { flags: 1, shape: [400], payload, more: join(0x5a, 4, 'zstd') };
      const { error } = await sent(session, tensor(parts));
      if (error !== undefined) throw new NotApplicable('the peer takes no compressed tensors');
      const right = await sent(session, tensor({ ...parts, checksum: crc32(raw) }));
      must(right.error === undefined, `a sound tensor is refused with ${JSON.stringify(right.error)}`);
      const wrong = await sent(session, tensor({ ...parts, checksum: crc32(payload) }));
      mustEqual(wrong.error?.['code'], 'bad_checksum', 'the code for the checksum of the compressed bytes');
    },
  },
];
