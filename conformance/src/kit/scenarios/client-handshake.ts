import type { Fields } from '../bodies.js';
import { must, mustEqual, NotApplicable } from '../deviation.js';
import { Listener, OFFER, READ } from '../door.js';
import { envelope, type Kit, payloadOf } from '../kit.js';
import { jsonOf, windowsOf } from '../offers.js';
import type { Scenario } from '../scenario.js';

/** What a client does before there is a session. */

/** Answers HELLO with an ACCEPT that goes wrong, and expects 4400. */
const refuses = (
  name: string,
  title: string,
  change: (accept: Fields, hello: Fields) => Fields,
): Scenario => ({
  name: `handshake/${name}`,
  section: '§2 ACCEPT',
  tests: 'client',
  title,
  async run(kit) {
    const { wire, hello, bytes } = await kit.greeted();
    const payload = payloadOf(hello, bytes);
    const accept = kit.acceptOf({ algorithms: payload['algorithms'] as string[] }, payload);
    wire.send(envelope('ACCEPT', 'sess_conformance_bad', { ...accept, ...change(accept, payload) }));
    await wire.end([4400], title);
  },
});

/** A name that the client has not offered. */
function unoffered(hello: Fields, list: string, names: readonly string[]): string {
  const name = names.find((each) => !(hello[list] as string[]).includes(each));
  if (name === undefined) throw new NotApplicable(`the client offers all ${list}`);
  return name;
}

/** The HELLO of the client, as the kit would have it. */
async function helloOfClient(kit: Kit): Promise<{ hello: Fields; bytes: Uint8Array }> {
  const { hello, bytes } = await kit.greeted();
  return { hello: payloadOf(hello, bytes), bytes };
}

export const CLIENT_HANDSHAKE: readonly Scenario[] = [
  {
    name: 'handshake/hello',
    section: '§2 HELLO',
    tests: 'client',
    title: 'HELLO is the first message; it states version, algorithms, encodings and extensions.',
    async run(kit) {
      const { hello, bytes } = await helloOfClient(kit);
      must(/^(1|3)\.\d+$/.test(String(hello['version'])), 'version is neither 1.x nor 3.x', bytes);
      for (const name of ['algorithms', 'encodings'])
        must(Array.isArray(hello[name]), `${name} is not a list`, bytes);
      must((hello['algorithms'] as unknown[]).length > 0, 'algorithms is empty', bytes);
      for (const name of ['security_scanning', 'supports_streaming'])
        must(typeof (hello[name] ?? false) === 'boolean', `${name} is not a boolean`, bytes);
      must(typeof (hello['max_payload_size'] ?? 0) === 'number', 'max_payload_size is not a number', bytes);
    },
  },
  {
    name: 'handshake/read-in-the-request',
    section: '§1 HELLO in the request',
    tests: 'client',
    title: 'A client whose HELLO was read in its upgrade request does not send it again.',
    async run(kit) {
      const { door } = kit;
      if (!(door instanceof Listener)) throw new NotApplicable('this scenario tests clients');
      door.readsRequests = true;
      try {
        const { wire, hello, bytes } = await kit.greeted();
        if (wire.socket.protocol !== READ) throw new NotApplicable('the client says HELLO in a frame');
        must(bytes.length <= 3_072, `a HELLO of ${bytes.length} bytes in ${OFFER}`, bytes);
        wire.send(envelope('ACCEPT', 'sess_conformance_early', kit.acceptOf({}, payloadOf(hello, bytes))));
        wire.send(envelope('PING', 'sess_conformance_early', {}));
        const answer = await wire.next('PONG');
        must(
          typeof answer !== 'string' && Buffer.from(answer).includes('PONG'),
          'the first message is not PONG',
          answer,
        );
      } finally {
        door.readsRequests = false;
      }
    },
  },
  {
    name: 'handshake/extensions',
    section: '§2 HELLO',
    tests: 'client',
    title: 'Each extension is a text of JSON; those of link are whole numbers of at least 1.',
    async run(kit) {
      const { hello, bytes } = await helloOfClient(kit);
      const extensions = (hello['extensions'] ?? {}) as Fields;
      for (const [name, value] of Object.entries(extensions))
        must(typeof value === 'string' && value.length <= 16_384, `extensions.${name} is not a text`, bytes);
      if ('link' in extensions) windowsOf(extensions['link'], bytes);
      const stated = extensions['vocabularies'];
      if (stated === undefined) return;
      for (const hash of Object.values(jsonOf(String(stated), 'extensions.vocabularies', bytes)))
        must(typeof hash === 'string' && /^[0-9a-f]{64}$/.test(hash), 'a hash of a vocabulary', bytes);
    },
  },
  {
    name: 'handshake/standard-values',
    section: '§2 Standard values',
    tests: 'client',
    title:
      'A client that lists std takes an ACCEPT that leaves out everything else for the standard agreement.',
    async run(kit) {
      const { wire, hello, bytes } = await kit.greeted();
      const { extensions } = payloadOf(hello, bytes) as { readonly extensions?: Fields };
      if (extensions?.['std'] === undefined) throw new NotApplicable('the client does not list std');
      wire.send(envelope('ACCEPT', 'sess_conformance_std', { extensions: { std: '1' } }));
      wire.send(envelope('PING', 'sess_conformance_std', {}));
      const answer = await wire.next('PONG');
      must(
        typeof answer !== 'string' && Buffer.from(answer).includes('PONG'),
        'PING is not answered',
        answer,
      );
    },
  },
  {
    name: 'handshake/wait-and-unknown',
    section: '§2 WAIT',
    tests: 'client',
    title: 'A client goes on after WAIT and after a message of a type that it does not know.',
    async run(kit) {
      const { wire, hello, bytes } = await kit.greeted();
      const payload = payloadOf(hello, bytes);
      wire.send(envelope('WAIT', null, {}));
      wire.send(envelope('ACCEPT', 'sess_conformance_wait', kit.acceptOf({}, payload)));
      wire.send(envelope('NOVELTY', 'sess_conformance_wait', { any: 1 }));
      wire.send(envelope('PING', 'sess_conformance_wait', {}));
      const answer = await wire.next('PONG');
      must(
        typeof answer !== 'string' && Buffer.from(answer).includes('PONG'),
        'PING is not answered',
        answer,
      );
    },
  },
  refuses(
    'accept-algorithm',
    'An ACCEPT with an algorithm that was not offered ends with 4400.',
    (_, hello) => ({
      algorithms: [
        'NONE',
        unoffered(hello, 'algorithms', ['DICTIONARY', 'TOKEN', 'M2M', 'BROTLI', 'TOKEN_NATIVE']),
      ],
    }),
  ),
  refuses(
    'accept-encoding',
    'An ACCEPT with an encoding that was not offered ends with 4400.',
    (_, hello) => ({
      encoding: unoffered(hello, 'encodings', ['LLAMA_BPE', 'O200K_BASE', 'CL100K_BASE']),
    }),
  ),
  refuses(
    'accept-extension',
    'An ACCEPT with an extension that was not offered ends with 4400.',
    (accept) => ({
      extensions: { ...(accept['extensions'] as Fields), unheard_of: '{}' },
    }),
  ),
  refuses('accept-tokens-without-encoding', 'TOKEN_NATIVE without an encoding ends with 4400.', () => ({
    algorithms: ['TOKEN_NATIVE', 'NONE'],
    encoding: null,
  })),
  {
    name: 'handshake/reject',
    section: '§2 REJECT',
    tests: 'client',
    title: 'After REJECT a client sends nothing more on this connection.',
    async run(kit) {
      const { wire } = await kit.greeted();
      wire.send(
        envelope('REJECT', null, {
          code: 'SERVER_BUSY',
          message: 'a test',
          retryable: true,
          retry_after_ms: 1,
        }),
      );
      wire.close(4503, 'a test');
      await wire.end(undefined, 'REJECT');
      const next = await kit.greeted();
      mustEqual(next.hello['session_id'] ?? null, null, 'session_id of the next HELLO', next.bytes);
    },
  },
];
