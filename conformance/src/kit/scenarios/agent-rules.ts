import { setTimeout as pause } from 'node:timers/promises';
import { type Fields, packed } from '../bodies.js';
import { mustEqual } from '../deviation.js';
import { bodyFrames, frame, Kind } from '../frames.js';
import { jsonIn, mapIn } from '../members.js';
import type { Scenario } from '../scenario.js';
import { responseOf, type Session } from '../session.js';
import { toldBy } from '../told.js';
import { agent, heard, tells } from './agents.js';

/** Agents as a client sees them, and frames with names that no session survives. */

const SECTION = '§11 Agents';

/** A frame that the session of an agent must not survive. */
const ends = (
  name: string,
  title: string,
  bytes: (session: Session) => Uint8Array | readonly Uint8Array[],
): Scenario => ({
  name: `agents/${name}`,
  section: SECTION,
  title,
  async run(kit) {
    const session = await agent(kit, 'kit');
    await session.violate(bytes(session), [4400], title);
  },
});

const addressed = (number: number, text: string) =>
  bodyFrames(Kind.MESSAGE, 0, { bytes: text, agent: number });

export const AGENT_RULES: readonly Scenario[] = [
  {
    name: 'agents/is-addressed',
    section: SECTION,
    tests: 'client',
    title: 'A client announces a name before it uses its number, in messages and requests.',
    async run(kit) {
      const session = await agent(kit, 'kit', { extensions: { agents: '{}' } });
      await session.requires('who');
      await session.answer({ test: 'say', messages: 2, size: 20, to: 'worker-1' });
      const messages = await heard(session, 2);
      mustEqual(
        messages.map((body) => body.agent),
        ['worker-1', 'worker-1'],
        'the receivers',
      );
      const call = await session.ask({ test: 'ask', size: 10, to: 'worker-2' });
      const asked = await session.asked('a request to an agent');
      mustEqual(asked.body.agent, 'worker-2', 'the receiver');
      session.respond(asked.id, { bytes: 'answer' });
      const [{ parts }] = await toldBy(session, call);
      mustEqual(parts, ['answer'], 'the answer');
    },
  },
  {
    name: 'agents/sender',
    section: SECTION,
    tests: 'client',
    title: 'A client reads the sender of a request from the newest meaning of its number.',
    async run(kit) {
      const session = await agent(kit, 'kit', { extensions: { agents: '{}' } });
      await session.requires('who');
      const who = async (number: number) => {
        const call = session.link.openStream();
        const wish = { bytes: '', metadata: packed({ test: 'who' }), agent: number };
        await session.link.writeBody(Kind.REQUEST, call.id, wish);
        const body = responseOf(await session.over(call));
        return mapIn({ told: jsonIn(body) }, 'told', {}, body.content)['from'];
      };
      for (const [number, name] of [
        [3, 'worker-3'],
        [0, '~stranger'],
        [3, 'worker-4'],
        [255, 'last'],
      ] as const) {
        session.link.write(frame(Kind.ALIAS, number, name));
        mustEqual(await who(number), name, 'the sender');
      }
      session.cut();
      mustEqual(await who(0), '~stranger', 'the sender after a lost connection');
    },
  },
  {
    name: 'agents/delivery',
    section: SECTION,
    tests: 'client',
    title: 'A report of @delivery reaches the application of a client.',
    async run(kit) {
      const session = await agent(kit, 'kit', { extensions: { agents: '{}' } });
      await session.requires('who');
      await session.answer({ test: 'say', messages: 2, size: 20, to: 'nobody' });
      const told = { to: 'nobody', outcome: 'not_sent', reason: 'unknown_agent', first: 1, count: 2 };
      await tells(session, '@delivery', JSON.stringify(told));
      let { undelivered = [] } = await session.tally();
      for (let tries = 0; undelivered.length === 0 && tries < 100; tries++) {
        await pause(20);
        ({ undelivered = [] } = await session.tally());
      }
      const [{ to, outcome, reason, first, count } = {} as Fields] = undelivered;
      mustEqual({ to, outcome, reason, first, count }, told, 'the report');
    },
  },
  ends('never-announced', 'A number that was never announced ends the session with 4400.', () =>
    addressed(9, 'x'),
  ),
  ends('number-too-large', 'A number above 255 ends the session with 4400.', () =>
    frame(Kind.ALIAS, 256, 'b'),
  ),
  ends('no-name', 'A name of another form ends the session with 4400.', () =>
    frame(Kind.ALIAS, 0, 'not a name'),
  ),
  ends('on-a-later-frame', 'ADDRESSED on a later frame of a body ends the session with 4400.', () => {
    const [first, second] = bodyFrames(Kind.MESSAGE, 0, { bytes: 'xy', pieces: [1], agent: 0 });
    const later = Uint8Array.from(second as Uint8Array);
    later[2] = (later[2] as number) | 0x40;
    return [frame(Kind.ALIAS, 0, 'b'), first as Uint8Array, later];
  }),
  {
    name: 'agents/not-agreed',
    section: SECTION,
    title: 'An alias without agents and replies ends the session with 4400.',
    async run(kit) {
      const session = await kit.session();
      await session.stillWorks('the handshake');
      await session.violate(frame(Kind.ALIAS, 0, 'b'), [4400], 'an alias that was not agreed on');
    },
  },
];
