import { ProtocolError } from '@parlance/protocol';
import {
  CONTAINER_FORMAT,
  type Commit,
  type DurableRecord,
  decodeSnapshot,
  type Fields,
  get,
  type NumberedBody,
} from '@parlance/protocol/internal';
import type { FieldChanges } from '../engine/engine.js';
import { pack, unpack } from './packed.js';

/**
 * The commits of a durable session as fields of its record in the engine:
 *
 *     begin, principal       what never changes, the first of them packed
 *     accept                 the last attempt, and the hashes of the valid tokens
 *     handled, said, state   counts of messages, and the application's state
 *     part:<name>            what a feature of the server keeps with the session
 *     o<number>              a message of the client to another client that no session has yet, although it counts as handled
 *     h<session>             a mark of the last message that another session has sent to this one
 *     m<number>              a message to the client
 *     s<stream>              how often its handler was started, whether it is started again, and the ID of its kept reply
 *     p<stream>.<number>     a part of its reply
 *     x<stream>              how the reply has ended: empty, or the body of the error frame
 *     pages                  former pages of the client have written its messages up to this one
 *     behind                 is there if the client is to be told that the record has lost commits
 *
 * It has what a `MovedSession` has, but for what the session has promised in place of the snapshot of its link.
 */

/** The recorded state of a stream, with the number of its parts. */
interface Stream {
  attempt: number;
  isRepeatable: boolean;
  kept: string | undefined;
  parts: number;
}

/** Before the name of a part. */
const PART = 'part:';
const NOTHING = new Uint8Array(0);
const textOf = (bytes: Uint8Array): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString();
const bytesOf = (text: string): Uint8Array => new Uint8Array(Buffer.from(text));

/** Spells the commits of one session. It knows which fields there are, so that it can name those to be removed. */
export class FieldWriter {
  readonly #principal: string | undefined;
  /** The number of the last message that was removed. */
  #confirmed = 0;
  #said = 0;
  /** The recorded state of each stream. */
  readonly #streams = new Map<number, Stream>();

  /** @param record the record that a former process has written. */
  constructor(principal: string | undefined, record?: DurableRecord) {
    this.#principal = principal;
    if (record === undefined) return;
    this.#said = record.said;
    this.#confirmed = record.said - record.messages.length;
    for (const [id, { attempt, isRepeatable, kept, parts }] of record.streams)
      this.#streams.set(id, { attempt, isRepeatable, kept, parts: parts.length });
  }

  /** Each commit once, in order. */
  write(commit: Commit): FieldChanges {
    const { begin, accept, handled, opened, settled, heard, saved } = commit;
    const { state, messages, confirmed, streams, isBehind, ofFormerPages } = commit;
    const changes: FieldChanges = { set: new Map(), remove: [] };
    const { set, remove } = changes;
    if (begin !== undefined) {
      set.set('begin', pack(begin));
      if (this.#principal !== undefined) set.set('principal', bytesOf(this.#principal));
    }
    if (accept !== undefined) set.set('accept', bytesOf([accept.attempt, ...accept.tokens].join(' ')));
    if (handled !== undefined) set.set('handled', bytesOf(String(handled)));
    for (const number of opened) set.set(`o${number}`, NOTHING);
    for (const number of settled) remove.push(`o${number}`);
    for (const [sender, number] of heard) {
      if (number === 0) remove.push(`h${sender}`);
      else set.set(`h${sender}`, bytesOf(String(number)));
    }
    if (state !== undefined) set.set('state', state);
    for (const [name, value] of saved) {
      if (value.length === 0) remove.push(PART + name);
      else set.set(PART + name, value);
    }
    for (const { number, body } of messages) {
      this.#said = number;
      set.set('said', bytesOf(String(number)));
      set.set(`m${number}`, body);
    }
    const last = Math.min(confirmed ?? 0, this.#said);
    for (; this.#confirmed < last; this.#confirmed++) remove.push(`m${this.#confirmed + 1}`);
    this.#confirmed = Math.max(this.#confirmed, confirmed ?? 0);
    // The client has received messages that the engine has forgotten. The next process need not find that out again.
    if (this.#confirmed > this.#said) {
      this.#said = this.#confirmed;
      set.set('said', bytesOf(String(this.#said)));
    }
    if (ofFormerPages !== undefined) set.set('pages', bytesOf(String(ofFormerPages)));
    if (isBehind === true) set.set('behind', bytesOf('1'));
    else if (isBehind === false) remove.push('behind');
    for (const [id, commit] of streams) this.#writeStream(id, commit, changes);
    return changes;
  }

  #writeStream(
    id: number,
    { attempt, isRepeatable, kept, from, parts, end, isForgotten }: StreamCommitOf<Commit>,
    { set, remove }: FieldChanges,
  ): void {
    const stream = this.#streams.get(id) ?? { attempt: 0, isRepeatable: false, kept: undefined, parts: 0 };
    if (isForgotten) {
      this.#streams.delete(id);
      remove.push(`s${id}`, `x${id}`);
      for (let part = 0; part < stream.parts; part++) remove.push(`p${id}.${part}`);
      return;
    }
    const isNew = !this.#streams.has(id);
    const { attempt: attemptBefore, isRepeatable: wasRepeatable, kept: keptBefore } = stream;
    if (isNew) this.#streams.set(id, stream);
    stream.attempt = attempt ?? attemptBefore;
    stream.isRepeatable ||= isRepeatable;
    stream.kept = kept ?? keptBefore;
    stream.parts = Math.max(stream.parts, from + parts.length);
    const isSame =
      stream.attempt === attemptBefore && stream.isRepeatable === wasRepeatable && stream.kept === keptBefore;
    // A part of five bytes would bring as many of this.
    if (isNew || !isSame) set.set(`s${id}`, bytesOf(spelled(stream)));
    parts.forEach((part, i) => {
      set.set(`p${id}.${from + i}`, part);
    });
    if (end !== undefined) set.set(`x${id}`, end);
  }
}

const spelled = ({ attempt, isRepeatable, kept }: Stream): string =>
  `${attempt}${isRepeatable ? ` ${AGAIN}` : ''}${kept === undefined ? '' : ` ${kept}`}`;

/** No ID of a kept reply is like this. */
const AGAIN = 'again';

/** @throws {ProtocolError} `bad_message`. */
function readSpelled(text: string): Pick<ReadStream, 'attempt' | 'isRepeatable' | 'kept'> {
  const [attempt = '', ...rest] = text.split(' ');
  const isRepeatable = rest[0] === AGAIN;
  return { attempt: countOf(attempt), isRepeatable, kept: rest[isRepeatable ? 1 : 0] };
}

type StreamCommitOf<T extends Commit> =
  T['streams'] extends ReadonlyMap<number, infer Stream> ? Stream : never;

interface ReadStream {
  attempt: number;
  isRepeatable: boolean;
  kept: string | undefined;
  readonly parts: Uint8Array[];
  end: Uint8Array | undefined;
}

/**
 * Whether the handler of a request is called again, so that it continues the reply that is kept under an ID.
 *
 * @param fields of its session, `s<stream>` and `x<stream>` among them.
 * @throws {ProtocolError} `bad_message`.
 */
export function goesOn(fields: ReadonlyMap<string, Uint8Array>, stream: number, reply: string): boolean {
  const said = fields.get(`s${stream}`);
  if (said === undefined || fields.has(`x${stream}`)) return false;
  const { isRepeatable, kept } = readSpelled(textOf(said));
  return isRepeatable && kept === reply;
}

/** The fields that say who may resume a session. */
export const HEAD_FIELDS = ['begin', 'principal', 'accept'];

export interface RecordHead extends Pick<DurableRecord, 'begin' | 'accept'> {
  readonly principal: string | undefined;
}

/** @returns `undefined` of a session that is not durable. @throws {ProtocolError} `bad_message`. */
export function readHead(fields: ReadonlyMap<string, Uint8Array>): RecordHead | undefined {
  const begin = fields.get('begin');
  if (begin === undefined) return undefined;
  const [accept, principal] = ['accept', 'principal'].map((name) => fields.get(name));
  return {
    begin: unpack(begin),
    accept: acceptOf(accept && textOf(accept)),
    principal: principal && textOf(principal),
  };
}

/** The record of a session, and its principal. */
export interface ReadRecord {
  readonly principal: string | undefined;
  readonly record: DurableRecord;
}

/** @throws {ProtocolError} `bad_message` if the fields are not what a {@link FieldWriter} has written. */
export function readFields(fields: ReadonlyMap<string, Uint8Array>): ReadRecord {
  const messages = new Map<number, Uint8Array>();
  const streams = new Map<number, ReadStream>();
  const open: number[] = [];
  const heard = new Map<string, number>();
  const saved = new Map<string, Uint8Array>();
  const streamOf = (id: number): ReadStream => {
    const stream = streams.get(id) ?? {
      attempt: 0,
      isRepeatable: false,
      kept: undefined,
      parts: [],
      end: undefined,
    };
    streams.set(id, stream);
    return stream;
  };
  for (const [name, value] of fields) {
    const [, kind, id, part] = /^([mospx])(\d{1,16})(?:\.(\d{1,16}))?$/.exec(name) ?? [];
    if (name.startsWith(PART)) saved.set(name.slice(PART.length), value);
    else if (name.startsWith('h') && name !== 'handled') heard.set(name.slice(1), countOf(textOf(value)));
    else if (kind === 'o') open.push(countOf(id as string));
    else if (kind === 'm') messages.set(Number(id), value);
    else if (kind === 'p') streamOf(Number(id)).parts[Number(part)] = value;
    else if (kind === 'x') streamOf(Number(id)).end = value;
    else if (kind === 's') Object.assign(streamOf(Number(id)), readSpelled(textOf(value)));
  }
  const textAt = (name: string): string | undefined => {
    const value = fields.get(name);
    return value && textOf(value);
  };
  const state = fields.get('state');
  const head = readHead(fields);
  if (head === undefined) throw damaged();
  const { begin, accept, principal } = head;
  for (const { parts } of streams.values()) if (Object.keys(parts).length !== parts.length) throw damaged();
  const said = countOf(textAt('said') ?? '0');
  return {
    principal,
    record: {
      begin,
      accept,
      handled: countOf(textAt('handled') ?? '0'),
      open: open.sort((a, b) => a - b),
      heard,
      state,
      saved,
      said,
      messages: inOrder(messages, said),
      streams,
      ofFormerPages: countOf(textAt('pages') ?? '0'),
      isBehind: fields.has('behind'),
    },
  };
}

/** State that features of the server have saved, by their names. @throws {ProtocolError} as `decodeSnapshot`. */
export function savedOf({ saved }: Pick<DurableRecord, 'saved'>): Fields {
  const read = (bytes: Uint8Array) => get(decodeSnapshot(bytes, CONTAINER_FORMAT), 'value');
  return Object.fromEntries([...saved].map(([name, bytes]) => [name, read(bytes)]));
}

/** The recorded messages: the last ones, without a gap. */
function inOrder(messages: ReadonlyMap<number, Uint8Array>, said: number): NumberedBody[] {
  return Array.from({ length: messages.size }, (_, i): NumberedBody => {
    const number = said - messages.size + 1 + i;
    const body = messages.get(number);
    if (body === undefined) throw damaged();
    return { number, body };
  });
}

function acceptOf(text: string | undefined): DurableRecord['accept'] {
  const [attempt = '', ...tokens] = text?.split(' ') ?? [];
  if (tokens.length === 0) throw damaged();
  return { tokens, attempt: countOf(attempt) };
}

function countOf(text: string): number {
  const count = Number(text);
  if (text === '' || !Number.isSafeInteger(count) || count < 0) throw damaged();
  return count;
}

function damaged(): ProtocolError {
  return new ProtocolError('bad_message', 'the record of a durable session is damaged');
}
