import { type Fields, packed } from '../bodies.js';
import { Deviation, must, mustEqual, NotApplicable } from '../deviation.js';
import { BINARY, JSON_ENVELOPES } from '../door.js';
import { controlOn, envelope, type Kit, payloadOf } from '../kit.js';
import { acceptIn, jsonIn, mapIn, namesIn, spelled, textIn, textsIn, ticketIn } from '../members.js';
import { helloOf, jsonOf, windowsOf } from '../offers.js';
import type { Scenario } from '../scenario.js';
import { checkEnvelope } from '../session.js';

/** A server before there is a session. */

/** Sends a HELLO and returns the ACCEPT, as it is stated and with its defaults. */
async function accepted(
  kit: Kit,
  hello: Fields,
): Promise<{ stated: Fields; accept: Fields; bytes: Uint8Array; sessionId: unknown }> {
  const wire = await kit.connect();
  wire.send(envelope('HELLO', null, hello));
  const { fields, bytes } = await controlOn(wire, 'ACCEPT');
  const [stated, accept] = [payloadOf(fields), acceptIn(payloadOf(fields), bytes)];
  return { stated, accept, bytes, sessionId: fields['session_id'] };
}

/** Sends a HELLO and returns the REJECT, which must be followed by 4400. */
async function rejected(kit: Kit, hello: Fields): Promise<Fields> {
  const wire = await kit.connect();
  wire.send(envelope('HELLO', null, hello));
  const { fields, bytes } = await controlOn(wire, 'REJECT');
  const reject = payloadOf(fields);
  textIn(reject, 'message', '', bytes);
  await wire.end([4400], 'REJECT');
  return reject;
}

/** Sends something in place of HELLO, or behind it, and expects a close. */
const ends = (
  name: string,
  title: string,
  codes: readonly number[],
  messages: () => readonly (Uint8Array | string)[],
  section = '§1 WebSocket binding',
): Scenario => ({
  name: `handshake/${name}`,
  section,
  tests: 'server',
  title,
  async run(kit) {
    const wire = await kit.connect();
    for (const message of messages()) wire.send(message);
    await wire.end(codes, title);
  },
});

const STANDARD_LIMITS = {
  maxMessageSize: 16_777_216,
  maxTransferSize: 1_073_741_824,
  maxMetadataSize: 8_192,
  maxStreams: 128,
  messagesPerMinute: 6_000,
  bytesPerSecond: 10_000_000,
};

export const SERVER_HANDSHAKE: readonly Scenario[] = [
  {
    name: 'handshake/subprotocol',
    section: '§1 WebSocket binding',
    tests: 'server',
    title: 'The server picks the first subprotocol of the client that it knows.',
    async run(kit) {
      const wire = await kit.connect({ subprotocols: ['something.else', BINARY, JSON_ENVELOPES] });
      mustEqual(wire.socket.protocol, BINARY, 'the subprotocol');
      mustEqual(wire.socket.extensions, '', 'the WebSocket extensions');
    },
  },
  {
    name: 'handshake/subprotocol-unknown',
    section: '§1 WebSocket binding',
    tests: 'server',
    title: 'A client that offers no known subprotocol gets HTTP 400, whose body names both.',
    async run(kit) {
      const { status, body } = await kit.dialer.refusal({ subprotocols: ['something.else'] });
      mustEqual(status, 400, 'the HTTP status');
      must(
        body.includes(BINARY) && body.includes(JSON_ENVELOPES),
        'the body does not name both subprotocols',
        body,
      );
    },
  },
  {
    name: 'handshake/accept',
    section: '§2 ACCEPT',
    tests: 'server',
    title: 'ACCEPT states the agreement: version, algorithms, encoding, extensions, limits and resume.',
    async run(kit) {
      const { accept, bytes, sessionId } = await accepted(kit, helloOf({}));
      must(
        typeof sessionId === 'string' && sessionId.length > 0 && sessionId.length <= 128,
        'session_id',
        bytes,
      );
      mustEqual(accept['version'], '1.0', 'version', bytes);
      mustEqual(accept['algorithms'], ['NONE'], 'algorithms', bytes);
      mustEqual(accept['encoding'], null, 'the encoding although none was offered', bytes);
      mustEqual(accept['security_scanning'], false, 'security_scanning', bytes);
      const extensions = accept['extensions'] as Fields;
      for (const name of ['link', 'resume'])
        if (!(name in extensions)) throw new NotApplicable(`the server does not speak ${name}`);
      windowsOf(extensions['link'], bytes);
      mustEqual(ticketIn(accept, bytes).recovered, false, 'resume.recovered of a new session', bytes);
      must(!('std' in extensions), 'std is agreed on, and was not offered', bytes);
    },
  },
  {
    name: 'handshake/standard-values-of-a-server',
    section: '§2 Standard values',
    tests: 'server',
    title: 'A server understands standard parameters, and says what it means with std and without.',
    async run(kit) {
      const hello = helloOf({ algorithms: ['NONE'] });
      const extensions = { ...(hello['extensions'] as Fields), link: '{"std":1,"max_streams":null}' };
      const plain = (await accepted(kit, { ...hello, extensions })).stated;
      const { stated: accept, bytes } = await accepted(kit, {
        ...hello,
        extensions: { ...extensions, std: '1' },
      });
      if (!('std' in mapIn(accept, 'extensions', {}, bytes)))
        throw new NotApplicable('the server does not agree on std');
      const standard: Fields = {
        version: '1.0',
        algorithms: ['NONE'],
        session_timeout_ms: 300_000,
        max_payload_size: 16_777_216,
        limits: STANDARD_LIMITS,
      };
      for (const [name, value] of Object.entries(standard))
        mustEqual(accept[name] ?? value, plain[name], name, bytes);
      mustEqual(accept['encoding'], '', 'the encoding, if there is none', bytes);
    },
  },
  {
    name: 'handshake/no-std-unless-listed',
    section: '§2 Standard values',
    tests: 'server',
    title:
      'An ACCEPT that does not list std states its parameters without it, whatever the parameters of HELLO state.',
    async run(kit) {
      const context = { max_bytes: 4_194_304, max_messages: 8 };
      const standard = { link: '{"std":1}', context: '{"std":1}' };
      const full = { link: '{"max_streams":64}', context: JSON.stringify(context) };
      for (const parameters of [full, standard]) {
        const hello = helloOf({ algorithms: ['NONE'] });
        const extensions = { ...(hello['extensions'] as Fields), ...parameters };
        const { accept, bytes } = await accepted(kit, { ...hello, extensions });
        const agreed = mapIn(accept, 'extensions', {}, bytes);
        must(!('std' in agreed), 'std is agreed on, and was not offered', bytes);
        for (const name of Object.keys(parameters)) {
          if (!(name in agreed)) continue;
          const stated = jsonOf(String(agreed[name]), `extensions.${name}`, bytes);
          must(stated['std'] !== 1, `extensions.${name} states std, and extensions do not list it`, bytes);
        }
      }
    },
  },
  {
    name: 'handshake/order-of-algorithms',
    section: '§2 ACCEPT',
    tests: 'server',
    title: 'The algorithms are those of both ends, in the order of the client.',
    async run(kit) {
      const offers = [
        ['NONE', 'BROTLI', 'DICTIONARY'],
        ['DICTIONARY', 'BROTLI', 'NONE'],
      ];
      for (const algorithms of offers) {
        const { accept, bytes } = await accepted(kit, helloOf({ algorithms }));
        const chosen = accept['algorithms'] as string[];
        mustEqual(
          chosen,
          algorithms.filter((name) => chosen.includes(name)),
          'the order of algorithms',
          bytes,
        );
        must(chosen.includes('NONE'), 'NONE is not agreed on', bytes);
      }
    },
  },
  {
    name: 'handshake/unknown-names',
    section: '§2 Control messages',
    tests: 'server',
    title: 'Names and members that the server does not know are ignored.',
    async run(kit) {
      const hello = helloOf({ algorithms: ['FOO', 'NONE'], extensions: { 'x-unknown': '{}' } });
      const { accept, bytes } = await accepted(kit, { ...hello, unknown_member: [1] });
      mustEqual(accept['algorithms'], ['NONE'], 'algorithms', bytes);
      must(!('x-unknown' in (accept['extensions'] as Fields)), 'an unknown extension is agreed on', bytes);
    },
  },
  {
    name: 'handshake/spelling',
    section: '§2 Control messages',
    tests: 'server',
    title: 'Names of algorithms are compared without case and separators.',
    async run(kit) {
      const { accept, bytes } = await accepted(kit, helloOf({ algorithms: ['none'] }));
      mustEqual(accept['algorithms'], ['NONE'], 'algorithms', bytes);
    },
  },
  {
    name: 'handshake/nothing-in-common',
    section: '§2 REJECT',
    tests: 'server',
    title: 'Without an algorithm in common the server rejects with NO_COMMON_ALGORITHM and 4400.',
    async run(kit) {
      mustEqual(
        (await rejected(kit, helloOf({ algorithms: ['FOO'] })))['code'],
        'NO_COMMON_ALGORITHM',
        'the code',
      );
    },
  },
  {
    name: 'handshake/version',
    section: '§2 REJECT',
    tests: 'server',
    title: 'A version that the server does not speak is rejected with VERSION_MISMATCH and 4400.',
    async run(kit) {
      mustEqual(
        (await rejected(kit, { ...helloOf({}), version: '2.0' }))['code'],
        'VERSION_MISMATCH',
        'the code',
      );
    },
  },
  ends('not-hello', 'A control message other than HELLO ends the connection with 4400.', [4400], () => [
    envelope('PING', null, {}),
  ]),
  ends('link-frame-first', 'A link frame before HELLO ends the connection with 4400.', [4400], () => [
    Uint8Array.of(0x10, 0, 0, 1),
  ]),
  ends(
    'unknown-first-byte',
    'A first byte that is not in the table ends the connection with 4400.',
    [4400],
    () => [Uint8Array.of(0x77)],
  ),
  ends('empty', 'A message without bytes ends the connection with 4400.', [4400], () => [new Uint8Array(0)]),
  ends(
    'cut-map',
    'MessagePack that ends early ends the connection with 4400.',
    [4400],
    () => [envelope('HELLO', null, helloOf({})).subarray(0, 30)],
    '§2 Control messages',
  ),
  ends(
    'extensions-as-maps',
    'An extension that is not a text ends the connection with 4400.',
    [4400],
    () => [envelope('HELLO', null, { ...helloOf({}), extensions: { link: {} } })],
    '§2 HELLO',
  ),
  ends(
    'windows',
    'A window below 1 in the extension link ends the connection with 4400.',
    [4400],
    () => [envelope('HELLO', null, helloOf({ link: { stream_window: -1 } }))],
    '§4 The link: frames',
  ),
  ends(
    'too-large',
    'More than 64 KiB before ACCEPT end the connection with 4413.',
    [4413],
    () => [packed({ type: 'HELLO', session_id: null, timestamp: 1, payload: { pad: 'x'.repeat(66_000) } })],
    '§2 Control messages',
  ),
  {
    name: 'handshake/second-hello',
    section: '§2 HELLO',
    tests: 'server',
    title: 'A second HELLO ends the session with 4400.',
    async run(kit) {
      const session = await kit.session();
      await session.violate(envelope('HELLO', null, helloOf({})), [4400], 'a second HELLO');
    },
  },
  {
    name: 'handshake/json-envelopes',
    section: '§2 Control messages',
    tests: 'server',
    title: 'm2m.v1.json has the same messages as JSON in text.',
    async run(kit) {
      const wire = await kit.connect({ subprotocols: [JSON_ENVELOPES] });
      const json = (type: string, sessionId: unknown, payload: Fields) =>
        wire.send(JSON.stringify({ type, session_id: sessionId, timestamp: Date.now(), payload }));
      const next = async (type: string): Promise<Fields> => {
        for (;;) {
          const text = await wire.next(type);
          if (typeof text !== 'string')
            throw new Deviation(`a binary message, expected ${type} as text`, text);
          const fields = mapIn({ text: jsonIn(text) }, 'text', {}, text);
          checkEnvelope(fields, (fields['session_id'] ?? null) as null, text);
          if (fields['type'] === type) return fields;
          const isMore = type === 'ACCEPT' ? fields['type'] === 'WAIT' : fields['type'] !== 'REJECT';
          must(isMore, `${String(fields['type'])}, expected ${type}`, text);
        }
      };
      json('HELLO', null, helloOf({ extensions: { link: undefined, resume: undefined } }));
      const accept = await next('ACCEPT');
      const id = accept['session_id'];
      mustEqual(namesIn(payloadOf(accept), 'algorithms'), ['NONE'], 'algorithms');
      json('PING', id, {});
      await next('PONG');
      json('CLOSE', id, { reason: 'NORMAL', message: '' });
      await next('CLOSE');
      await wire.end([1000], 'CLOSE at both ends');
    },
  },
  {
    name: 'handshake/json-binary',
    section: '§1 WebSocket binding',
    tests: 'server',
    title: 'A binary message in m2m.v1.json ends the session with 4400.',
    async run(kit) {
      const wire = await kit.connect({ subprotocols: [JSON_ENVELOPES] });
      wire.send(envelope('HELLO', null, helloOf({})));
      await wire.end([4400], 'a binary message');
    },
  },
  {
    name: 'handshake/no-extension',
    section: '§1 WebSocket binding',
    tests: 'server',
    title: 'A server negotiates no extension of WebSocket with a client that offers one.',
    async run(kit) {
      const wire = await kit.connect({ deflate: true });
      mustEqual(wire.socket.extensions, '', 'the WebSocket extensions');
    },
  },
  {
    name: 'handshake/agrees-once',
    section: '§2 Control messages',
    tests: 'server',
    title: 'A name that is in a list more than once counts as the first one.',
    async run(kit) {
      const { stated, bytes } = await accepted(kit, helloOf({ algorithms: ['NONE', 'none', 'NONE'] }));
      mustEqual(textsIn(stated, 'algorithms', [], bytes).map(spelled), ['NONE'], 'algorithms', bytes);
    },
  },
  {
    name: 'handshake/long-extension',
    section: '§2 HELLO',
    tests: 'server',
    title: 'An extension of 16,384 characters is read; one more ends the connection with 4400.',
    async run(kit) {
      const extensions = { 'x-long': 'x'.repeat(16_384) };
      await accepted(kit, helloOf({ extensions }));
      const wire = await kit.connect();
      const longer = { 'x-long': `${extensions['x-long']}x` };
      wire.send(envelope('HELLO', null, helloOf({ extensions: longer })));
      await wire.end([4400], 'an extension of 16,385 characters');
    },
  },
];
