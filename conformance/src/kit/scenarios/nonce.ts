import { randomBytes } from 'node:crypto';
import type { Fields } from '../bodies.js';
import { must, mustEqual, NotApplicable } from '../deviation.js';
import { type Control, controlOn, envelope, type Kit, payloadOf, saidOn } from '../kit.js';
import { acceptIn, type Ticket, ticketIn } from '../members.js';
import { helloOf } from '../offers.js';
import type { Scenario } from '../scenario.js';
import type { Wire } from '../wire.js';

/** A HELLO that comes again, and what names its session. */

const SECTION = '§6 A HELLO that comes again';
const NONCE_BYTES = 16;

interface Accepted {
  readonly wire: Wire;
  readonly id: string;
  readonly ticket: Ticket;
  readonly bytes: Uint8Array;
}

/** @throws {NotApplicable} if the server does not say that it knows nonces. */
async function requires(kit: Kit, ...abilities: readonly string[]): Promise<void> {
  const session = await kit.session();
  for (const ability of ['nonce', ...abilities]) await session.requires(ability);
}

const withNonce = (nonce: Uint8Array, change: Fields = {}): Fields => ({ ...helloOf({}), nonce, ...change });

/** A connection on which this HELLO was said. */
async function said(kit: Kit, hello: Fields): Promise<Wire> {
  const wire = await kit.connect();
  wire.send(envelope('HELLO', null, hello));
  return wire;
}

async function accepted(kit: Kit, hello: Fields): Promise<Accepted> {
  const wire = await said(kit, hello);
  const { fields, bytes } = await controlOn(wire, 'ACCEPT');
  const ticket = ticketIn(acceptIn(payloadOf(fields), bytes), bytes);
  return { wire, id: fields['session_id'] as string, ticket, bytes };
}

/** The session continues, on this connection. */
async function works({ wire, id }: Accepted): Promise<void> {
  wire.send(envelope('PING', id, {}));
  await saidOn(wire, 'PONG');
}

/** Shows that ACCEPT has arrived: an acknowledgement of nothing. */
async function shows(session: Accepted): Promise<void> {
  session.wire.send(Uint8Array.of(0x18, 0));
  await works(session);
}

/** The nonce of a HELLO. @throws {NotApplicable} without one. */
function nonceIn(hello: Fields, bytes: Uint8Array): Uint8Array {
  const { nonce } = hello;
  if (nonce === undefined || nonce === null) throw new NotApplicable('the client sends no nonce');
  must(nonce instanceof Uint8Array && nonce.length === NONCE_BYTES, 'nonce is not 16 bytes', bytes);
  return nonce;
}

const isSame = (a: Uint8Array, b: Uint8Array): boolean => Buffer.compare(a, b) === 0;

export const NONCE: readonly Scenario[] = [
  {
    name: 'nonce/same-session',
    section: SECTION,
    tests: 'server',
    title:
      'A HELLO that comes again continues its session, with the same answer, whether its connection is lost or not.',
    async run(kit) {
      await requires(kit);
      const hello = withNonce(randomBytes(NONCE_BYTES));
      const first = await accepted(kit, hello);
      const second = await accepted(kit, hello);
      await first.wire.end([4408], 'the same HELLO on another connection');
      second.wire.cut();
      const third = await accepted(kit, hello);
      for (const { id, ticket, bytes } of [second, third]) {
        mustEqual(id, first.id, 'session_id', bytes);
        mustEqual(ticket.token, first.ticket.token, 'resume.token', bytes);
        mustEqual(ticket.recovered, false, 'resume.recovered', bytes);
      }
      await works(third);
      const resume = { session_id: first.id, token: first.ticket.token, received: 0, attempt: 1 };
      const { nonce: _, ...without } = hello;
      const resumed = await accepted(kit, { ...without, resume });
      must(resumed.ticket.recovered, 'the session is not resumed afterwards', resumed.bytes);
    },
  },
  {
    name: 'nonce/late-copy',
    section: SECTION,
    tests: 'server',
    title:
      'A copy of HELLO that comes after a link frame of the client gets 4410, and the session continues.',
    async run(kit) {
      await requires(kit);
      const hello = withNonce(randomBytes(NONCE_BYTES));
      const session = await accepted(kit, hello);
      await shows(session);
      await (await said(kit, hello)).end([4410], 'a copy of HELLO');
      await works(session);
    },
  },
  {
    name: 'nonce/other-offer',
    section: SECTION,
    tests: 'server',
    title: 'A HELLO with the nonce of another one and another offer gets 4400, and the session continues.',
    async run(kit) {
      await requires(kit);
      const nonce = randomBytes(NONCE_BYTES);
      const session = await accepted(kit, withNonce(nonce));
      await (await said(kit, withNonce(nonce, { max_payload_size: 4_321 }))).end([4400], 'another offer');
      await works(session);
    },
  },
  {
    name: 'nonce/of-another',
    section: SECTION,
    tests: 'server',
    title: 'The nonce of another principal is one that the server does not know.',
    async run(kit) {
      await requires(kit, 'credentials');
      const nonce = randomBytes(NONCE_BYTES);
      const session = await accepted(kit, withNonce(nonce));
      const other = await accepted(kit, withNonce(nonce, { auth: { token: 'somebody-else' } }));
      must(other.id !== session.id, 'another principal gets the session', other.bytes);
      await works(session);
    },
  },
  {
    name: 'nonce/is-repeated',
    section: SECTION,
    tests: 'client',
    title:
      'A client repeats the nonce until it has received ACCEPT, resumes without it, and has another one for each session.',
    async run(kit) {
      const first = await kit.greeted();
      const nonce = nonceIn(first.hello, first.bytes);
      first.wire.cut();
      const second = await kit.greeted();
      must(isSame(nonceIn(second.hello, second.bytes), nonce), 'the nonce is not repeated', second.bytes);
      const { auth: _, resume: __, ...offer } = first.hello;
      const { auth: ___, resume: ____, ...again } = second.hello;
      mustEqual(again, offer, 'the offer of a HELLO that is said again', second.bytes);
      const id = 'sess_conformance_nonce';
      second.wire.send(envelope('ACCEPT', id, kit.acceptOf({}, second.hello)));
      second.wire.send(envelope('PING', id, {}));
      await saidOn(second.wire, 'PONG');
      second.wire.cut();
      const third = await kit.greeted();
      const { hello, bytes }: Pick<Control, 'bytes'> & { readonly hello: Fields } = third;
      if ((hello['resume'] ?? null) !== null) {
        must((hello['nonce'] ?? null) === null, 'a HELLO that resumes has a nonce', bytes);
        third.wire.send(envelope('REJECT', null, { code: 'UNKNOWN', message: '', retryable: false }));
        third.wire.close(4400);
      } else third.wire.cut();
      const next = await kit.greeted();
      must(!isSame(nonceIn(next.hello, next.bytes), nonce), 'two sessions have one nonce', next.bytes);
    },
  },
];
