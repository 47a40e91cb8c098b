import { setTimeout as pause } from 'node:timers/promises';
import { packed } from '../bodies.js';
import { must, mustEqual } from '../deviation.js';
import { bodyFrames, Kind } from '../frames.js';
import type { Scenario } from '../scenario.js';
import { A_WHILE } from '../waiting.js';
import { checkTally } from './messages.js';

/** How sessions end in order. */

const SECTION = '§3 Closing';

export const CLOSING: readonly Scenario[] = [
  {
    name: 'closing/kit-begins',
    section: SECTION,
    title: 'The peer answers CLOSE with an acknowledgement, what waits, and its CLOSE.',
    async run(kit) {
      const session = await kit.session();
      await session.link.writeBody(Kind.MESSAGE, 0, { bytes: 'the last one' });
      await session.close();
    },
  },
  {
    name: 'closing/everything-arrives',
    section: SECTION,
    title: 'What the peer has to say before CLOSE arrives before its CLOSE.',
    async run(kit) {
      const session = await kit.session();
      const call = await session.ask({ test: 'say', messages: 30, size: 100 });
      await session.over(call);
      await session.close();
      mustEqual(session.link.messages.length, 30, 'the number of messages before CLOSE');
    },
  },
  {
    name: 'closing/peer-begins',
    section: SECTION,
    title: 'The peer closes with its code, waits for CLOSE and the acknowledgement, and ends with 1000.',
    async run(kit) {
      const session = await kit.session();
      await session.ask({ test: 'close', code: 'finished', message: 'a test' });
      const payload = await session.closedByPeer();
      mustEqual(payload['code'], 'finished', 'the code');
      mustEqual(payload['message'], 'a test', 'the message');
      await session.wire.end([1000], 'CLOSE at both ends');
    },
  },
  {
    name: 'closing/no-end',
    section: SECTION,
    title: 'A reply that closing cuts short gets no end.',
    async run(kit) {
      const session = await kit.session();
      const call = await session.ask({ test: 'hang' });
      await session.stillWorks('a request that waits');
      await session.close();
      must(call.end === undefined && call.response === undefined, 'a reply that was cut short has ended');
    },
  },
  {
    name: 'closing/frame-after-close',
    section: SECTION,
    title: 'A counted frame after CLOSE ends the session with 4400.',
    async run(kit) {
      const session = await kit.session();
      await session.stillWorks('the handshake');
      await session.violate(
        [
          session.control('CLOSE', { reason: 'NORMAL', message: '' }),
          ...bodyFrames(Kind.MESSAGE, 0, { bytes: 'x' }),
        ],
        [4400],
        'a message after CLOSE',
      );
    },
  },
  {
    name: 'closing/without-resume',
    section: SECTION,
    title: 'Without resume the end that answers CLOSE closes with 1000 itself, or lets the other do so.',
    async run(kit) {
      const session = await kit.session({ extensions: { resume: undefined } });
      await checkTally(session, []);
      session.wire.send(session.control('CLOSE', { reason: 'NORMAL', message: '' }));
      await session.controlOf('CLOSE');
      session.link.acknowledge();
      await session.wire.end([1000], 'CLOSE at both ends');
    },
  },
  {
    name: 'closing/unknown-member',
    section: SECTION,
    title: 'CLOSE with a reason and members that the peer does not know is a CLOSE.',
    async run(kit) {
      const session = await kit.session();
      await session.answer({ test: 'echo' }, { bytes: packed({}) });
      await session.close({ reason: 'SOMETHING_NEW', message: 'a test', novelty: 1 });
    },
  },
  {
    name: 'closing/acknowledges-before-close',
    section: SECTION,
    title: 'The peer acknowledges everything at once when CLOSE comes, before its own CLOSE.',
    async run(kit) {
      const session = await kit.session();
      for (const text of ['one', 'two', 'three'])
        await session.link.writeBody(Kind.MESSAGE, 0, { bytes: text });
      await session.close();
      const left = session.link.written.length - (session.confirmedAtClose ?? 0);
      must(left === 0, `${left} frames were not acknowledged when the CLOSE of the peer came`);
    },
  },
  {
    name: 'closing/waits-for-acknowledgement',
    section: SECTION,
    title: 'An end that closes does not leave with 1000 before everything is acknowledged.',
    async run(kit) {
      const session = await kit.session();
      session.link.acknowledges = false;
      await session.answer({ test: 'say', messages: 3, size: 20 });
      await session.ask({ test: 'close', code: 'finished', message: '' });
      await session.controlOf('CLOSE');
      session.wire.send(session.control('CLOSE', { reason: 'NORMAL', message: '' }));
      await pause(A_WHILE);
      const code = session.wire.closed?.code;
      must(code === undefined, `the peer has left with ${code} before its frames were acknowledged`);
      session.link.acknowledge();
      await session.wire.end([1000], 'CLOSE at both ends');
    },
  },
];
