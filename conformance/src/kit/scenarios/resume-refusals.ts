import { setTimeout as pause } from 'node:timers/promises';
import type { Fields } from '../bodies.js';
import { must, mustEqual } from '../deviation.js';
import { envelope, type Kit } from '../kit.js';
import { countIn, namesIn } from '../members.js';
import type { Scenario } from '../scenario.js';
import type { Session } from '../session.js';
import { A_WHILE } from '../waiting.js';

/** Attempts to resume that must not succeed, or must succeed although something is different. */

const SECTION = '§6 Resuming';

async function begun(kit: Kit): Promise<Session> {
  const session = await kit.session();
  await session.stillWorks('the handshake');
  session.link.acknowledge();
  await session.stillWorks('an acknowledgement');
  return session;
}

/** HELLO that asks for a session in a wrong way begins a new one. */
const begins = (
  name: string,
  title: string,
  reason: string,
  change: (session: Session) => { resume?: Fields; hello?: Fields },
): Scenario => ({
  name: `resume/${name}`,
  section: SECTION,
  tests: 'server',
  title,
  async run(kit) {
    const session = await begun(kit);
    session.wire.cut();
    const { ticket, bytes } = await kit.offerToResume(session, change(session));
    mustEqual(ticket.recovered, false, 'resume.recovered', bytes);
    // A server need not say why.
    mustEqual(ticket.reason ?? reason, reason, 'resume.reason', bytes);
  },
});

/** HELLO that asks for a session in a way that ends the connection. */
const closes = (
  name: string,
  title: string,
  code: number,
  change: (session: Session) => { resume?: Fields },
): Scenario => ({
  name: `resume/${name}`,
  section: SECTION,
  tests: 'server',
  title,
  async run(kit) {
    const session = await begun(kit);
    session.wire.cut();
    const wire = await kit.greetToResume(session, change(session));
    await wire.end([code], title);
  },
});

/** An ACCEPT that goes wrong in a session that the client under test resumes. */
const fails = (name: string, title: string, received: (session: Session) => number): Scenario => ({
  name: `resume/${name}`,
  section: SECTION,
  tests: 'client',
  title,
  async run(kit) {
    const session = await begun(kit);
    session.wire.cut();
    const { wire } = await kit.greeted();
    const resume = { token: 'next', window_ms: 60_000, recovered: true, received: received(session) };
    wire.send(envelope('ACCEPT', session.id, { ...session.agreement.accept, resume }));
    await wire.end([4400], title);
    const next = await kit.greeted();
    must((next.hello['resume'] ?? null) === null, 'the client resumes a session that has failed', next.bytes);
  },
});

export const RESUME_REFUSALS: readonly Scenario[] = [
  begins('wrong-token', 'A wrong token begins a new session.', 'unknown_session', () => ({
    resume: { token: 'not-the-token' },
  })),
  begins('unknown-session', 'An unknown session is answered like a wrong token.', 'unknown_session', () => ({
    resume: { session_id: 'sess_unheard_of' },
  })),
  begins('other-offer', 'Another offer begins a new session.', 'other_offer', ({ agreement }) => ({
    hello: { algorithms: [...namesIn(agreement.hello, 'algorithms'), 'BROTLI'] },
  })),
  {
    name: 'resume/same-meaning',
    section: SECTION,
    tests: 'server',
    title: 'The order of members and the spelling of JSON in an offer do not count.',
    async run(kit) {
      const session = await begun(kit);
      session.wire.cut();
      const { hello } = session.agreement;
      const extensions = Object.fromEntries(
        Object.entries(hello['extensions'] as Record<string, string>)
          .map(([name, text]) => [name, JSON.stringify(JSON.parse(text), null, 2)] as const)
          .reverse(),
      );
      const reversed = Object.fromEntries(Object.entries({ ...hello, extensions }).reverse());
      const { ticket, bytes } = await kit.offerToResume(session, { hello: reversed });
      mustEqual(ticket.recovered, true, 'resume.recovered', bytes);
    },
  },
  closes('stale-attempt', 'An attempt that is not at least 1 is refused with 4410.', 4410, () => ({
    resume: { attempt: 0 },
  })),
  closes('received-too-much', 'A count above what was written ends the session with 4400.', 4400, () => ({
    resume: { received: 1000 },
  })),
  closes(
    'received-too-little',
    'A count below what was acknowledged ends the session with 4400.',
    4400,
    () => ({
      resume: { received: 0 },
    }),
  ),
  {
    name: 'resume/attempt-of-before',
    section: SECTION,
    tests: 'server',
    title: 'An attempt that was accepted before is refused with 4410.',
    async run(kit) {
      const session = await begun(kit);
      session.cut();
      await session.stillWorks('a lost connection');
      session.wire.cut();
      const wire = await kit.greetToResume(session, { resume: { attempt: session.agreement.attempt - 1 } });
      await wire.end([4410], 'an attempt of before');
    },
  },
  {
    name: 'resume/takes-over',
    section: SECTION,
    tests: 'server',
    title: 'A connection that still carries the session is closed with 4409.',
    async run(kit) {
      const session = await begun(kit);
      const former = session.wire;
      await session.resume();
      await former.end([4409], 'a newer connection carries the session');
      await session.stillWorks('taking over');
    },
  },
  {
    name: 'resume/lost-accept',
    section: SECTION,
    tests: 'server',
    title: 'The token that was presented stays valid until a link frame arrives.',
    async run(kit) {
      const session = await begun(kit);
      session.wire.cut();
      const { wire } = await kit.offerToResume(session);
      wire.cut();
      await session.resume();
      await session.stillWorks('an ACCEPT that was lost');
    },
  },
  {
    name: 'resume/token-of-before',
    section: SECTION,
    tests: 'server',
    title: 'After the first link frame the token of before is void.',
    async run(kit) {
      const session = await begun(kit);
      const { token } = session.agreement;
      session.cut();
      await session.stillWorks('a lost connection');
      session.wire.cut();
      const { ticket, bytes } = await kit.offerToResume(session, { resume: { token } });
      mustEqual(ticket.recovered, false, 'resume.recovered', bytes);
    },
  },
  fails('received-beyond', 'A count above what was written ends the session with 4400.', () => 1000),
  fails('received-behind', 'A count below what was acknowledged ends the session with 4400.', () => 0),
  {
    name: 'resume/new-session',
    section: SECTION,
    tests: 'client',
    title: 'If the session is not recovered, the connection carries a new one.',
    async run(kit) {
      const session = await begun(kit);
      session.wire.cut();
      const next = await kit.session();
      await next.stillWorks('a session that was not recovered');
      mustEqual((await next.tally()).messages, 0, 'the messages of the new session');
    },
  },
  {
    name: 'resume/stale-again',
    section: SECTION,
    tests: 'client',
    title: 'After 4410 the client tries again with a larger attempt.',
    async run(kit) {
      const session = await begun(kit);
      session.wire.cut();
      const { wire, hello, bytes } = await kit.greeted();
      const resume = hello['resume'] as Fields | undefined;
      must(resume !== undefined, 'the client does not ask for its session', bytes);
      session.agreement.attempt = countIn(resume, 'attempt', 0, bytes) + 1;
      wire.close(4410);
      await wire.end(undefined, '4410');
      await session.resume();
      await session.stillWorks('4410');
    },
  },
  {
    name: 'resume/busy',
    section: SECTION,
    tests: 'client',
    title: 'After a REJECT that is retryable the client keeps its session and tries again.',
    async run(kit) {
      const session = await begun(kit);
      session.wire.cut();
      const { wire } = await kit.greeted();
      wire.send(
        envelope('REJECT', null, {
          code: 'SERVER_BUSY',
          message: 'a test',
          retryable: true,
          retry_after_ms: 1,
        }),
      );
      wire.close(4503);
      await wire.end(undefined, 'REJECT');
      await session.resume();
      await session.stillWorks('a REJECT that is retryable');
    },
  },
  {
    name: 'resume/wrong-token-keeps-the-attempt',
    section: SECTION,
    tests: 'server',
    title: 'A HELLO with a wrong token leaves the attempt of the session that it names as it is.',
    async run(kit) {
      const session = await begun(kit);
      session.lose();
      const { attempt } = session.agreement;
      const wrong = { token: 'not-the-token', attempt: attempt + 1_000 };
      const { wire, ticket, bytes } = await kit.offerToResume(session, { resume: wrong });
      must(!ticket.recovered, 'a wrong token has resumed the session', bytes);
      wire.cut();
      await session.resume();
      await session.stillWorks('a wrong token with a large attempt');
    },
  },
  {
    name: 'resume/moves-nothing',
    section: SECTION,
    tests: 'client',
    title: 'What the kit may have received is not sent again in the session that follows a lost one.',
    async run(kit) {
      const session = await begun(kit);
      session.link.acknowledges = false;
      await session.answer({ test: 'say', messages: 3, size: 20 });
      await session.until(() => session.link.messages.length >= 3 || undefined, 'three messages');
      await session.ask({ test: 'ask', size: 10 });
      await session.asked('a request of the client');
      session.lose();
      const next = await kit.session();
      await next.stillWorks('a session that was not recovered');
      await pause(A_WHILE);
      const { messages, asked } = next.link;
      mustEqual([messages.length, asked.length], [0, 0], 'messages and requests that were moved');
    },
  },
  {
    name: 'resume/other-principal',
    section: SECTION,
    tests: 'server',
    title:
      'Another principal with the token of a session is answered like a wrong token, and changes nothing.',
    async run(kit) {
      const session = await begun(kit);
      await session.requires('credentials');
      session.lose();
      const { wire, ticket, bytes } = await kit.offerToResume(session, {
        hello: { auth: { token: 'stranger' } },
      });
      must(!ticket.recovered, 'another principal has resumed the session', bytes);
      mustEqual(ticket.reason ?? 'unknown_session', 'unknown_session', 'resume.reason', bytes);
      wire.cut();
      await session.resume();
      await session.stillWorks('an attempt of another principal');
    },
  },
];
