import type { Fields } from '../bodies.js';
import { must, mustEqual, NotApplicable } from '../deviation.js';
import { JSON_ENVELOPES } from '../door.js';
import { controlOn, envelope, type Kit, payloadOf } from '../kit.js';
import { jsonIn, mapIn, namesIn } from '../members.js';
import { helloOf } from '../offers.js';
import type { Scenario } from '../scenario.js';
import { checkEnvelope } from '../session.js';
import type { Incoming, Wire } from '../wire.js';

/** Sessions without a link: bare messages, and DATA in `m2m.v1.json`. */

const SECTION = '§7 Without a link';

interface Bare {
  readonly wire: Wire;
  readonly id: string;
}

/** A session of `m2m.v1` without a link. */
async function bare(
  kit: Kit,
  algorithms: readonly string[] = ['NONE'],
  encodings: readonly string[] = [],
): Promise<Bare> {
  const wire = await kit.connect();
  wire.send(envelope('HELLO', null, { ...helloOf({ algorithms, encodings }), extensions: {} }));
  const { fields, bytes } = await controlOn(wire, 'ACCEPT');
  const agreed = namesIn(payloadOf(fields), 'algorithms', bytes);
  for (const name of algorithms)
    if (!agreed.includes(name)) throw new NotApplicable(`the peer does not speak ${name}`);
  return { wire, id: String(fields['session_id']) };
}

/** A server that sends each bare message back. */
async function echoing(
  kit: Kit,
  algorithms?: readonly string[],
  encodings?: readonly string[],
): Promise<Bare> {
  await (await kit.session()).requires('bare');
  return await bare(kit, algorithms, encodings);
}

/** The next message that is not a control message. */
async function echoed(wire: Wire): Promise<Incoming> {
  for (;;) {
    const message = await wire.next('the message that is sent back');
    if (typeof message === 'string' || (message[0] ?? 0) < 0x80) return message;
  }
}

/** A bare message that the session must not survive. */
const ends = (
  name: string,
  title: string,
  codes: readonly number[],
  message: () => Incoming,
  algorithms: readonly string[] = ['NONE'],
  encodings: readonly string[] = [],
): Scenario => ({
  name: `plain/${name}`,
  section: SECTION,
  tests: 'server',
  title,
  async run(kit) {
    const { wire } = await bare(kit, algorithms, encodings);
    wire.send(message());
    await wire.end(codes, title);
  },
});

const base64 = (bytes: Uint8Array | readonly number[]) => Buffer.from(bytes).toString('base64');
const HELLO = [0xb2, 0x4d];

export const PLAIN: readonly Scenario[] = [
  {
    name: 'plain/text',
    section: SECTION,
    tests: 'server',
    title: 'Text in NONE travels as it is, in both directions.',
    async run(kit) {
      const { wire } = await echoing(kit);
      for (const text of ['hello', 'Grüße 👋', '# a heading', '{"a":1}']) {
        wire.send(text);
        mustEqual(await echoed(wire), text, 'the message that is sent back');
      }
    },
  },
  {
    name: 'plain/text-forms',
    section: SECTION,
    tests: 'server',
    title: 'A receiver reads the forms of a body as text, and their UTF-8 in binary frames.',
    async run(kit) {
      const { wire } = await echoing(kit, ['TOKEN_NATIVE', 'NONE'], ['CL100K_BASE']);
      const form = `#TK|C|${base64(HELLO)}`;
      for (const message of [Uint8Array.of(0, ...HELLO), form, Buffer.from(form)]) {
        wire.send(message);
        const back = await echoed(wire);
        const isToken = typeof back !== 'string' && Buffer.compare(back, Buffer.of(0, ...HELLO)) === 0;
        must(back === 'Hello' || back === form || isToken, 'the message that is sent back', back);
      }
    },
  },
  {
    name: 'plain/looks-coded',
    section: SECTION,
    tests: 'server',
    title: 'Content that begins as another form does is not sent as it is.',
    async run(kit) {
      const { wire, id } = await echoing(kit, ['BROTLI', 'NONE']);
      // As Brotli, which carries any text: base64 of one stream of "#T1|x" that is not compressed.
      const text = '#T1|x';
      const { brotliCompressSync, brotliDecompressSync } = await import('node:zlib');
      wire.send(`#BR|${base64(brotliCompressSync(text))}`);
      wire.send(envelope('PING', id, {}));
      const first = await wire.next('the message that is sent back, or PONG');
      must(first !== text, 'content that begins with a prefix is sent as it is', first);
      if (typeof first !== 'string') return;
      const coded = /^(?:#BR\||#M2M\[v3\.0\]\|DATA:)(.*)$/s.exec(first)?.[1];
      must(coded !== undefined, 'the message that is sent back', first);
      mustEqual(brotliDecompressSync(Buffer.from(coded, 'base64')).toString(), text, 'its content');
    },
  },
  ends(
    'unknown-prefix',
    'A binary frame that begins with # and has no known prefix ends the session with 4400.',
    [4400],
    () => Buffer.from('#XX|abc'),
  ),
  ends(
    'other-encoding',
    'A tokenizer byte of another encoding ends the session with 4400.',
    [4400],
    () => Uint8Array.of(1, ...HELLO),
    ['TOKEN_NATIVE', 'NONE'],
    ['CL100K_BASE'],
  ),
  ends(
    'other-letter',
    'A letter of another encoding ends the session with 4400.',
    [4400],
    () => `#TK|O|${base64(HELLO)}`,
    ['TOKEN_NATIVE', 'NONE'],
    ['CL100K_BASE'],
  ),
  ends(
    'not-agreed',
    'A body in an algorithm that was not agreed on ends the session with 4400.',
    [4400],
    () => `#DI|${base64(Buffer.from('a'))}`,
  ),
  ends(
    'bad-base64',
    'Base64 without its padding ends the session with 4400.',
    [4400],
    () => '#TK|C|sk0L/Q4',
    ['TOKEN_NATIVE', 'NONE'],
    ['CL100K_BASE'],
  ),
  ends(
    'zlib',
    'The form of zlib, which is obsolete, ends the session with 4400.',
    [4400],
    () => '#M2M[v2.0]|DATA:eJwDAAAAAAE=',
  ),
  ends('link-frame', 'A link frame without a link ends the session with 4400.', [4400], () =>
    Uint8Array.of(0x10, 0, 0, 0x61),
  ),
  {
    name: 'plain/bad-text-frame',
    section: '§1 WebSocket binding: frames',
    tests: 'server',
    title: 'A text frame that is not UTF-8 ends the connection with 1007.',
    async run(kit) {
      const { wire } = await bare(kit);
      wire.socket.send(Buffer.of(0x61, 0xff, 0xfe), { binary: false });
      await wire.end([1007], 'a text frame that is not UTF-8');
    },
  },
  {
    name: 'plain/many-fragments',
    section: '§1 WebSocket binding: frames',
    tests: 'server',
    title: 'A message in too many fragments ends the connection with 1008.',
    async run(kit) {
      const { wire } = await bare(kit);
      for (let index = 0; index < 100_000 && wire.closed === undefined; index++) {
        wire.socket.send('x', { fin: false });
        if (index % 500 === 0) await new Promise((resolve) => setImmediate(resolve));
      }
      await wire.end([1008], 'a message in 100,000 fragments');
    },
  },
  {
    name: 'plain/binary-data',
    section: SECTION,
    tests: 'server',
    title: 'DATA in m2m.v1 ends the session with 4400.',
    async run(kit) {
      const { wire, id } = await bare(kit);
      wire.send(envelope('DATA', id, { algorithm: 'NONE', content: 'x' }));
      await wire.end([4400], 'DATA in m2m.v1');
    },
  },
  {
    name: 'plain/data',
    section: SECTION,
    tests: 'server',
    title: 'DATA of m2m.v1.json names its algorithm, and is decoded by its prefix.',
    async run(kit) {
      await (await kit.session()).requires('bare');
      const wire = await kit.connect({ subprotocols: [JSON_ENVELOPES] });
      const said = (type: string, session_id: string | null, payload: Fields) =>
        wire.send(JSON.stringify({ type, session_id, timestamp: Date.now(), payload }));
      const heard = async (type: string): Promise<Fields> => {
        for (;;) {
          const message = await wire.next(type);
          must(typeof message === 'string', 'a binary frame in m2m.v1.json', message);
          const fields = mapIn({ message: jsonIn(message) }, 'message', {}, message);
          checkEnvelope(fields, (fields['session_id'] ?? null) as null, message);
          if (fields['type'] === type) return fields;
        }
      };
      const offer = helloOf({ algorithms: ['DICTIONARY', 'NONE'] });
      said('HELLO', null, { ...offer, extensions: {} });
      const accept = await heard('ACCEPT');
      const id = String(accept['session_id']);
      if (!namesIn(payloadOf(accept), 'algorithms').includes('DICTIONARY'))
        throw new NotApplicable('the peer does not speak DICTIONARY');
      // The prefix counts, and not what `algorithm` says.
      for (const algorithm of ['DICTIONARY', 'NONE']) {
        said('DATA', id, { algorithm, content: `#DI|${base64(Buffer.from('plain ascii'))}` });
        const { algorithm: name, content, security_status: status } = payloadOf(await heard('DATA'));
        const prefix = String(content).startsWith('#DI|') ? 'DICTIONARY' : 'NONE';
        mustEqual(name, prefix, 'the algorithm of DATA');
        must(status === undefined || status === null, 'a security_status that was not agreed on');
        if (prefix === 'NONE') mustEqual(content, 'plain ascii', 'the content');
      }
      said('DATA', id, { algorithm: 'NOVELTY', content: 'x' });
      await wire.end([4400], 'DATA in an unknown algorithm');
    },
  },
  {
    name: 'plain/upgrade-with-a-body',
    section: '§1 WebSocket binding',
    tests: 'server',
    title: 'An upgrade that announces a body is refused with HTTP 400.',
    async run(kit) {
      const { status } = await kit.dialer.refusal({ headers: { 'content-length': '5' } });
      mustEqual(status, 400, 'the HTTP status');
    },
  },
  {
    name: 'plain/foreign-origin',
    section: '§1 WebSocket binding',
    tests: 'server',
    title: 'An upgrade of a foreign origin gets REJECT, and 4403.',
    async run(kit) {
      const wire = await kit.connect({ headers: { origin: 'http://stranger.example' } });
      wire.send(envelope('HELLO', null, helloOf({})));
      const { fields, bytes } = await controlOn(wire, 'REJECT');
      mustEqual(payloadOf(fields)['code'], 'SECURITY_POLICY', 'the code', bytes);
      await wire.end([4403], 'REJECT');
    },
  },
  {
    name: 'plain/foreign-host',
    section: '§1 WebSocket binding',
    tests: 'server',
    title: 'A server on loopback that is reached under a foreign Host answers with REJECT, and 4403.',
    async run(kit) {
      if (!/^wss?:\/\/(127\.|localhost|\[::1\])/.test(kit.dialer.url))
        throw new NotApplicable('the server is not on loopback');
      const wire = await kit.connect({ headers: { host: 'stranger.example' } });
      const { fields, bytes } = await controlOn(wire, 'REJECT');
      mustEqual(payloadOf(fields)['code'], 'SECURITY_POLICY', 'the code', bytes);
      await wire.end([4403], 'REJECT');
    },
  },
];
