import { setTimeout as pause } from 'node:timers/promises';
import type { Fields } from '../bodies.js';
import { must, mustEqual, NotApplicable } from '../deviation.js';
import { controlOn, envelope, type Kit, payloadOf } from '../kit.js';
import { helloOf, type Offer } from '../offers.js';
import type { Scenario } from '../scenario.js';
import type { Session } from '../session.js';

/** Credentials: what HELLO states, and AUTH. */

const SECTION = '§2 AUTH';
/** How much later than stated a client's clock may be. */
const A_SECOND = 1_000;

/** A session with a server that authenticates. */
async function admitted(kit: Kit, offer: Offer = {}): Promise<Session> {
  const session = await kit.session(offer);
  await session.requires('credentials');
  return session;
}

/** Milliseconds that the credentials have left, by the clock of the peer. */
function leftIn({ timestamp, payload }: Fields): number | null {
  const { expires_at: end } = payload as Fields;
  must(end === null || typeof end === 'number', 'expires_at is neither a time nor null');
  return end === null ? null : end - Number(timestamp);
}

/** Sends AUTH in a session, and expects 4401. */
const refuses = (name: string, title: string, token: string): Scenario => ({
  name: `auth/${name}`,
  section: SECTION,
  tests: 'server',
  title,
  async run(kit) {
    const session = await admitted(kit);
    await session.violate(session.control('AUTH', { token }), [4401], title);
  },
});

export const AUTH: readonly Scenario[] = [
  {
    name: 'auth/refused',
    section: '§2 REJECT',
    tests: 'server',
    title: 'Wrong credentials get REJECT with SECURITY_POLICY, and 4401.',
    async run(kit) {
      await admitted(kit);
      const wire = await kit.connect();
      wire.send(envelope('HELLO', null, helloOf({ token: 'wrong' })));
      const { fields, bytes } = await controlOn(wire, 'REJECT');
      mustEqual(payloadOf(fields)['code'], 'SECURITY_POLICY', 'the code', bytes);
      await wire.end([4401], 'REJECT');
    },
  },
  {
    name: 'auth/header',
    section: '§1 WebSocket binding',
    tests: 'server',
    title: 'Credentials in the header Authorization count, unless HELLO has others.',
    async run(kit) {
      await admitted(kit);
      const { auth: _, ...without } = helloOf({});
      const opened = async (token: string, hello: Fields) => {
        const wire = await kit.connect({ headers: { authorization: `Bearer ${token}` } });
        wire.send(envelope('HELLO', null, hello));
        return wire;
      };
      await controlOn(await opened('kit', without), 'ACCEPT');
      await controlOn(await opened('wrong', { ...without, auth: { token: 'kit' } }), 'ACCEPT');
      await controlOn(await opened('wrong', without), 'REJECT');
      await controlOn(await opened('kit', { ...without, auth: { token: 'wrong' } }), 'REJECT');
    },
  },
  {
    name: 'auth/is-not-repeated',
    section: '§2 HELLO',
    tests: 'server',
    title: 'ACCEPT does not repeat credentials or the token of before.',
    async run(kit) {
      await admitted(kit);
      const token = 'a-token-that-nobody-repeats';
      const wire = await kit.connect();
      wire.send(
        envelope('HELLO', null, {
          ...helloOf({ token }),
          resume: { session_id: 'sess_x', token: 'void-token' },
        }),
      );
      const { bytes } = await controlOn(wire, 'ACCEPT');
      const text = Buffer.from(bytes).toString('latin1');
      must(
        !text.includes(token) && !text.includes('void-token'),
        'ACCEPT repeats what HELLO keeps secret',
        bytes,
      );
    },
  },
  {
    name: 'auth/is-told',
    section: SECTION,
    tests: 'server',
    title: 'If the credentials end, the server says so after ACCEPT, on each connection.',
    async run(kit) {
      const session = await admitted(kit, { token: 'kit:60000' });
      for (let round = 0; round < 2; round++) {
        const left = leftIn(await session.controlOf('AUTH'));
        must(
          left !== null && left > 50_000 && left <= 60_000 + A_SECOND,
          `the credentials end in ${left} ms`,
        );
        session.cut();
        await session.stillWorks('a lost connection');
      }
    },
  },
  {
    name: 'auth/is-answered',
    section: SECTION,
    tests: 'server',
    title: 'AUTH is answered although the present credentials do not end.',
    async run(kit) {
      const session = await admitted(kit);
      session.wire.send(session.control('AUTH', { token: 'kit' }));
      mustEqual(leftIn(await session.controlOf('AUTH')), null, 'expires_at');
      session.wire.send(session.control('AUTH', { token: 'kit:60000' }));
      must((leftIn(await session.controlOf('AUTH')) ?? 0) > 0, 'expires_at is not a time to come');
      await session.stillWorks('AUTH');
    },
  },
  {
    name: 'auth/renewed',
    section: SECTION,
    tests: 'server',
    title: 'A session whose credentials are renewed in time continues.',
    async run(kit) {
      const session = await admitted(kit, { token: 'kit:700' });
      await session.controlOf('AUTH');
      session.wire.send(session.control('AUTH', { token: 'kit' }));
      await session.controlOf('AUTH');
      await pause(1_000);
      await session.stillWorks('the end of the first credentials');
    },
  },
  {
    name: 'auth/ends',
    section: SECTION,
    tests: 'server',
    title: 'When the credentials end, the server closes with 4401.',
    async run(kit) {
      const session = await admitted(kit, { token: 'kit:400' });
      await session.wire.end([4401], 'the end of the credentials');
    },
  },
  refuses('of-another', 'Credentials of another principal end the session with 4401.', 'another'),
  refuses('wrong', 'Wrong credentials in AUTH end the session with 4401.', 'wrong'),
  {
    name: 'auth/twice',
    section: SECTION,
    tests: 'server',
    title: 'Each AUTH is answered, or one that does not wait for the answer ends the session with 4400.',
    async run(kit) {
      const session = await admitted(kit);
      for (let index = 0; index < 2; index++) session.wire.send(session.control('AUTH', { token: 'kit' }));
      await session.controlOf('AUTH').catch(() => {});
      if (session.wire.closed === undefined) await session.controlOf('AUTH').catch(() => {});
      if (session.wire.closed === undefined) return await session.stillWorks('AUTH twice');
      await session.wire.end([4400], 'AUTH before the one before was answered');
    },
  },
  {
    name: 'auth/in-hello',
    section: '§2 HELLO',
    tests: 'client',
    title: 'A client states its credentials in HELLO of each connection.',
    async run(kit) {
      const session = await admitted(kit);
      const tokenIn = (hello: Fields) => (hello['auth'] as Fields | undefined)?.['token'];
      must(typeof tokenIn(session.agreement.hello) === 'string', 'HELLO has no token');
      session.wire.cut();
      const { hello, bytes } = await kit.greeted();
      must(typeof tokenIn(hello) === 'string', 'HELLO that resumes has no token', bytes);
    },
  },
  {
    name: 'auth/renews',
    section: SECTION,
    tests: 'client',
    title:
      'A client renews credentials before they end, and waits for the answer before it sends AUTH again.',
    async run(kit) {
      const session = await admitted(kit);
      if ((session.agreement.hello['auth'] ?? null) === null)
        throw new NotApplicable('the client has no credentials');
      const told = (ms: number | null) =>
        session.wire.send(session.control('AUTH', { expires_at: ms === null ? null : Date.now() + ms }));
      for (let round = 0; round < 2; round++) {
        told(1_500);
        const { payload } = await session.controlOf('AUTH');
        must(typeof (payload as Fields)['token'] === 'string', 'AUTH of the client has no token');
        await session.stillWorks('AUTH that is not answered yet');
        await pause(50);
        must(
          !session.controls.some(({ type }) => type === 'AUTH'),
          'AUTH before the one before was answered',
        );
      }
      told(null);
      await session.stillWorks('AUTH');
    },
  },
];
