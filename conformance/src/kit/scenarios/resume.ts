import { setTimeout as pause } from 'node:timers/promises';
import { packed, textOf } from '../bodies.js';
import { must, mustEqual, NotApplicable } from '../deviation.js';
import { bodyFrames, Kind, MIN_WINDOW } from '../frames.js';
import type { Scenario } from '../scenario.js';
import { responseOf, type Session } from '../session.js';
import { toldBy } from '../told.js';
import { checkTally } from './messages.js';
import { checkParts, said } from './streams.js';

/** Sessions that continue over other connections. */

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
    title: 'A session whose connection is lost continues over another one.',
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
    title: 'A reason beside `recovered: true` does not keep a client from continuing.',
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
    title: 'A session that closes continues over the next connection, and CLOSE is sent again.',
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
  {
    name: 'resume/inside-a-body-of-the-peer',
    section: SECTION,
    title: 'A body that credit has cut is not begun again: the next connection brings the rest of it.',
    async run(kit) {
      const session = await kit.session({ link: { stream_window: MIN_WINDOW } });
      session.link.grants = false;
      session.link.acknowledges = false;
      for (const lost of [0, 1]) {
        const call = await session.ask({ test: 'echo' }, { bytes: LONG });
        await session.until(
          () => session.link.incoming.available(call.id) < 5_000 || undefined,
          'the first frames of the reply',
        );
        session.cut(lost);
        session.link.grant(call.id, LONG.length + 1_000);
        must(textOf(responseOf(await session.over(call))) === LONG, 'the echo is another text');
      }
    },
  },
  {
    name: 'resume/credit-of-streams-again',
    section: SECTION,
    title: 'Credit of each stream on which something has come is stated again, also if it was never raised.',
    async run(kit) {
      const session = await kit.session();
      if (!Number.isFinite(session.windows.messages + session.windows.stream))
        throw new NotApplicable('the peer has no windows');
      const { link } = session;
      await link.writeBody(Kind.MESSAGE, 0, { bytes: 'a message' });
      const half = link.openStream();
      const body = { bytes: 'in two frames', metadata: packed({ test: 'echo' }), pieces: [5, 100] };
      const [first, second] = bodyFrames(Kind.REQUEST, half.id, body);
      link.write(first as Uint8Array);
      const outer = await session.ask({ test: 'ask', size: 10 });
      const { id } = await session.asked('a request of the peer');
      link.write(...bodyFrames(Kind.CHUNK, id, { bytes: 'a part' }));
      await session.stillWorks('bodies that are not over');
      const missing = new Set([0, half.id, id]);
      session.cut();
      link.onCredit = (stream, limit) => {
        must(limit >= link.outgoing.limitOf(stream), `credit of stream ${stream} is taken back`);
        missing.delete(stream);
      };
      await session.until(() => missing.size === 0 || undefined, 'credit of the three streams that are open');
      link.write(second as Uint8Array);
      session.end(id);
      mustEqual(textOf(responseOf(await session.over(half))), body.bytes, 'the echo');
      mustEqual((await toldBy(session, outer))[0].parts, ['a part'], 'the parts that the peer has read');
    },
  },
  {
    name: 'resume/window-passes',
    section: SECTION,
    tests: 'client',
    title: 'A client that has been without a connection for window_ms does not ask for its session any more.',
    async run(kit) {
      const windowMs = 300;
      const session = await kit.session({ windowMs });
      await session.stillWorks('the handshake');
      session.lose();
      const deadline = Date.now() + windowMs + kit.door.timeoutMs;
      for (;;) {
        const { wire, hello, bytes } = await kit.greeted();
        if ((hello['resume'] ?? null) === null) return;
        must(Date.now() < deadline, 'the client asks for a session whose window has passed', bytes);
        wire.close(1012);
        await pause(20);
      }
    },
  },
  {
    name: 'resume/repeats-beyond-the-rate',
    section: SECTION,
    tests: 'client',
    title: 'What is written again does not wait for the rate of ACCEPT.',
    async run(kit) {
      const session = await kit.session({ limits: { messagesPerMinute: 30 } });
      session.link.acknowledges = false;
      await session.ask({ test: 'say', messages: 40, size: 20 });
      await session.until(() => session.link.received >= 28 || undefined, 'the messages of one minute');
      const { received } = session.link;
      session.cut(28);
      await session.until(() => session.link.received >= received || undefined, 'the same messages again');
    },
  },
];
