import { randomName } from '../shared/profile.js';
import {
  type Attachment,
  askedNow,
  type ToolCall,
  type Turn,
  type TurnReply,
  type TurnState,
} from './conversation.js';
import { readReading } from './proof/reading.js';
import { addTraffic, NO_TRAFFIC, type TurnTraffic } from './traffic.js';

/** The form in which a tab stores its conversation. */

/** Turns that no longer fit into the store: neither the page nor the model has them any more. */
export interface Omitted {
  readonly turns: number;
  /** Their traffic, so that the figures of the whole conversation stay true. */
  readonly traffic: TurnTraffic;
}

export interface Stored {
  readonly turns: readonly Turn[];
  readonly omitted: Omitted;
}

export const NOTHING_OMITTED: Omitted = { turns: 0, traffic: NO_TRAFFIC };

/**
 * Writes the newest turns that fit: the model needs the last ones most.
 *
 * @param maxLength of what {@link pack} returns, in UTF-16 units.
 * @returns the last turn alone if not even that fits.
 */
export type Pack = (turns: readonly Turn[], omitted: Omitted, maxLength: number) => string;

/** Creates a {@link Pack} that writes no turn twice: only the last one changes. */
export function createPack(): Pack {
  const written = new WeakMap<Turn, string>();
  return (turns, omitted, maxLength) => {
    const last = turns.at(-1);
    if (last !== undefined) written.delete(last);
    const jsonOf = (turn: Turn): string => {
      const json = written.get(turn) ?? JSON.stringify(turn);
      written.set(turn, json);
      return json;
    };
    const kept: string[] = [];
    let first = turns.length;
    let left = omitted;
    let length = 0;
    for (const turn of [...turns].reverse()) {
      const json = jsonOf(turn);
      length += json.length + 1;
      if (first < turns.length && length + ROOM > maxLength) break;
      kept.unshift(json);
      first--;
    }
    for (const { traffic } of turns.slice(0, first))
      left = { turns: left.turns + 1, traffic: addTraffic(left.traffic, traffic) };
    return `{"omitted":${JSON.stringify(left)},"turns":[${kept.join(',')}]}`;
  };
}

/** For what is written besides the turns, in UTF-16 units. */
export const ROOM = 512;

/** @returns `undefined` if another version of this page has written it, or something else. */
export function unpack(json: string): Stored | undefined {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch {
    return undefined;
  }
  // As it was before turns could be left out.
  const stored = Array.isArray(value) ? { turns: value, omitted: NOTHING_OMITTED } : value;
  const { turns, omitted } = (stored ?? {}) as Partial<Stored>;
  if (!Array.isArray(turns) || !isOmitted(omitted)) return undefined;
  return { turns: readTurns(turns), omitted };
}

/** Those of these values that are turns. */
export function readTurns(values: readonly unknown[]): Turn[] {
  return values.filter(isTurn).map(restore);
}

function isOmitted(value: unknown): value is Omitted {
  const { turns, traffic } = (value ?? {}) as Partial<Omitted>;
  return Number.isSafeInteger(turns) && Number(turns) >= 0 && isTraffic(traffic ?? {});
}

const STATES: readonly TurnState[] = [
  'waiting',
  'streaming',
  'done',
  'stopped',
  'interrupted',
  'elsewhere',
  'failed',
];

function isTurn(value: unknown): value is Turn {
  const {
    id,
    parent,
    asked,
    question,
    answer,
    refusal,
    thinking,
    thoughtMs,
    calls,
    files,
    end,
    state,
    problem,
    traffic,
    reply,
  } = (value ?? {}) as Partial<Turn>;
  return (
    [id, parent, question, refusal, thinking, end].every(
      (text) => text === undefined || typeof text === 'string',
    ) &&
    typeof answer === 'string' &&
    [asked, thoughtMs].every((ms) => ms === undefined || Number.isFinite(ms)) &&
    (files === undefined || (Array.isArray(files) && files.every(isAttachment))) &&
    (calls === undefined || (Array.isArray(calls) && calls.every(isCall))) &&
    (problem === undefined || typeof problem.title === 'string') &&
    (traffic === undefined || isTraffic(traffic)) &&
    STATES.some((known) => known === state) &&
    (reply === undefined || isReply(reply))
  );
}

function isCall(value: unknown): value is ToolCall {
  const { index, name, arguments: given } = (value ?? {}) as Partial<ToolCall>;
  return Number.isSafeInteger(index) && typeof name === 'string' && typeof given === 'string';
}

function isAttachment(value: unknown): value is Attachment {
  const { name, kind, content } = (value ?? {}) as Partial<Attachment>;
  return typeof name === 'string' && (kind === 'picture' || kind === 'text') && typeof content === 'string';
}

function isReply({ name, position, sum }: Partial<TurnReply>): boolean {
  const isSum = sum === undefined || /^(?:[0-9a-f]{64})?$/.test(sum);
  return (
    typeof name === 'string' &&
    name !== '' &&
    Number.isSafeInteger(position) &&
    Number(position) >= 0 &&
    isSum
  );
}

function isTraffic({ sent, received, parts, ms }: Partial<TurnTraffic>): boolean {
  return [
    sent?.socket,
    sent?.http,
    sent?.gzip,
    received?.socket,
    received?.http,
    received?.gzip,
    parts,
    ms,
  ].every(Number.isFinite);
}

/** `undefined` fields have no JSON form. */
function restore(stored: Turn): Turn {
  const { parent, question, answer, state, end, problem, traffic, reply } = stored;
  const { id = randomName(), asked = askedNow() } = stored as Partial<Turn>;
  const { refusal = '', thinking = '', thoughtMs = 0, calls = [], files = [] } = stored as Partial<Turn>;
  // It would be repeated at once, without anyone asking for it.
  const told = problem && { ...problem, retryAt: undefined };
  const said = { id, parent, asked, question, files, answer, refusal, thinking, thoughtMs, calls, end };
  const reading = readReading(stored.reading);
  return { ...said, state, problem: told, traffic: traffic ?? NO_TRAFFIC, reply, reading };
}
