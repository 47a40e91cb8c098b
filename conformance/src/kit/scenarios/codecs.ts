import { type Fields, nameOf, packed, textOf } from '../bodies.js';
import { must, mustEqual } from '../deviation.js';
import { bodyFrames, Codec, type CodecName, Kind } from '../frames.js';
import { jsonIn } from '../members.js';
import type { Scenario } from '../scenario.js';
import { responseOf, type Session } from '../session.js';
import { checkTally } from './messages.js';
import { said } from './streams.js';

/** Bodies in each codec that the peer speaks. */

const CHAT = JSON.stringify({
  model: 'gpt-4o',
  messages: [
    { role: 'system', content: 'You are helpful.' },
    { role: 'user', content: 'Why is the sky blue? '.repeat(20) },
  ],
  max_tokens: 100,
  temperature: 0.7,
});
const TEXTS = ['', 'a', 'Grüße 👋', 'x'.repeat(20_000), CHAT];
const ASCII = ['a', CHAT, '{"messages":[{"role":"user","content":"Hi"}]}'];

/** Texts that the codec can carry. */
const textsFor = (codec: CodecName) =>
  codec === 'DICTIONARY' ? ASCII : codec === 'TOKEN' || codec === 'M2M' ? [CHAT] : TEXTS;

const isJsonOnly = (codec: CodecName) => codec === 'TOKEN';

const sessionFor = (codec: CodecName): { algorithms: string[]; encodings?: string[] } => ({
  algorithms: [...new Set([codec, 'NONE'])],
  ...(codec === 'TOKEN_NATIVE' && { encodings: ['CL100K_BASE'] }),
});

function same(codec: CodecName, found: string, text: string): void {
  // T1 restores the meaning, and defaults that were not there.
  if (isJsonOnly(codec)) {
    const [a, b] = [jsonIn<Fields>(found), jsonIn<Fields>(text)];
    mustEqual({ ...b, ...a, ...b }, { ...b, ...a }, 'the echo');
  } else must(found === text, `the echo is another text of ${found.length} characters`, found);
}

const reads = (codec: CodecName): Scenario => ({
  name: `codecs/reads-${codec.toLowerCase()}`,
  section: '§8 Codecs',
  title: `The peer reads bodies in ${codec}.`,
  async run(kit) {
    const session = await kit.session(sessionFor(codec));
    for (const text of textsFor(codec)) {
      const { codec: number, bytes, expanded } = session.coder.encode(text, codec);
      mustEqual(number, Codec[codec], 'the codec of the kit');
      same(codec, textOf(await session.answer({ test: 'echo' }, { codec: number, bytes, expanded })), text);
    }
  },
});

const writes = (codec: CodecName): Scenario => ({
  name: `codecs/writes-${codec.toLowerCase()}`,
  section: '§8 Codecs',
  title: `The peer writes bodies in ${codec} if it can choose, and no others than were agreed on.`,
  async run(kit) {
    const session = await kit.session(sessionFor(codec));
    const text = CHAT;
    await session.answer({ test: 'say', messages: 3, text, codec });
    await session.until(() => session.link.messages.length >= 3 || undefined, 'three messages');
    for (const body of session.link.messages) {
      must(
        nameOf(body.codec) === codec || body.codec === Codec.NONE,
        `a body in ${nameOf(body.codec)}, which was not agreed on`,
        body.coded,
      );
      same(codec, textOf(body), text);
    }
  },
});

/** A request whose body cannot be decoded. */
const undecodable = (
  codec: CodecName,
  name: string,
  codes: readonly string[],
  body: (session: Session) => { bytes: Uint8Array; expanded: number },
): Scenario => ({
  name: `codecs/${name}`,
  section: '§14 Errors of decoding',
  title: `A request whose body in ${codec} cannot be decoded fails with ${codes.join(' or ')}; the session continues.`,
  async run(kit) {
    const session = await kit.session(sessionFor(codec));
    const call = await session.ask({ test: 'echo' }, { codec: Codec[codec], ...body(session) });
    await session.over(call);
    must(call.error !== undefined, 'a body that cannot be decoded is answered', call.response?.content);
    must(
      codes.includes(String(call.error['code'])),
      `the code is ${call.error['code']}, expected ${codes.join(' or ')}`,
    );
    must(call.error['retryable'] === undefined, 'an error of the protocol has `retryable`');
    await session.stillWorks('a body that cannot be decoded');
  },
});

const NAMES: readonly CodecName[] = ['NONE', 'BROTLI', 'DICTIONARY', 'M2M', 'TOKEN', 'TOKEN_NATIVE'];

export const CODECS: readonly Scenario[] = [
  ...NAMES.map(reads),
  ...NAMES.map(writes),
  undecodable('BROTLI', 'damaged-brotli', ['bad_compression', 'truncated'], ({ coder }) => {
    const { bytes, expanded } = coder.encode(CHAT, 'BROTLI');
    return { bytes: bytes.subarray(0, bytes.length / 2), expanded };
  }),
  undecodable('BROTLI', 'trailing-brotli', ['trailing_bytes'], ({ coder }) => {
    const { bytes, expanded } = coder.encode(CHAT, 'BROTLI');
    return { bytes: Buffer.concat([bytes, Buffer.alloc(40)]), expanded };
  }),
  undecodable('BROTLI', 'longer-than-stated', ['decompressed_too_large'], ({ coder }) => {
    const { bytes, expanded } = coder.encode(CHAT, 'BROTLI');
    return { bytes, expanded: expanded - 1 };
  }),
  undecodable('BROTLI', 'shorter-than-stated', ['bad_frame'], ({ coder }) => {
    const { bytes, expanded } = coder.encode(CHAT, 'BROTLI');
    return { bytes, expanded: expanded + 1 };
  }),
  undecodable('BROTLI', 'expands-too-far', ['decompressed_too_large'], ({ coder }) => {
    const { bytes } = coder.encode('a', 'BROTLI');
    return { bytes, expanded: 65_536 + 100 * bytes.length + 1 };
  }),
  undecodable('DICTIONARY', 'unknown-pattern', ['bad_compression'], () => ({
    bytes: Uint8Array.of(0x61, 0x88),
    expanded: 2,
  })),
  undecodable('M2M', 'damaged-m2m', ['bad_checksum'], ({ coder }) => {
    const { bytes, expanded } = coder.encode('{"model":"m","messages":[]}', 'M2M');
    const damaged = Uint8Array.from(bytes);
    const last = damaged.length - 2;
    damaged[last] = (damaged[last] ?? 0) ^ 1;
    return { bytes: damaged, expanded };
  }),
  undecodable('TOKEN_NATIVE', 'unknown-token', ['bad_token'], () => ({
    bytes: Uint8Array.of(0xff, 0xff, 0xff, 0x7f),
    expanded: 0,
  })),
  ...(
    [
      ['m2m-reserved', 8, 1, ['bad_header']],
      ['m2m-unknown-schema', 2, 0x77, ['unknown_schema']],
      ['m2m-protected', 3, 1, ['security_required', 'truncated', 'authentication_failed']],
    ] as const
  ).map(([name, at, value, codes]) =>
    undecodable('M2M', name, codes, ({ coder }) => {
      const { bytes, expanded } = coder.encode('{"model":"m","messages":[]}', 'M2M');
      const changed = Uint8Array.from(bytes);
      changed[at] = value;
      return { bytes: changed, expanded };
    }),
  ),
  undecodable('TOKEN', 'token-member-twice', ['bad_json'], () => {
    const bytes = Buffer.from('{"M":"a","model":"b","m":[]}');
    return { bytes, expanded: bytes.length + 200 };
  }),
  undecodable('TOKEN', 'token-too-deep', ['json_too_deep'], () => {
    const bytes = Buffer.from(`{"M":${'['.repeat(5_000)}${']'.repeat(5_000)}}`);
    return { bytes, expanded: bytes.length + 200 };
  }),
  ...(
    [
      ['token-names', 'TOKEN', { text: '{"m":1,"model":"x","messages":[{"role":"u","content":"hi"}]}' }],
      ['special-tokens', 'TOKEN_NATIVE', { text: 'a <|endoftext|> and <|im_start|>' }],
      ['not-ascii', 'DICTIONARY', { text: 'Grüße' }],
      ['expands-far', 'BROTLI', { size: 400_000 }],
    ] as const
  ).map(
    ([name, codec, wish]): Scenario => ({
      name: `codecs/${name}`,
      section: '§8 Codecs',
      title: `Content that ${codec} cannot carry, or not easily, arrives as it is, or is refused as unrepresentable.`,
      async run(kit) {
        const session = await kit.session(sessionFor(codec));
        const call = await session.over(await session.ask({ test: 'say', messages: 1, codec, ...wish }));
        if (call.error?.['code'] === 'unrepresentable')
          return await session.stillWorks('unrepresentable content');
        responseOf(call);
        const body = await session.until(() => session.link.messages[0], 'a message');
        const [found, text] = [textOf(body), 'text' in wish ? wish.text : said('message', 1, wish.size)];
        if (codec === 'TOKEN')
          mustEqual({ ...jsonIn<Fields>(found), ...jsonIn<Fields>(text) }, jsonIn(found), 'the message');
        else must(found === text, `another text of ${found.length} characters`, body.coded);
      },
    }),
  ),
  {
    name: 'codecs/token-defaults',
    section: 'Annex B: T1',
    title: 'A reader of T1 expands abbreviations, compared after their escapes, and restores defaults.',
    async run(kit) {
      const session = await kit.session(sessionFor('TOKEN'));
      const bytes = Buffer.from('{"M":"gpt-4o","\\u006d":[{"r":"\\u0075","c":"hi"}]}');
      const wish = { codec: Codec.TOKEN, bytes, expanded: 400 };
      const found = jsonIn<Fields>(await session.answer({ test: 'echo' }, wish));
      mustEqual(
        [found['model'], found['messages']],
        ['gpt-4o', [{ role: 'user', content: 'hi' }]],
        'model and messages',
      );
      for (const name of ['temperature', 'top_p', 'n', 'stream'])
        must(name in found, `the default of ${name} is not restored`);
    },
  },
  {
    name: 'codecs/not-agreed',
    section: '§4 The link: frames',
    title: 'A body in an algorithm that was not agreed on ends the session with 4400.',
    async run(kit) {
      const session = await kit.session();
      await session.stillWorks('the handshake');
      const bytes = bodyFrames(Kind.MESSAGE, 0, {
        codec: Codec.BROTLI,
        bytes: Uint8Array.of(0x3b),
        expanded: 0,
      });
      await session.violate(bytes, [4400], 'a body in BROTLI');
    },
  },
  {
    name: 'codecs/in-pieces',
    section: '§8 Codecs',
    title: 'A compressed body is read in any number of frames.',
    async run(kit) {
      const session = await kit.session(sessionFor('BROTLI'));
      const { codec, bytes, expanded } = session.coder.encode(CHAT, 'BROTLI');
      const call = await session.ask({ test: 'echo' }, { codec, bytes, expanded, pieces: [1, 3, 40] });
      same('BROTLI', textOf(responseOf(await session.over(call))), CHAT);
      await session.link.writeBody(Kind.MESSAGE, 0, { codec, bytes, expanded, pieces: [5] });
      await checkTally(session, [CHAT]);
    },
  },
  {
    name: 'codecs/empty-plain',
    section: '§4 The link: frames',
    title: 'An empty body in PLAIN needs no agreement.',
    async run(kit) {
      const session = await kit.session({ algorithms: ['BROTLI'] });
      const call = session.link.openStream();
      session.link.write(
        ...bodyFrames(Kind.REQUEST, call.id, { bytes: '', metadata: packed({ test: 'echo' }) }),
      );
      mustEqual(textOf(responseOf(await session.over(call))), '', 'the echo');
    },
  },
];
