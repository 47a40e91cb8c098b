import { textOf } from '../bodies.js';
import { must, mustEqual } from '../deviation.js';
import { Kind } from '../frames.js';
import type { Scenario } from '../scenario.js';
import { responseOf, type Session } from '../session.js';
import { toldBy } from '../told.js';
import { checkTally } from './messages.js';
import { checkParts, said } from './streams.js';

/** Sessions that go on over other connections. */

const SECTION = '§6 Resuming';
const LONG = 'abcdefghij'.repeat(2500);

/** Messages, parts and requests in both directions, which must arrive even if the connection is lost meanwhile. */
async function history(session: Session): Promise<void> {
  const { link } = session;
  const texts = Array.from({ length: 6 }, (_, index) => said('message', index, 40));
  for (const text of texts) await link.writeBody(Kind.MESSAGE, 0, { bytes: text });
  const stream = await session.ask({ test: 'stream', parts: 10, size: 50 });
  const said6 = await session.ask({ test: 'say', messages: 6, size: 30 });
  const echo = await session.ask({ test: 'echo' }, { bytes: LONG, pieces: [3000] });
  const asking = await session.ask({ test: 'ask', requests: 2, size: 20 });
  for (let index = 0; index < 2; index++) {
    const { id } = await session.asked('two requests of the peer');
    session.respond(id, { bytes: 'answer' });
  }
  for (const call of [stream, said6, echo, asking]) await session.over(call);
  checkParts(stream.parts, 10, 50);
  must(textOf(responseOf(echo)) === LONG, 'the echo is another text', responseOf(echo).content);
  const told = await toldBy(session, asking);
  mustEqual(
    told.map(({ parts }) => parts),
    [['answer'], ['answer']],
    'the answers that the peer has read',
  );
  await session.until(() => link.messages.length >= 6 || undefined, 'six messages');
  mustEqual(
    link.messages.map(textOf),
    Array.from({ length: 6 }, (_, index) => said('message', index + 1, 30)),
    'the messages of the peer',
  );
  await checkTally(session, texts);
}

export const RESUME: readonly Scenario[] = [
  {
    name: 'resume/idle',
    section: SECTION,
    title: 'A session whose connection is lost goes on over another one.',
    async run(kit) {
      const session = await kit.session();
      await session.stillWorks('the handshake');
      for (let round = 0; round < 3; round++) {
        session.cut();
        await session.stillWorks('a lost connection');
      }
    },
  },
  {
    name: 'resume/reason',
    section: SECTION,
    tests: 'client',
    title: 'A reason beside `recovered: true` does not keep a client from going on.',
    async run(kit) {
      const session = await kit.session();
      await session.stillWorks('the handshake');
      for (const reason of ['record_behind', 'of a later version']) {
        session.agreement.reason = reason;
        session.cut();
        await session.stillWorks(`a reason ${reason}`);
      }
    },
  },
  {
    name: 'resume/cut-at-every-frame-of-the-peer',
    section: SECTION,
    title: 'With a cut at every frame of the peer, everything arrives once and in order.',
    async run(kit) {
      const session = await kit.session();
      session.link.acknowledges = false;
      let most = 0;
      session.link.onCounted = () => {
        if (session.link.received <= most) return;
        most = session.link.received;
        session.cut(session.cuts % 3);
      };
      await history(session);
      must(session.cuts >= 20, `only ${session.cuts} cuts`);
    },
  },
  {
    name: 'resume/cut-at-every-frame-of-the-kit',
    section: SECTION,
    title: 'With a cut at every frame of the kit, everything arrives once and in order.',
    async run(kit) {
      const session = await kit.session();
      session.link.onWritten = () => session.cut(1);
      await history(session);
      must(session.cuts >= 10, `only ${session.cuts} cuts`);
    },
  },
  {
    name: 'resume/same-bytes',
    section: SECTION,
    title: 'Frames that are not acknowledged are written again, with the same bytes in the same order.',
    async run(kit) {
      const session = await kit.session();
      session.link.acknowledges = false;
      const call = await session.over(await session.ask({ test: 'stream', parts: 20, size: 100 }));
      session.cut(15);
      await session.until(
        () => session.link.received === session.link.log.length || undefined,
        'the frames again',
      );
      checkParts(call.parts, 20, 100);
      await session.stillWorks('repeated frames');
    },
  },
  {
    name: 'resume/credit-again',
    section: SECTION,
    title: 'Credit is stated again on the next connection.',
    async run(kit) {
      const session = await kit.session();
      const { messages: window } = session.windows;
      const size = 4000;
      const number = Math.min(600, Math.ceil((window * 1.5) / (size + 16)));
      const texts = Array.from({ length: number }, (_, index) => said('message', index, size));
      for (const [index, text] of texts.entries()) {
        await session.link.writeBody(Kind.MESSAGE, 0, { bytes: text });
        if (index % 40 === 20) session.cut();
      }
      await checkTally(session, texts);
    },
  },
  {
    name: 'resume/cancel',
    section: SECTION,
    title: 'A cancel that is lost with the connection is written again, and answered once.',
    async run(kit) {
      const session = await kit.session();
      const call = await session.ask({ test: 'hang' });
      await session.stillWorks('a request that waits');
      session.cut();
      session.link.write(Uint8Array.of(0x16, call.id));
      await session.over(call, 'end or error after a cancel');
      mustEqual((await session.tally()).cancelled, 1, 'the number of handlers that were cancelled');
    },
  },
  {
    name: 'resume/while-closing',
    section: '§3 Closing',
    title: 'A session that closes goes on over the next connection, and CLOSE is sent again.',
    async run(kit) {
      const session = await kit.session();
      await session.stillWorks('the handshake');
      await session.ask({ test: 'close', code: 'finished', message: '' });
      await session.controlOf('CLOSE');
      session.expectsCloseAgain();
      session.cut();
      const payload = await session.closedByPeer();
      mustEqual(payload['code'], 'finished', 'the code of the CLOSE that was sent again');
      await session.wire.end([1000], 'CLOSE at both ends');
    },
  },
];
