import { must } from '../deviation.js';
import { bodyFrames, Kind } from '../frames.js';
import type { Kit } from '../kit.js';
import type { Scenario } from '../scenario.js';
import type { Session } from '../session.js';

/** Violations that a session does not survive, and that it does not. */

const SECTION = '§1 WebSocket binding: frames';

const ends = (name: string, title: string, message: () => Uint8Array | string): Scenario => ({
  name: `refusals/${name}`,
  section: SECTION,
  title,
  async run(kit) {
    const session = await kit.session();
    await session.stillWorks('the handshake');
    await session.violate(message(), [4400], title);
  },
});

/** The session of before is gone, with its token. */
async function isGone(kit: Kit, session: Session): Promise<void> {
  if (kit.door.peer === 'server') {
    const { ticket, bytes } = await kit.offerToResume(session);
    must(!ticket.recovered, 'a session that was violated is resumed', bytes);
    return;
  }
  const { hello, bytes } = await kit.greeted();
  must((hello['resume'] ?? null) === null, 'the client resumes a session that was violated', bytes);
}

export const REFUSALS: readonly Scenario[] = [
  ends('bare-text', 'A text message in a session with a link ends it with 4400.', () => 'hello'),
  ends(
    'text-like-an-acknowledgement',
    'A text message whose bytes would be a link frame ends the session with 4400.',
    () => '\u0018\u0000',
  ),
  ends('bare-tokens', 'A bare data frame in a session with a link ends it with 4400.', () =>
    Uint8Array.of(0, 1, 2),
  ),
  ends('bare-tensor', 'A bare AVP frame in a session with a link ends it with 4400.', () =>
    Buffer.from('AV\x01'),
  ),
  ends('empty', 'A message without bytes ends the session with 4400.', () => new Uint8Array(0)),
  ends('unknown-first-byte', 'A first byte that is not in the table ends the session with 4400.', () =>
    Uint8Array.of(0x60, 0, 0),
  ),
  ends('no-map', 'A map that ends early ends the session with 4400.', () => Uint8Array.of(0x81, 0xa4, 0x74)),
  {
    name: 'refusals/destroys-the-session',
    section: '§3 States',
    title: 'A violation destroys the session and its resume token.',
    async run(kit) {
      const session = await kit.session();
      await session.stillWorks('the handshake');
      await session.violate(bodyFrames(Kind.MESSAGE, 2 ** 20, { bytes: 'x' }), [4400], 'a violation');
      await isGone(kit, session);
    },
  },
  {
    name: 'refusals/other-session-id',
    section: '§2 Control messages',
    title: 'A control message with the ID of another session ends the session with 4400.',
    async run(kit) {
      const session = await kit.session();
      await session.stillWorks('the handshake');
      const { packed } = await import('../bodies.js');
      const bytes = packed({ type: 'PING', session_id: 'sess_of_another', timestamp: 1, payload: {} });
      await session.violate(bytes, [4400], 'the ID of another session');
    },
  },
  {
    name: 'refusals/wrong-role',
    section: '§2 Control messages',
    title: 'A message that only the other role sends ends the session with 4400.',
    async run(kit) {
      const session = await kit.session();
      await session.stillWorks('the handshake');
      const type = kit.door.peer === 'server' ? 'GOAWAY' : 'HELLO';
      await session.violate(
        session.control(type, { retry_after_ms: 1, deadline: 1 }),
        [4400],
        `${type} of the kit`,
      );
    },
  },
];
