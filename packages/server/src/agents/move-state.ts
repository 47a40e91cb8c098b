import { ProtocolError, type StringMap } from '@parlance/protocol';
import { type Fields, get, isCount, isFields } from '@parlance/protocol/internal';
import type { CounterState, MessageRange } from './pending-deliveries.js';
import type { ReceivedMarks } from './received-marks.js';
import type { WatchState } from './watchers.js';

/** The relay's knowledge of the messages of a session that moves. */
export interface MessagesState {
  /** Last frames of messages to it that are written and not confirmed. */
  readonly frames: readonly number[];
  /** Its own messages whose fate is not known. */
  readonly pending: readonly MessageRange[];
  readonly counter: CounterState;
  /** The last number that it has of each sender. */
  readonly heard: ReceivedMarks['entries'];
}

/** State that goes to another node with the session of an agent. */
export interface AgentState extends MessagesState {
  /** How its HELLO describes it; `undefined` if it is no agent. */
  readonly stated: StringMap | undefined;
  readonly watch: WatchState | undefined;
}

/** Characters, and entries of one list. */
const MAX_STATE = 32 * 1024 * 1024;
const MAX_ENTRIES = 200_000;
const MAX_NAME = 1_024;
const MAX_DESCRIPTION = 32 * 1024;

/** @throws {ProtocolError} `bad_message`. */
export function readAgentState(text: unknown): AgentState {
  if (typeof text !== 'string' || text.length > MAX_STATE) throw malformed();
  let fields: unknown;
  try {
    fields = JSON.parse(text);
  } catch {
    throw malformed();
  }
  if (!isFields(fields)) throw malformed();
  const [stated, counter, watch] = [get(fields, 'stated'), get(fields, 'counter'), get(fields, 'watch')];
  // The state comes from a record, in which numbers have fields of their own.
  if (counter === undefined) return { ...NO_NUMBERS, stated: readStated(stated), watch: undefined };
  if (!isFields(counter) || typeof get(counter, 'hasForgotten') !== 'boolean') throw malformed();
  return {
    stated: stated === undefined ? undefined : readStated(stated),
    frames: listOf(get(fields, 'frames')).map(countOf),
    pending: listOf(get(fields, 'pending')).map(readRange),
    counter: {
      counts: listOf(get(counter, 'counts')).map((each) => {
        const [name, count] = listOf(each);
        return [nameOf(name), countOf(count)] as const;
      }),
      hasForgotten: get(counter, 'hasForgotten') === true,
      last: countOf(get(counter, 'last')),
    },
    heard: listOf(get(fields, 'heard')).map((each) => {
      const [sender, number] = listOf(each);
      return [nameOf(sender), countOf(number)] as const;
    }),
    watch: watch === undefined ? undefined : readWatch(watch),
  };
}

const NO_NUMBERS: MessagesState = {
  ...{ frames: [], pending: [], heard: [] },
  counter: { counts: [], hasForgotten: false, last: 0 },
};

function readStated(value: unknown): StringMap {
  if (!isFields(value)) throw malformed();
  const stated: Record<string, string> = {};
  for (const name of ['agents', 'avp']) {
    const text = get(value, name);
    if (text === undefined) continue;
    if (typeof text !== 'string' || text.length > MAX_DESCRIPTION) throw malformed();
    stated[name] = text;
  }
  return stated;
}

function readRange(value: unknown): MessageRange {
  const [to, first, count] = listOf(value);
  return [nameOf(to), first === null ? undefined : countOf(first), countOf(count)];
}

function readWatch(value: unknown): WatchState {
  const fields: Fields = isFields(value) ? value : {};
  return {
    stream: countOf(get(fields, 'stream')),
    sent: listOf(get(fields, 'sent')).map((each) => {
      const [name, version] = listOf(each);
      return [nameOf(name), nameOf(version)] as const;
    }),
  };
}

function listOf(value: unknown): readonly unknown[] {
  if (Array.isArray(value) && value.length <= MAX_ENTRIES) return value;
  throw malformed();
}

function nameOf(value: unknown): string {
  if (typeof value === 'string' && value.length <= MAX_NAME) return value;
  throw malformed();
}

function countOf(value: unknown): number {
  if (isCount(value)) return value as number;
  throw malformed();
}

function malformed(): ProtocolError {
  return new ProtocolError('bad_message', 'the state of an agent that moves is malformed');
}
