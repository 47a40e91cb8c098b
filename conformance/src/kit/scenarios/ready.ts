import { mustEqual } from '../deviation.js';
import { Codec } from '../frames.js';
import type { Scenario } from '../scenario.js';

/** Codecs that a client loads after the handshake. */

const SECTION = '§2 READY';
const LONG = 'the same words again and again, '.repeat(40);
const OFFER = { algorithms: ['BROTLI', 'NONE'], extensions: { ready: '["BROTLI"]' } };

export const READY: readonly Scenario[] = [
  {
    name: 'ready/not-before',
    section: SECTION,
    tests: 'server',
    title: 'The server does not choose a codec that is not loaded, until READY names it.',
    async run(kit) {
      const session = await kit.session(OFFER);
      await session.stillWorks('the handshake');
      const { messages } = session.link;
      await session.answer({ test: 'say', messages: 3, text: LONG });
      await session.until(() => messages.length >= 3 || undefined, 'three messages');
      for (const { codec } of messages) mustEqual(codec, Codec.NONE, 'the codec before READY');
      session.wire.send(session.control('READY', { codecs: ['NOVELTY', 'BROTLI'] }));
      await session.answer({ test: 'say', messages: 3, text: LONG });
      await session.until(() => messages.length >= 6 || undefined, 'six messages');
    },
  },
  {
    name: 'ready/not-agreed',
    section: SECTION,
    tests: 'server',
    title: 'READY that was not agreed on ends the session with 4400.',
    async run(kit) {
      // To a server that does not know READY it is a message of an unknown type.
      await kit.session(OFFER);
      const session = await kit.session();
      await session.stillWorks('the handshake');
      await session.violate(session.control('READY', { codecs: [] }), [4400], 'READY that was not agreed on');
    },
  },
];
