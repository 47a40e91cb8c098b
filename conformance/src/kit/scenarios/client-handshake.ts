import type { Fields } from '../bodies.js';
import { must, NotApplicable } from '../deviation.js';
import { Listener, OFFER, READ } from '../door.js';
import { envelope, saidOn } from '../kit.js';
import { namesIn } from '../members.js';
import { jsonOf, windowsOf } from '../offers.js';
import type { Scenario } from '../scenario.js';

/** A client before there is a session. */

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
    const accept = kit.acceptOf({ algorithms: namesIn(hello, 'algorithms', bytes) }, hello);
    wire.send(envelope('ACCEPT', 'sess_conformance_bad', { ...accept, ...change(accept, hello) }));
    await wire.end([4400], title);
  },
});

/** A name that the client has not offered. */
function unoffered(hello: Fields, list: string, names: readonly string[]): string {
  const name = names.find((each) => !namesIn(hello, list).includes(each));
  if (name === undefined) throw new NotApplicable(`the client offers all ${list}`);
  return name;
}

export const CLIENT_HANDSHAKE: readonly Scenario[] = [
  {
    name: 'handshake/hello',
    section: '§2 HELLO',
    tests: 'client',
    title: 'HELLO is the first message; it states version, algorithms, encodings and extensions.',
    async run(kit) {
      const { hello, bytes } = await kit.greeted();
      must(/^(1|3)\.\d+$/.test(String(hello['version'])), 'version is neither 1.x nor 3.x', bytes);
      // The kit has read every other field with its type.
      must(namesIn(hello, 'algorithms').length > 0, 'algorithms is empty', bytes);
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
        let greeted = await kit.greeted();
        // A client whose last request got no further may say it in a frame, once.
        if (greeted.wire.socket.protocol !== READ) {
          greeted.wire.cut();
          greeted = await kit.greeted();
        }
        const { wire, hello, bytes } = greeted;
        if (wire.socket.protocol !== READ) throw new NotApplicable('the client says HELLO in a frame');
        must(bytes.length <= 3_072, `a HELLO of ${bytes.length} bytes in ${OFFER}`, bytes);
        wire.send(envelope('ACCEPT', 'sess_conformance_early', kit.acceptOf({}, hello)));
        wire.send(envelope('PING', 'sess_conformance_early', {}));
        await saidOn(wire, 'PONG');
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
      const { hello, bytes } = await kit.greeted();
      const extensions = hello['extensions'] as Fields;
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
      const { wire, hello } = await kit.greeted();
      if (!('std' in (hello['extensions'] as Fields)))
        throw new NotApplicable('the client does not list std');
      wire.send(envelope('ACCEPT', 'sess_conformance_std', { extensions: { std: '1' } }));
      wire.send(envelope('PING', 'sess_conformance_std', {}));
      await saidOn(wire, 'PONG');
    },
  },
  {
    name: 'handshake/wait-and-unknown',
    section: '§2 WAIT',
    tests: 'client',
    title: 'A client continues after WAIT and after a message of a type that it does not know.',
    async run(kit) {
      const { wire, hello } = await kit.greeted();
      wire.send(envelope('WAIT', null, {}));
      wire.send(envelope('ACCEPT', 'sess_conformance_wait', kit.acceptOf({}, hello)));
      wire.send(envelope('NOVELTY', 'sess_conformance_wait', { any: 1 }));
      wire.send(envelope('PING', 'sess_conformance_wait', {}));
      await saidOn(wire, 'PONG');
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
      await kit.greeted();
    },
  },
];
