import { concatBytes } from '../base/bytes.js';
import { type ProtocolError, RequestError } from '../base/errors.js';
import { bad, type Fields, get } from '../base/fields.js';
import type { Limits } from '../base/limits.js';
import { listsOf, orNull, trimmed, ValueList } from '../base/value-list.js';
import { BodyCodec } from '../codec/body.js';
import { MAX_NAME } from './addressing.js';
import type { ReceiveAccount, ReceiveCredit, SendCredit } from './credit.js';
import { decodeFailure, encodeFailure } from './failure.js';
import { isBodyKind, type LinkKind } from './frame.js';
import type { Assembler, Unfinished } from './reassembly.js';
import type { OpenStream, StreamTable } from './streams.js';

/** Open streams, their credit and their unfinished bodies, as plain values. */

// --- streams

const CANCELLED = 1;
const ANSWERED = 2;
const RELAYED = 4;
const RUNS_TO_COMPLETION = 8;

export function streamFields(streams: StreamTable): Fields {
  const { local, remote } = streams.last;
  const [, unwritten] = streams.snapshot();
  return {
    last: [local, remote],
    open: filled([...streams.all()].map(streamValues)),
    unwritten: unwritten && filled([...unwritten]),
  };
}

function streamValues({ id, refusal, ...stream }: OpenStream): readonly unknown[] {
  const flags =
    (stream.cancelled ? CANCELLED : 0) +
    (stream.answered ? ANSWERED : 0) +
    (stream.relayed ? RELAYED : 0) +
    (stream.runsToCompletion ? RUNS_TO_COMPLETION : 0);
  return trimmed([id, flags, refusal === undefined ? null : encodeFailure(refusal)]);
}

/** @throws {ProtocolError} `bad_message`. */
export function restoreStreams(streams: StreamTable, fields: Fields, { maxJsonDepth }: Limits): void {
  const ids = new Set<number>();
  const add = (id: number): void => {
    if (ids.has(id) || !streams.wasOpened(id)) throw bad('streams', 'opened, each once');
    ids.add(id);
  };
  const open = listsOf(get(fields, 'open'), 'streams', (list): OpenStream => {
    const id = list.count();
    add(id);
    const flags = list.count(2 * RUNS_TO_COMPLETION - 1);
    const failure = list.optional((one) => one.bytes());
    return {
      id,
      local: streams.isLocal(id),
      cancelled: (flags & CANCELLED) !== 0,
      answered: (flags & ANSWERED) !== 0,
      isTransfer: false,
      refusal: failure && refusalOf(failure, maxJsonDepth),
      relayed: (flags & RELAYED) !== 0,
      runsToCompletion: (flags & RUNS_TO_COMPLETION) !== 0 || undefined,
    };
  });
  const unwritten = new ValueList(get(fields, 'unwritten') ?? [], 'streams that are closed').rest((list) => {
    const id = list.count();
    add(id);
    if (streams.isLocal(id)) throw list.bad('of the peer');
    return id;
  });
  const local = open.filter((stream) => stream.local).length;
  const all = new Map(open.map((stream) => [stream.id, stream]));
  if (ids.size > 0) streams.restore([all, new Set(unwritten), local, ids.size - local]);
}

/** One of our own errors, as this server refuses requests with no others. */
function refusalOf(failure: Uint8Array, maxJsonDepth: number): ProtocolError {
  const error = decodeFailure(failure, maxJsonDepth);
  if (error instanceof RequestError) throw bad('streams', 'refused with an error of Parlance');
  return error;
}

// --- credit

export function sendCreditValues(credit: SendCredit): unknown {
  const accounts = credit.snapshot() ?? [];
  return filled([...accounts].map(([id, { spent, limit }]) => [id, spent, orNull(limit)]));
}

/** @throws {ProtocolError} `bad_message`. */
export function restoreSendCredit(credit: SendCredit, value: unknown): void {
  const accounts = listsOf(value, 'credit', (list) => [list.count(), accountOf(list)] as const);
  if (accounts.length > 0) credit.restore(new Map(accounts));
}

const accountOf = (list: ValueList) => ({ spent: list.count(), limit: list.amount() });

export function receiveCreditFields(credit: ReceiveCredit): Fields {
  const [accounts, pool, permitted, waiting] = credit.snapshot();
  return {
    pool: orNull(pool),
    accounts: filled([...(accounts?.values() ?? [])].map(receiveValues)),
    permitted: permitted?.id,
    waiting: waiting && filled([...waiting].map(({ id }) => id)),
  };
}

function receiveValues(account: ReceiveAccount): readonly unknown[] {
  const { id, received, consumed, limit, share, bodyStart, missing, isOver } = account;
  return [id, received, consumed, orNull(limit), orNull(share), bodyStart, missing, isOver];
}

/** @throws {ProtocolError} `bad_message`. */
export function restoreReceiveCredit(credit: ReceiveCredit, fields: Fields): void {
  const accounts = new Map<number, ReceiveAccount>();
  listsOf(get(fields, 'accounts'), 'granted credit', (list) => {
    const account = receiveAccountOf(list);
    const { id, received, consumed, bodyStart } = account;
    if (accounts.has(id) || consumed > received || bodyStart > received)
      throw list.bad('one account for each stream, with no more consumed than received');
    accounts.set(id, account);
  });
  const find = (list: ValueList): ReceiveAccount => {
    const account = accounts.get(list.count());
    if (account === undefined || account.isOver) throw list.bad('of open accounts');
    return account;
  };
  const list = new ValueList([get(fields, 'pool'), get(fields, 'permitted')], 'granted credit');
  const waiting = new ValueList(get(fields, 'waiting') ?? [], 'streams that wait for credit').rest(find);
  let unread = 0;
  for (const { received, consumed } of accounts.values()) unread += received - consumed;
  credit.restore([
    accounts.size > 0 ? accounts : undefined,
    list.amount(),
    list.optional(find),
    waiting.length > 0 ? new Set(waiting) : undefined,
    unread,
  ]);
}

function receiveAccountOf(list: ValueList): ReceiveAccount {
  return {
    id: list.count(),
    received: list.count(),
    consumed: list.count(),
    limit: list.amount(),
    share: list.amount(),
    bodyStart: list.count(),
    missing: list.count(),
    isOver: list.flag(),
  };
}

// --- unfinished bodies

export function assemblerValues(assembler: Assembler): unknown {
  const bodies = assembler.unfinished ?? [];
  return filled([...bodies].map(([id, body]) => unfinishedValues(id, body)));
}

function unfinishedValues(streamId: number, body: Unfinished): readonly unknown[] {
  const { kind, codec, secret, originalLength, metadata, address, totalLength, pieces, charge } = body;
  return trimmed([
    ...[streamId, kind, codec, secret, totalLength, charge, concatBytes(pieces ?? [])],
    ...[orNull(originalLength), orNull(metadata), orNull(address)],
  ]);
}

/** Whether a body is handed on as it arrives, as tensors are. */
export function hasPieces(assembler: Assembler): boolean {
  return [...(assembler.unfinished?.values() ?? [])].some(({ pieces }) => pieces === undefined);
}

/**
 * @param isBegun whether a body in context was begun on a stream.
 * @throws {ProtocolError} `bad_message`.
 */
export function restoreAssembler(
  assembler: Assembler,
  value: unknown,
  { maxMessageSize, maxMetadataSize }: Limits,
  isBegun: (streamId: number) => boolean,
): void {
  const bodies = new Map<number, Unfinished>();
  listsOf(value, 'unfinished bodies', (list) => {
    const streamId = list.count();
    const body = unfinishedOf(list, maxMessageSize, maxMetadataSize);
    const isUnknown = body.codec === BodyCodec.CONTEXT && !isBegun(streamId);
    if (bodies.has(streamId) || isUnknown || body.length >= body.totalLength)
      throw list.bad('one for each stream, shorter than they will be');
    bodies.set(streamId, body);
  });
  if (bodies.size > 0) assembler.unfinished = bodies;
}

function unfinishedOf(list: ValueList, maxMessageSize: number, maxMetadataSize: number): Unfinished {
  const kind = list.count() as LinkKind;
  const codec = list.count(BodyCodec.DICTIONARY) as BodyCodec;
  if (!isBodyKind(kind) || codec === BodyCodec.AVP) throw list.bad('messages');
  const [secret, totalLength, charge] = [list.flag(), list.count(maxMessageSize), list.count()];
  const bytes = list.bytes();
  return {
    ...{ kind, codec, secret, totalLength, charge, pieces: [bytes], length: bytes.length },
    originalLength: list.optional((one) => one.count(maxMessageSize)),
    metadata: list.optional((one) => one.bytes(maxMetadataSize)),
    address: list.optional((one) => one.text(MAX_NAME)),
  };
}

const filled = <Value>(values: readonly Value[]): readonly Value[] | undefined =>
  values.length === 0 ? undefined : values;
