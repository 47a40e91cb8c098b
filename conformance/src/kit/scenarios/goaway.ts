import { setTimeout as pause } from 'node:timers/promises';
import { Deviation, must, mustEqual, NotApplicable } from '../deviation.js';
import { controlOn, envelope, type Kit, payloadOf } from '../kit.js';
import { countIn, mapIn } from '../members.js';
import { helloOf } from '../offers.js';
import type { Scenario } from '../scenario.js';
import type { Session } from '../session.js';
import { toldBy } from '../told.js';
import { A_WHILE } from '../waiting.js';
import { checkParts } from './streams.js';

/** Servers that leave. */

const SECTION = '§2 GOAWAY';

/** A session whose server drains. @param options milliseconds. */
async function draining(kit: Kit, deadline: number, retryAfter = 1): Promise<Session> {
  const session = await kit.sessionAnew();
  await session.requires('drain');
  session.answersPings = false;
  await session.ask({ test: 'drain', deadline_ms: deadline, retry_after_ms: retryAfter });
  return session;
}

const pong = (session: Session) => session.wire.send(session.control('PONG'));

/** Longer than servers are silent before they ask whether a client that acknowledges nothing is there. */
const PING_MS = 7_000;

/** The server knows that GOAWAY was read. */
async function refuses(session: Session): Promise<void> {
  await pause(A_WHILE);
  const { error } = await session.over(await session.ask({ test: 'echo' }, { bytes: 'late' }));
  mustEqual(error?.['code'], 'draining', 'the code of the error for a request after GOAWAY');
}

/** Says GOAWAY to a client, and waits until it has read it. */
async function told(session: Session, payload: Record<string, unknown>): Promise<void> {
  session.wire.send(session.control('GOAWAY', payload));
  await session.ping();
}

export const GOAWAY: readonly Scenario[] = [
  {
    name: 'goaway/is-told',
    section: SECTION,
    tests: 'server',
    title: 'A server that drains says so, serves what was on its way, and refuses what comes later.',
    async run(kit) {
      const session = await draining(kit, 4_000, 20);
      const { timestamp, payload } = await session.controlOf('GOAWAY');
      const stated = mapIn({ payload }, 'payload', {});
      countIn(stated, 'retry_after_ms', 0);
      const deadline = countIn(stated, 'deadline', 0);
      const left = deadline - Number(timestamp);
      must(deadline === 0 || (left > 0 && left <= 5_000), `the deadline is in ${left} ms`);
      await session.controlOf('PING');
      const hang = await session.ask({ test: 'hang' });
      await session.stillWorks('GOAWAY that the client has not read');
      pong(session);
      await refuses(session);
      must(hang.error === undefined, 'a request from before was ended before the deadline');
      await session.link.writeBody(0, 0, { bytes: 'a message' });
      await session.close();
      await kit.sessionAnew();
    },
  },
  {
    name: 'goaway/again',
    section: SECTION,
    tests: 'server',
    title: 'GOAWAY is sent again on a connection that resumes the session.',
    async run(kit) {
      const session = await draining(kit, 4_000);
      await session.controlOf('GOAWAY');
      await session.ask({ test: 'hang' });
      session.cut();
      await session.controlOf('GOAWAY');
      await session.close();
      await kit.sessionAnew();
    },
  },
  {
    name: 'goaway/deadline',
    section: SECTION,
    tests: 'server',
    title: 'At the deadline the server sends CLOSE with SERVER_SHUTDOWN.',
    async run(kit) {
      const session = await draining(kit, 500);
      await session.controlOf('GOAWAY');
      await session.ask({ test: 'hang' });
      const payload = await session.closedByPeer();
      mustEqual(payload['reason'], 'SERVER_SHUTDOWN', 'the reason');
      await session.wire.end([1000], 'CLOSE at both ends');
      await kit.sessionAnew();
    },
  },
  {
    name: 'goaway/refuses-new-ones',
    section: '§2 REJECT',
    tests: 'server',
    title: 'A server that drains rejects a new session with SERVER_BUSY, and closes with 4503.',
    async run(kit) {
      const session = await draining(kit, 3_000);
      await session.controlOf('GOAWAY');
      await session.ask({ test: 'hang' });
      const wire = await kit.connect();
      wire.send(envelope('HELLO', null, helloOf({})));
      const { fields, bytes } = await controlOn(wire, 'REJECT');
      mustEqual(payloadOf(fields)['code'], 'SERVER_BUSY', 'the code', bytes);
      await wire.end([4503], 'REJECT');
      await session.close();
      await kit.sessionAnew();
    },
  },
  {
    name: 'goaway/no-new-streams',
    section: SECTION,
    tests: 'client',
    title: 'A client that has read GOAWAY opens no stream; those that are open continue, and so do messages.',
    async run(kit) {
      const session = await kit.session();
      await session.requires('goaway');
      const open = await session.ask({ test: 'ask', size: 10 });
      const asked = await session.asked('a request of the client');
      await told(session, { retry_after_ms: 1, deadline: Date.now() + 60_000 });
      const late = await session.ask({ test: 'ask', size: 10 });
      const stream = await session.over(await session.ask({ test: 'stream', parts: 3, size: 20 }));
      checkParts(stream.parts, 3, 20);
      await session.answer({ test: 'say', messages: 2, size: 20 });
      await session.until(() => session.link.messages.length >= 2 || undefined, 'two messages');
      await pause(A_WHILE);
      must(session.link.asked.length === 0, 'a stream is opened after GOAWAY');
      session.respond(asked.id, { bytes: 'answer' });
      const [{ parts }] = await toldBy(session, open);
      mustEqual(parts, ['answer'], 'the answer that came after GOAWAY');
      const [{ error }] = await toldBy(session, late);
      must(error !== undefined, 'a request after GOAWAY has not failed');
    },
  },
  {
    name: 'goaway/comes-back-later',
    section: SECTION,
    tests: 'client',
    title:
      'A client whose server drains begins another session no earlier than retry_after_ms after the end of this one.',
    async run(kit) {
      const session = await kit.session();
      await session.requires('goaway');
      const retry = 600;
      await told(session, { retry_after_ms: retry, deadline: Date.now() + 60_000 });
      // The client cannot count from before this, however late the kit hears of the end.
      const start = Date.now();
      await session.close({ reason: 'SERVER_SHUTDOWN', message: '' });
      const { hello, bytes } = await kit.greeted();
      const waited = Date.now() - start;
      must(waited >= retry - 10, `the client came back after ${waited} ms`, bytes);
      must((hello['resume'] ?? null) === null, 'the client resumes a session that has ended', bytes);
    },
  },
  {
    name: 'goaway/served-after-resume',
    section: SECTION,
    tests: 'server',
    title: 'On another connection a server that drains serves requests until GOAWAY was read there.',
    async run(kit) {
      const session = await draining(kit, 4_000);
      await session.controlOf('PING');
      await session.ask({ test: 'hang' });
      pong(session);
      await refuses(session);
      session.cut();
      await session.controlOf('GOAWAY');
      await session.stillWorks('GOAWAY that was not read on this connection');
      await session.close();
      await kit.sessionAnew();
    },
  },
  {
    name: 'goaway/pong-of-before',
    section: SECTION,
    tests: 'server',
    title: 'The PONG to an earlier PING does not say that GOAWAY was read.',
    async run(kit) {
      const session = await kit.sessionAnew();
      await session.requires('drain');
      session.answersPings = false;
      // An unacknowledged frame, and silence, make a server ask.
      session.link.acknowledges = false;
      await session.answer({ test: 'say', messages: 1, size: 20 });
      const asks = () => session.controls.some(({ type }) => type === 'PING') || undefined;
      await session.until(asks, 'PING', PING_MS).catch((error: unknown) => {
        if (!(error instanceof Deviation) || session.wire.closed !== undefined) throw error;
        throw new NotApplicable(`the server sends no PING within ${PING_MS} ms of silence`);
      });
      await session.controlOf('PING');
      await session.ask({ test: 'drain', deadline_ms: 4_000, retry_after_ms: 1 });
      await session.controlOf('GOAWAY');
      await session.controlOf('PING');
      pong(session);
      await pause(A_WHILE);
      await session.stillWorks('the PONG to a PING before GOAWAY');
      pong(session);
      await refuses(session);
      await session.close();
      await kit.sessionAnew();
    },
  },
];
