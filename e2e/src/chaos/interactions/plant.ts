import { ProtocolError } from '@parlance/protocol';
import type { Engine } from '@parlance/server';
import { ServerEndpoint } from '../../../../packages/server/src/session/endpoint.js';
import { replaced } from '../durable/plant.js';
import type { EngineOfHistory } from './engines.js';
import { type Mix, USUAL_MIX } from './steps.js';

/** Faults that were found once and are put back on purpose, because a ledger that has found nothing may be blind. */

export const INTERACTION_PLANTS = {
  log: 'a kept reply begins anew for its followers when its handler is called again',
  ended: 'an end that is told to a session given up crashes it',
  repeat: 'messages to an agent come again, unmarked, after a takeover',
  forget: 'the engine says that it has turns of a session, and does not have them',
} as const;
export type InteractionPlant = keyof typeof INTERACTION_PLANTS;

/** Those that an engine can show, if not all: nodes in memory are not killed, and one alone has no others. */
const SHOWN_BY: Readonly<Partial<Record<EngineOfHistory, readonly InteractionPlant[]>>> = {
  sqlite: ['log', 'forget'],
  memory: ['forget'],
};

export function plantsOf(engine: EngineOfHistory): Readonly<Partial<Record<InteractionPlant, string>>> {
  const shown = SHOWN_BY[engine];
  const all = Object.entries(INTERACTION_PLANTS) as [InteractionPlant, string][];
  return Object.fromEntries(all.filter(([plant]) => shown?.includes(plant) !== false));
}

const { users } = USUAL_MIX;

/** Mixes of what happens in which they show sooner than in the usual one. */
export const PLANT_MIXES: Readonly<Record<InteractionPlant, Mix>> = {
  // Replies that are under way when their node dies, and followers that come afterwards.
  log: {
    ...USUAL_MIX,
    users: { ...users, askServer: 12, askAgent: 2, say: 2, tell: 4, follow: 50, device: 20 },
    nodes: { kill: 1, drain: 0, pause: 0, part: 0 },
    long: 100,
    again: 100,
    newest: 20,
  },
  // Drains beside a slow Redis while agents are busy with each other.
  ended: {
    ...USUAL_MIX,
    users: { ...users, askServer: 2, askAgent: 50, say: 2, tell: 40, follow: 0, device: 0 },
    nodes: { kill: 0, drain: 1, pause: 0, part: 0 },
    engine: { slow: 1, silence: 0, restart: 0, fill: 0 },
  },
  repeat: {
    ...USUAL_MIX,
    users: { ...users, askServer: 2, tell: 60, follow: 0, device: 0 },
    nodes: { kill: 1, drain: 0, pause: 0, part: 0 },
  },
  // Sessions that have talked for a while when their nodes end.
  forget: {
    ...USUAL_MIX,
    users: { ...users, say: 60, reload: 0 },
    nodes: { kill: 1, drain: 1, pause: 0, part: 0 },
    engine: { slow: 0, silence: 0, restart: 0, fill: 0 },
  },
};

/** Histories after which a plant counts as not found: what happens at which moment differs from run to run. */
export const PLANT_TRIES = 3;

/** The contradiction that each makes. Others may have nothing to do with it. */
const CONTRADICTIONS: Readonly<Record<InteractionPlant, RegExp>> = {
  log: /: follows (q\d+) from \d+, and read part \d+ and not |: read "(q\d+):\d+:\d+ " of \2 as part \d+, and its requester /,
  ended: /session\.crashed: .*the session was closed/,
  forget: /: the record of sess_\S+ was behind/,
  repeat: /: read number \d+ of \S+ \(\S+\) again, unmarked/,
};

/** Whether a fault that was found is one that a plant makes. */
export function isOf(plant: InteractionPlant, fault: string): boolean {
  return CONTRADICTIONS[plant].test(fault);
}

/** Breaks the rule in this process, if that is not up to the engine. */
export async function plantFault(plant: InteractionPlant | undefined): Promise<void> {
  if (plant === 'ended') await crashWhenFrozen();
  if (plant === 'repeat') await forgetHeard();
}

/**
 * An error of a feature about a session that another node will have counts as a fault of this session. And the feature is
 * notified of the relations of others to the session, which now end as soon as it is given up.
 */
async function crashWhenFrozen(): Promise<void> {
  const file = new URL('../../../../packages/server/src/agents/relay.ts', import.meta.url);
  const { Relay } = await import(String(file));
  const { handleEnded } = Relay.prototype;
  Relay.prototype.handleEnded = function (
    this: unknown,
    session: ServerEndpoint,
    ...rest: readonly unknown[]
  ) {
    if (!session.isFrozen || session.hasEnded) handleEnded.call(this, session, ...rest);
  };
  const { tell } = ServerEndpoint.prototype;
  const { crash } = Object.getPrototypeOf(Object.getPrototypeOf(ServerEndpoint.prototype));
  ServerEndpoint.prototype.tell = function (this: ServerEndpoint, command) {
    if (!this.isFrozen) tell.call(this, command);
    else crash.call(this, new ProtocolError('session_closed', 'the session was closed'));
  };
}

/** A session takes each message of another one for a new one. */
async function forgetHeard(): Promise<void> {
  const file = new URL('../../../../packages/server/src/agents/received-marks.ts', import.meta.url);
  const { ReceivedMarks } = await import(String(file));
  ReceivedMarks.prototype.check = () => 'new';
}

/** An engine that breaks the rule, if that is up to the engine: what was kept before a takeover is not read. */
export function withPlant(engine: Engine, plant: InteractionPlant | undefined): Engine {
  if (plant === 'forget') return forgetful(engine);
  const { connectLogs: connect } = engine;
  if (plant !== 'log' || connect === undefined) return engine;
  const connectLogs = () => {
    const replies = connect.call(engine);
    /** Parts of replies before this node has claimed them. */
    const before = new Map<string, number>();
    const claim: typeof replies.claim = async (key, by, liveMs) => {
      const claimed = await replies.claim(key, by, liveMs);
      if (claimed.outcome === 'done') before.set(key.id, claimed.parts);
      return claimed;
    };
    const read: typeof replies.read = async (id, after) => {
      const from = before.get(id) ?? 0;
      // A reader that is further has what was said before.
      return await replies.read(id, after < from ? after + from : after);
    };
    return replaced(replies, { claim, read });
  };
  return replaced(engine, { connectLogs });
}

/** Turns of a session that its engine takes. */
const TAKEN = 10;

/** It takes some turns of each session at each node, and says of all others that it has them. */
function forgetful(engine: Engine): Engine {
  const connect = () => {
    const link = engine.connect();
    const turns = new Map<string, number>();
    const writeSession: typeof link.writeSession = async (id, write) => {
      const count = (turns.get(id) ?? 0) + 1;
      turns.set(id, count);
      return count > TAKEN ? 'written' : await link.writeSession(id, write);
    };
    return replaced(link, { writeSession });
  };
  return replaced(engine, { connect });
}
