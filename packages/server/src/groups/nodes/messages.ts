import { type Algorithm, ProtocolError } from '@parlance/protocol';
import { countField, malformed, shortField } from '../../cluster/link/message.js';
import type { GroupMessage, PlainContent } from '../delivery.js';
import type { Member } from '../group.js';
import { MAX_DATA } from '../options.js';
import type { PresenceEntry, PresenceState } from '../presence-feed.js';
import type { Sequence } from '../received-marks.js';
import { MAX_NAME, readData } from '../state.js';

/** The name of the service of a link. */
export const GROUPS = 'groups';

/**
 * Messages of two nodes about groups. The node that has opened the link numbers its messages, and sends them again on
 * the next link until the other node has them: `begin` names the stream and the first number, and `got` is the only
 * answer. `say` is a message to a group; `ask` asks for those after a mark, which come again as `say`, and `answered`
 * after them. `watch` and `unwatch` ask for the members of a group, `present` says what has become of them; `list` asks
 * for a page of them, and `listed` has it.
 */
export type GroupMessageType =
  | 'say'
  | 'ask'
  | 'answered'
  | 'watch'
  | 'unwatch'
  | 'present'
  | 'list'
  | 'listed';

/** Characters of an ID, and of the name of an algorithm. */
const MAX_ID = 64;
const MAX_PRINCIPAL = 4_096;
/** Entries of one list. */
export const MAX_LIST = 1_000;
const KINDS = ['text', 'bytes', 'tokens'] as const;
const STATES: readonly PresenceState[] = ['joined', 'suspended', 'left', 'moved', 'waits'];

/** The bytes of a content, which are the same for all nodes. */
export function bytesOf(content: PlainContent): readonly [kind: (typeof KINDS)[number], bytes: Uint8Array] {
  if (typeof content === 'string') return ['text', Buffer.from(content)];
  if (content instanceof Uint8Array) return ['bytes', content];
  const { buffer, byteOffset, byteLength } = Uint32Array.from(content.tokens);
  return ['tokens', new Uint8Array(buffer, byteOffset, byteLength)];
}

/** The fields of a message to a group, but for its content. */
export function sayFields(
  name: string,
  { algorithm, secret, except }: GroupMessage,
  { number, previous, ask }: Omit<Sequence, 'sender'>,
  kind: (typeof KINDS)[number],
): readonly unknown[] {
  return [
    name,
    number,
    previous,
    ask ?? 0,
    KINDS.indexOf(kind),
    algorithm ?? '',
    secret ? 1 : 0,
    except ?? '',
  ];
}

/** @throws {ProtocolError} `bad_message`. */
export function readSay(sender: string, fields: readonly unknown[], bytes: Uint8Array) {
  const [name, number, previous, ask, kind, algorithm, secret, except] = fields;
  const asked = countField(ask);
  const sequence: Sequence = {
    sender,
    number: countField(number),
    previous: countField(previous),
    ask: asked === 0 ? undefined : asked,
  };
  const named = shortField(algorithm, MAX_ID);
  const excepted = shortField(except, MAX_ID);
  const message: GroupMessage = {
    content: contentOf(countField(kind), bytes),
    // A name that this node does not know is refused when the message is coded.
    algorithm: named === '' ? undefined : (named as Algorithm),
    secret: secret === 1,
    except: excepted === '' ? undefined : excepted,
    size: bytes.length,
  };
  return { name: nameField(name), sequence, message };
}

/** @throws {ProtocolError} `bad_message`. */
function contentOf(kind: number, bytes: Uint8Array): PlainContent {
  if (KINDS[kind] === 'text') return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString();
  if (KINDS[kind] === 'bytes') return bytes;
  if (KINDS[kind] !== 'tokens' || bytes.length % 4 !== 0) throw malformed();
  return { tokens: new Uint32Array(bytes.slice().buffer) };
}

/** @throws {ProtocolError} `bad_message`. */
export function nameField(value: unknown): string {
  const name = shortField(value, MAX_NAME);
  if (name === '') throw malformed();
  return name;
}

/** Bytes of one list, which a message between nodes has room for however short those of clients may be. */
const MAX_LIST_BYTES = 128 * 1024;

/** A list as JSON, as the head of a message is short: in as many messages as it needs, and at least one. */
export function listBytes(list: readonly (readonly unknown[])[]): readonly Uint8Array[] {
  const all: string[][] = [[]];
  let size = 0;
  for (const each of list) {
    const text = JSON.stringify(each);
    const bytes = Buffer.byteLength(text) + 1;
    const last = all.at(-1) as string[];
    if (last.length > 0 && (last.length === MAX_LIST || size + bytes > MAX_LIST_BYTES)) {
      all.push([text]);
      size = bytes;
    } else {
      last.push(text);
      size += bytes;
    }
  }
  return all.map((texts) => Buffer.from(`[${texts.join()}]`));
}

/** @throws {ProtocolError} `bad_message`. */
export function readList<Item>(
  bytes: Uint8Array,
  read: (values: readonly unknown[]) => Item,
): readonly Item[] {
  let list: unknown;
  try {
    list = JSON.parse(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString());
  } catch {
    throw malformed();
  }
  if (!Array.isArray(list) || list.length > MAX_LIST) throw malformed();
  return list.map((each) => {
    if (!Array.isArray(each)) throw malformed();
    return read(each);
  });
}

export const presenceValues = (entry: PresenceEntry): readonly unknown[] => {
  const { id, epoch, principal, state, data, dataAt, isKept } = entry;
  return [id, epoch, principal, STATES.indexOf(state), data ?? '', dataAt, isKept ? 1 : 0];
};

/** @throws {ProtocolError} `bad_message`. */
export function readPresence([
  id,
  epoch,
  principal,
  state,
  data,
  dataAt,
  isKept,
]: readonly unknown[]): PresenceEntry {
  const known = STATES[countField(state)];
  if (known === undefined) throw malformed();
  return {
    id: shortField(id, MAX_ID),
    epoch: countField(epoch),
    principal: shortField(principal, MAX_PRINCIPAL),
    state: known,
    data: dataField(data),
    dataAt: countField(dataAt),
    isKept: isKept === 1,
  };
}

export const memberValues = ({ id, principal, state, data }: Member): readonly unknown[] => {
  return [id, principal ?? null, state === 'joined' ? 1 : 0, data === undefined ? '' : JSON.stringify(data)];
};

/** @throws {ProtocolError} `bad_message`. */
export function readMember(node: string, [id, principal, isJoined, data]: readonly unknown[]): Member {
  const text = dataField(data);
  return {
    id: shortField(id, MAX_ID),
    node,
    principal: principal === null ? undefined : shortField(principal, MAX_PRINCIPAL),
    state: isJoined === 1 ? 'joined' : 'suspended',
    data: text === undefined ? undefined : readData(text),
  };
}

/** @throws {ProtocolError} `bad_message`. */
function dataField(value: unknown): string | undefined {
  const text = shortField(value, MAX_DATA);
  if (text === '') return undefined;
  readData(text);
  return text;
}

export function tooLarge(most: number): ProtocolError {
  return new ProtocolError('message_too_large', `a message between nodes has at most ${most} bytes`);
}
