import { setTimeout as pause } from 'node:timers/promises';
import { crc32 } from 'node:zlib';
import { packed, textOf } from '../bodies.js';
import { mustEqual } from '../deviation.js';
import { Kind } from '../frames.js';
import type { Scenario } from '../scenario.js';
import type { Session } from '../session.js';
import { said } from './streams.js';

/** One-way messages, in both directions, and what is not about streams. */

/** Waits until the peer has counted the messages, and compares them. */
export async function checkTally(session: Session, texts: readonly string[]): Promise<void> {
  let tally = await session.tally();
  for (let tries = 0; tally.messages < texts.length && tries < 100; tries++) {
    await pause(20);
    tally = await session.tally();
  }
  mustEqual(tally.messages, texts.length, 'the number of messages that the peer has received');
  mustEqual(tally.crc, crc32(texts.join('')), 'the CRC-32 of all messages that the peer has received');
}

export const MESSAGES: readonly Scenario[] = [
  {
    name: 'messages/received',
    section: '§4 The link: streams',
    title: 'The peer receives one-way messages once and in order.',
    async run(kit) {
      const session = await kit.session();
      const texts = Array.from({ length: 40 }, (_, index) => said('message', index, 15));
      for (const text of texts) await session.link.writeBody(Kind.MESSAGE, 0, { bytes: text });
      await checkTally(session, texts);
    },
  },
  {
    name: 'messages/redelivered',
    section: '§11 Agents: delivery',
    title:
      'A message that may have been delivered before says so in its metadata, and is a message like any other.',
    async run(kit) {
      const session = await kit.session();
      const metadata = packed({ '@redelivered': true });
      await session.link.writeBody(Kind.MESSAGE, 0, { bytes: 'one', metadata });
      await session.link.writeBody(Kind.MESSAGE, 0, { bytes: 'two' });
      await checkTally(session, ['one', 'two']);
    },
  },
  {
    name: 'messages/sent',
    section: '§4 The link: streams',
    title: 'The peer sends one-way messages on stream 0, in order.',
    async run(kit) {
      const session = await kit.session();
      await session.answer({ test: 'say', messages: 40, size: 15 });
      const { messages } = session.link;
      await session.until(() => messages.length >= 40 || undefined, '40 messages');
      mustEqual(
        messages.map(textOf),
        Array.from({ length: 40 }, (_, i) => said('message', i + 1, 15)),
        'the messages',
      );
    },
  },
  {
    name: 'messages/ping',
    section: '§2 PING and PONG',
    title: 'PING is answered at once.',
    async run(kit) {
      const session = await kit.session();
      await session.ping();
      await session.stillWorks('PING');
    },
  },
  {
    name: 'messages/unknown-type',
    section: '§2 Control messages',
    title: 'A control message of an unknown type is ignored.',
    async run(kit) {
      const session = await kit.session();
      session.wire.send(session.control('NOVELTY', { any: [1, 2] }));
      await session.stillWorks('an unknown control message');
    },
  },
  {
    name: 'messages/acknowledged',
    section: '§4 The link: acknowledgement',
    title: 'Counted frames are acknowledged after 32 frames, 64 KiB or 200 ms.',
    async run(kit) {
      const session = await kit.session();
      await session.link.writeBody(Kind.MESSAGE, 0, { bytes: 'one' });
      const all = () => session.link.confirmed === session.link.written.length || undefined;
      await session.until(all, 'the acknowledgement of one frame', 1500);
      for (let index = 0; index < 40; index++) await session.link.writeBody(Kind.MESSAGE, 0, { bytes: 'x' });
      await session.until(all, 'the acknowledgement of 40 frames', 1500);
    },
  },
  {
    name: 'messages/acknowledged-too-much',
    section: '§4 The link: acknowledgement',
    title: 'An acknowledgement above what was written ends the session with 4400.',
    async run(kit) {
      const session = await kit.session();
      await session.stillWorks('the handshake');
      await session.violate(Uint8Array.of(0x18, 0x7f), [4400], 'an acknowledgement of 127 frames');
    },
  },
  {
    name: 'messages/large-control',
    section: '§2 Control messages',
    title: 'A control message above 20 KiB ends the session with 4413.',
    async run(kit) {
      const session = await kit.session();
      await session.stillWorks('the handshake');
      await session.violate(
        session.control('NOVELTY', { pad: 'x'.repeat(21_000) }),
        [4413],
        'a control message of 21 KB',
      );
    },
  },
  {
    name: 'messages/many-entries',
    section: '§2 Control messages',
    title: 'A control message with more than 512 entries ends the session with 4413.',
    async run(kit) {
      const session = await kit.session();
      await session.stillWorks('the handshake');
      const bytes = session.control('NOVELTY', { list: Array.from({ length: 600 }, () => 0) });
      await session.violate(bytes, [4413], 'a control message with 600 entries');
    },
  },
  {
    name: 'messages/extension-type',
    section: '§2 Control messages',
    title: 'A MessagePack extension type ends the session with 4400.',
    async run(kit) {
      const session = await kit.session();
      await session.stillWorks('the handshake');
      const bytes = packed({
        type: 'PING',
        session_id: session.id,
        timestamp: 1,
        payload: { at: new Date(0) },
      });
      await session.violate(bytes, [4400], 'an extension type of MessagePack');
    },
  },
  {
    name: 'messages/depth',
    section: '§2 Control messages',
    title: 'A control message that nests 32 levels deep is read; one more ends the session with 4413.',
    async run(kit) {
      const session = await kit.session();
      // The envelope and its payload are the first two.
      const nested = (levels: number) => {
        let value: unknown = [];
        for (let level = 3; level < levels; level++) value = [value];
        return session.control('NOVELTY', { value });
      };
      session.wire.send(nested(32));
      await session.stillWorks('a control message of 32 levels');
      await session.violate(nested(33), [4413], 'a control message of 33 levels');
    },
  },
];
