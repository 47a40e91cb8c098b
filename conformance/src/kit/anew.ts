import { randomUUID } from 'node:crypto';
import type { Fields } from './bodies.js';
import { must, mustEqual } from './deviation.js';
import { envelope, type Kit } from './kit.js';
import type { GoesOn } from './link.js';
import { countIn, type Ticket } from './members.js';
import type { Session } from './session.js';
import type { Wire } from './wire.js';

/** Sessions that continue over a new link (section 6): after a reload, or from the record. */

/** The fields of ACCEPT about the former session. */
export interface Rebuilt {
  readonly wire: Wire;
  readonly resume: Ticket;
  readonly rebuilt: Fields;
  readonly bytes: Uint8Array;
}

/** HELLO of the kit that asks a server for a new link. @param change members of `resume`. */
export async function askAnew(kit: Kit, session: Session, change: Fields): Promise<Rebuilt> {
  const { wire, ticket, bytes } = await kit.offerToResume(session, { resume: change });
  if (ticket.recovered) {
    mustEqual(ticket.received, 0, 'resume.received of a new link', bytes);
    must(ticket.rebuilt !== undefined, 'resume.rebuilt is no map', bytes);
    session.agreement.token = ticket.token;
  }
  return { wire, resume: ticket, rebuilt: ticket.rebuilt ?? {}, bytes };
}

/** As {@link askAnew} with `rebuild`, and continues. */
export async function rebuild(kit: Kit, session: Session, change: Fields = {}): Promise<Rebuilt> {
  const answer = await askAnew(kit, session, { rebuild: true, ...change });
  mustEqual(answer.resume.recovered, true, 'resume.recovered', answer.bytes);
  const { stream } = answer.rebuilt;
  must(typeof stream === 'number' && stream <= session.link.last.own, 'rebuilt.stream', answer.bytes);
  session.beginAnew(answer.wire);
  return answer;
}

/** The HELLO of a client under test that asks for the session, and what it says. */
export async function askedAnew(
  kit: Kit,
  session: Session,
): Promise<{ readonly wire: Wire; readonly resume: Fields; readonly bytes: Uint8Array }> {
  const { wire, hello, bytes } = await kit.greeted();
  const resume = hello['resume'] as Fields | undefined;
  must(resume !== undefined, 'the client does not ask for its session', bytes);
  mustEqual(resume['session_id'], session.id, 'resume.session_id', bytes);
  mustEqual(resume['token'], session.agreement.token, 'resume.token', bytes);
  const attempt = countIn(resume, 'attempt', 0, bytes);
  must(attempt >= session.agreement.attempt, 'resume.attempt does not grow', bytes);
  session.agreement.attempt = attempt + 1;
  return { wire, resume, bytes };
}

/** Answers {@link askedAnew} with a new link. @param kept only for durable sessions. */
export function acceptAnew(
  session: Session,
  wire: Wire,
  { rebuilt = {}, goesOn = {} }: { readonly rebuilt?: Fields; readonly goesOn?: GoesOn } = {},
): void {
  const token = randomUUID();
  const resume = {
    token,
    window_ms: 120_000,
    recovered: true,
    received: 0,
    rebuilt: { stream: session.link.last.peer, cancelled: [], ...rebuilt },
  };
  session.agreement.token = token;
  wire.send(envelope('ACCEPT', session.id, { ...session.agreement.accept, resume }));
  session.beginAnew(wire, goesOn);
}
