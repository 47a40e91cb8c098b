import { acceptAnew, askAnew, askedAnew, rebuild } from '../anew.js';
import { packed, textOf } from '../bodies.js';
import { must, mustEqual } from '../deviation.js';
import { Kind, MIN_WINDOW } from '../frames.js';
import type { Kit } from '../kit.js';
import type { Scenario } from '../scenario.js';
import type { Session } from '../session.js';
import { checkTally } from './messages.js';
import { said } from './streams.js';

/** Pages that are loaded again. */

const SECTION = '§6 A rebuilt link';

const page = (kit: Kit): Promise<Session> => kit.session({ extensions: { rebuild: '1' } });

const texts = (from: number, to: number) =>
  Array.from({ length: to - from + 1 }, (_, index) => said('message', from + index, 30));

/** HELLO with `rebuild` that must begin a new session. */
const begins = (name: string, title: string, received: (session: Session) => number): Scenario => ({
  name: `rebuild/${name}`,
  section: SECTION,
  tests: 'server',
  title,
  async run(kit) {
    const session = await page(kit);
    await session.answer({ test: 'say', messages: 5, size: 20 });
    session.link.acknowledge();
    await session.stillWorks('an acknowledgement');
    session.lose();
    const { resume, bytes } = await askAnew(kit, session, { rebuild: true, received: received(session) });
    mustEqual([resume.recovered, resume.reason], [false, 'no_state'], 'recovered and reason', bytes);
  },
});

export const REBUILD: readonly Scenario[] = [
  {
    name: 'rebuild/goes-on',
    section: SECTION,
    tests: 'server',
    title: 'The next page gets the messages of the server that the one before had not, once and in order.',
    async run(kit) {
      const session = await page(kit);
      for (const text of texts(1, 3)) await session.link.writeBody(Kind.MESSAGE, 0, { bytes: text });
      await checkTally(session, texts(1, 3));
      session.link.acknowledges = false;
      await session.answer({ test: 'say', messages: 6, size: 30 });
      await session.until(() => session.link.messages.length >= 6 || undefined, 'six messages');
      // The page has kept a count that ends behind its second message.
      const log = session.link.log;
      const message = (at: number) => ((log[at] as Uint8Array)[0] as number) === 0x10;
      const second = log.flatMap((_, at) => (message(at) ? [at + 1] : []))[1] as number;
      if (second < session.link.acknowledged) return;
      session.lose();
      await rebuild(kit, session, { received: second });
      await session.until(() => session.link.messages.length >= 4 || undefined, 'four messages again');
      mustEqual(
        session.link.messages.map(textOf),
        texts(3, 6),
        'the messages after those that were received',
      );
      await session.answer({ test: 'say', messages: 1, size: 30 });
      mustEqual(session.link.messages.length, 5, 'the number of messages');
      await session.link.writeBody(Kind.MESSAGE, 0, { bytes: said('message', 4, 30) });
      await checkTally(session, texts(1, 4));
      session.cut();
      await session.stillWorks('a lost connection after a new link');
    },
  },
  {
    name: 'rebuild/credit-is-new',
    section: SECTION,
    tests: 'server',
    title: 'Credit of the new link is what HELLO and ACCEPT state.',
    async run(kit) {
      const session = await page(kit);
      const size = 8_000;
      const number = Math.min(300, Math.ceil((session.windows.messages * 0.9) / size));
      const all: string[] = [];
      for (let round = 0; round < 3; round++) {
        for (let index = 0; index < number; index++) {
          const text = said('message', all.length, size);
          all.push(text);
          await session.link.writeBody(Kind.MESSAGE, 0, { bytes: text });
        }
        await checkTally(session, all);
        session.lose();
        await rebuild(kit, session);
      }
    },
  },
  {
    name: 'rebuild/open-requests',
    section: SECTION,
    tests: 'server',
    title: 'Open requests are over: their handlers are stopped, and ACCEPT lists them.',
    async run(kit) {
      const session = await page(kit);
      const hang = await session.ask({ test: 'hang' });
      const asks = await session.ask({ test: 'ask', size: 10 });
      const asked = await session.asked('a request of the server');
      await session.stillWorks('requests that wait');
      session.lose();
      const { rebuilt, bytes } = await rebuild(kit, session);
      const cancelled = [...((rebuilt['cancelled'] ?? []) as number[])].sort((a, b) => a - b);
      mustEqual(cancelled, [hang.id, asks.id], 'rebuilt.cancelled', bytes);
      must(session.link.last.own >= Number(rebuilt['stream']), 'rebuilt.stream is above the last one', bytes);
      let { cancelled: stopped } = await session.tally();
      for (let tries = 0; stopped === 0 && tries < 50; tries++)
        ({ cancelled: stopped } = await session.tally());
      mustEqual(stopped, 1, 'the number of handlers that were stopped');
      await session.ask({ test: 'ask', size: 10 });
      const next = await session.asked('a request of the server on the new link');
      must(next.id > asked.id, `stream ${next.id} is not above ${asked.id}`);
    },
  },
  {
    name: 'rebuild/lost-accept',
    section: SECTION,
    tests: 'server',
    title:
      'If its ACCEPT is lost with its page, the next one presents the token from before, and nothing else does.',
    async run(kit) {
      const session = await page(kit);
      session.link.acknowledges = false;
      await session.answer({ test: 'say', messages: 3, size: 30 });
      await session.until(() => session.link.messages.length >= 3 || undefined, 'three messages');
      const { token } = session.agreement;
      session.lose();
      const lost = await askAnew(kit, session, { rebuild: true, received: 0 });
      mustEqual(lost.resume.recovered, true, 'resume.recovered', lost.bytes);
      lost.wire.cut();
      const plain = await askAnew(kit, session, { token, received: 0 });
      mustEqual(
        [plain.resume.recovered, plain.resume.reason],
        [false, 'no_state'],
        'without rebuild',
        plain.bytes,
      );
      plain.wire.cut();
      await rebuild(kit, session, { token, received: 0 });
      await session.until(() => session.link.messages.length >= 3 || undefined, 'three messages again');
      mustEqual(session.link.messages.map(textOf), texts(1, 3), 'the messages');
    },
  },
  begins(
    'count-too-large',
    'A count above what was written begins a new session.',
    ({ link }) => link.received + 1000,
  ),
  begins('count-too-small', 'A count below what was acknowledged begins a new session.', () => 0),
  {
    name: 'rebuild/not-agreed',
    section: SECTION,
    tests: 'server',
    title: 'A session that has not agreed on rebuild is not rebuilt.',
    async run(kit) {
      // A server that does not know the extension resumes instead.
      await page(kit);
      const session = await kit.session();
      await session.stillWorks('the handshake');
      session.lose();
      const { resume, bytes } = await askAnew(kit, session, { rebuild: true });
      mustEqual([resume.recovered, resume.reason], [false, 'no_state'], 'recovered and reason', bytes);
    },
  },
  {
    name: 'rebuild/of-the-client',
    section: SECTION,
    tests: 'client',
    title:
      'A page that is loaded again asks for its session, counts from 0, and opens streams above those of before.',
    async run(kit) {
      const session = await page(kit);
      await session.requires('reload');
      for (const text of texts(1, 3)) await session.link.writeBody(Kind.MESSAGE, 0, { bytes: text });
      await checkTally(session, texts(1, 3));
      await session.ask({ test: 'ask', size: 10 });
      const before = (await session.asked('a request of the page')).id;
      await session.ask({ test: 'reload' });
      await session.wire.end(undefined, 'the page was loaded again');
      const { wire, resume, bytes } = await askedAnew(kit, session);
      mustEqual(resume['rebuild'], true, 'resume.rebuild', bytes);
      const received = Number(resume['received'] ?? 0);
      must(
        received <= session.link.written.length && received >= session.link.confirmed,
        'resume.received',
        bytes,
      );
      acceptAnew(session, wire, { rebuilt: { cancelled: [before] } });
      await session.link.writeBody(Kind.MESSAGE, 0, { bytes: said('message', 4, 30) });
      await checkTally(session, texts(1, 4));
      await session.ask({ test: 'ask', size: 10 });
      const after = (await session.asked('a request of the next page')).id;
      must(after > before, `stream ${after} is not above ${before}`);
      session.cut();
      await session.stillWorks('a lost connection of the next page');
    },
  },
  {
    name: 'rebuild/without-rebuilt',
    section: SECTION,
    tests: 'client',
    title: 'An ACCEPT without rebuilt, although it was asked for, fails with 4400.',
    async run(kit) {
      const session = await page(kit);
      await session.requires('reload');
      await session.ask({ test: 'reload' });
      await session.wire.end(undefined, 'the page was loaded again');
      const { wire } = await askedAnew(kit, session);
      const resume = { token: 'next', window_ms: 60_000, recovered: true, received: 0 };
      const { accept } = session.agreement;
      wire.send(
        packed({
          type: 'ACCEPT',
          session_id: session.id,
          timestamp: Date.now(),
          payload: { ...accept, resume },
        }),
      );
      await wire.end([4400], 'ACCEPT without rebuilt');
      const { hello, bytes } = await kit.greeted();
      must((hello['resume'] ?? null) === null, 'the client resumes a session that has failed', bytes);
    },
  },
  {
    name: 'rebuild/half-received-message',
    section: SECTION,
    tests: 'server',
    title: 'A message of which the page before had the first frames only comes again, from its beginning.',
    async run(kit) {
      const size = 30_000;
      const link = { message_window: MIN_WINDOW };
      const session = await kit.session({ link, extensions: { rebuild: '1' } });
      session.link.grants = false;
      await session.ask({ test: 'say', messages: 1, size });
      const { incoming } = session.link;
      await session.until(() => incoming.available(0) < 5_000 || undefined, 'the first frames of a message');
      session.link.acknowledge();
      await session.stillWorks('a message that waits for credit');
      session.lose();
      await rebuild(kit, session);
      await session.answer({ test: 'say', messages: 1, size: 30 });
      await session.until(() => session.link.messages.length >= 2 || undefined, 'two messages');
      const texts = [said('message', 1, size), said('message', 1, 30)];
      mustEqual(session.link.messages.map(textOf), texts, 'the messages');
    },
  },
];
