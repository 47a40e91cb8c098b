import type { Turn, TurnReply, TurnState } from './conversation.js';
import { NO_TRAFFIC, type TurnTraffic } from './traffic.js';

/** What this tab remembers of its conversation when it is loaded again. */
export interface Memory {
  /** The turns of the last page of this tab; `undefined` if there was none. */
  readonly turns: readonly Turn[] | undefined;
  /** Milliseconds since the last page stored its conversation; 0 if there was none. */
  readonly awayMs: number;
  /** Stores the conversation now. */
  save(): void;
  /** Stores the conversation soon; for calls with each part of an answer. */
  saveSoon(): void;
}

const KEY = 'parlance-chat';
const LEFT_KEY = 'parlance-left';
const MAX_TURNS = 50;
/** UTF-16 units of the stored JSON; browsers store some 5 million for all pages of an origin. */
const MAX_LENGTH = 500_000;
const SOON_MS = 250;

/**
 * An answer is stored together with the position in its reply. So what is stored may be old: the next page gets the
 * parts since then from the server.
 *
 * @param current returns the turns to store.
 */
export function createMemory(current: () => readonly Turn[]): Memory {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const save = () => {
    clearTimeout(timer);
    timer = undefined;
    write(current());
  };
  window.addEventListener('pagehide', save);
  return {
    turns: read(),
    awayMs: readAway(),
    save,
    saveSoon() {
      timer ??= setTimeout(save, SOON_MS);
    },
  };
}

function write(turns: readonly Turn[]): void {
  let kept = turns.slice(-MAX_TURNS);
  let json = JSON.stringify(kept);
  // The latest turns matter most.
  while (json.length > MAX_LENGTH && kept.length > 0) {
    kept = kept.slice(1);
    json = JSON.stringify(kept);
  }
  try {
    sessionStorage.setItem(LEFT_KEY, String(Date.now()));
    sessionStorage.setItem(KEY, json);
  } catch (error) {
    console.info('the conversation will not survive a reload:', error);
  }
}

function read(): Turn[] | undefined {
  try {
    const stored: unknown = JSON.parse(sessionStorage.getItem(KEY) ?? 'null');
    return Array.isArray(stored) ? stored.filter(isTurn).map(restore) : undefined;
  } catch {
    // Storage is blocked, or another version of this page has written it.
    return undefined;
  }
}

function readAway(): number {
  try {
    const left = Number(sessionStorage.getItem(LEFT_KEY) ?? Number.NaN);
    return Number.isFinite(left) ? Math.max(0, Date.now() - left) : 0;
  } catch {
    return 0;
  }
}

const STATES: readonly TurnState[] = ['waiting', 'streaming', 'done', 'stopped', 'interrupted', 'failed'];

function isTurn(value: unknown): value is Turn {
  const { question, answer, state, problem, traffic, reply } = (value ?? {}) as Partial<Turn>;
  return (
    (question === undefined || typeof question === 'string') &&
    typeof answer === 'string' &&
    (problem === undefined || typeof problem.title === 'string') &&
    (traffic === undefined || isTraffic(traffic)) &&
    STATES.some((known) => known === state) &&
    (reply === undefined || isReply(reply))
  );
}

function isReply({ name, position }: Partial<TurnReply>): boolean {
  return typeof name === 'string' && name !== '' && Number.isSafeInteger(position) && Number(position) >= 0;
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
function restore({ question, answer, state, problem, traffic, reply }: Turn): Turn {
  // It would be repeated at once, without anyone asking for it.
  const told = problem && { ...problem, retryAt: undefined };
  return { question, answer, state, problem: told, traffic: traffic ?? NO_TRAFFIC, reply };
}
