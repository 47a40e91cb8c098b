import { codecs } from '#codecs';
import { MAX_STREAM_ID } from '../base/constants.js';
import { type Fields, get, isFields, objectField } from '../base/fields.js';
import type { Limits } from '../base/limits.js';
import { encodeUtf8 } from '../base/text.js';
import { listsOf, msUntil, ValueList } from '../base/value-list.js';
import { decoderFields, encoderFields, restoreDecoder, restoreEncoder } from '../codec/context/snapshot.js';
import type { Acknowledgement } from './acknowledgement.js';
import { type AliasReader, type AliasWriter, isReachable, MAX_ALIASES, MAX_NAME } from './addressing.js';
import { assertLoaded } from './body-snapshot.js';
import type { LinkContext } from './context-coding.js';
import type { Link } from './link.js';
import { hasTensor, outboxFields, restoreOutbox } from './outbox-snapshot.js';
import {
  assemblerValues,
  hasPieces,
  receiveCreditFields,
  restoreAssembler,
  restoreReceiveCredit,
  restoreSendCredit,
  restoreStreams,
  sendCreditValues,
  streamFields,
} from './stream-snapshot.js';
import type { LastStreams } from './streams.js';

/**
 * The link of a server as plain values, for a session that moves to another process. Each part of a link gives its
 * state to `snapshot` and takes it from `restore`; the files beside this one say how it is written, and check what is
 * read.
 */

/** No tensor is under way in either direction: tensors do not move. */
export function canSnapshotLink({ parts: { streams, outbox, assembler } }: Link): boolean {
  const isTransfer = [...streams.all()].some((stream) => stream.isTransfer);
  return !isTransfer && !outbox.parts.queues.some(hasTensor) && !hasPieces(assembler);
}

export function linkFields(link: Link, now: number): Fields {
  const { streams, outbox, assembler, sendCredit, receiveCredit, context, aliases } = link.parts;
  return {
    streams: streamFields(streams),
    spent: sendCreditValues(sendCredit),
    granted: receiveCreditFields(receiveCredit),
    received: receivedValues(link.acknowledgement, now),
    confirmed: link.framesConfirmed,
    partial: assemblerValues(assembler),
    names: namesOf(aliases),
    aliases: aliasesOf(outbox.parts.writer.aliases),
    context: contextFields(context),
    outbox: outboxFields(outbox),
  };
}

/** Where the stream IDs continue; a restored link is created with it. @throws {ProtocolError} `bad_message`. */
export function lastStreamsOf(fields: Fields): LastStreams {
  const list = new ValueList(get(objectField(fields, 'streams'), 'last'), 'the last streams');
  const [local, remote] = [list.count(MAX_STREAM_ID), list.count(MAX_STREAM_ID)];
  if (local % 2 !== 0 || (remote % 2 !== 1 && remote !== 0)) throw list.bad('of a server and its client');
  return { local, remote };
}

/**
 * @param link one that has begun with {@link lastStreamsOf}, on an outbox that is paused if the session is suspended.
 * @throws {ProtocolError} `bad_message`, `message_too_large`, `codec_not_loaded`, and the codes of frames.
 */
export function restoreLink(link: Link, fields: Fields, limits: Limits, now: number): void {
  const { streams, outbox, assembler, sendCredit, receiveCredit, context, aliases } = link.parts;
  restoreStreams(streams, objectField(fields, 'streams'), limits);
  restoreSendCredit(sendCredit, get(fields, 'spent'));
  restoreReceiveCredit(receiveCredit, objectField(fields, 'granted'));
  restoreReceived(link.acknowledgement, get(fields, 'received'), now);
  restoreContext(context, get(fields, 'context'), limits);
  const begun = context?.decoder?.state.snapshot().underWay;
  restoreAssembler(assembler, get(fields, 'partial'), limits, (streamId) => begun?.has(streamId) === true);
  restoreNames(aliases, get(fields, 'names'));
  restoreAliases(outbox.parts.writer.aliases, get(fields, 'aliases'));
  const confirmed = new ValueList([get(fields, 'confirmed')], 'acknowledged frames').count();
  restoreOutbox(outbox, objectField(fields, 'outbox'), {
    confirmed,
    hasContext: context !== undefined,
    maxMetadataSize: limits.maxMetadataSize,
    wasOpened: (streamId) => streams.wasOpened(streamId),
  });
  link.confirm(confirmed);
}

// --- acknowledgement

function receivedValues(acknowledgement: Acknowledgement, now: number): readonly unknown[] {
  const { received, due } = acknowledgement;
  return [received, ...acknowledgement.snapshot(), msUntil(due, now)];
}

function restoreReceived(acknowledgement: Acknowledgement, value: unknown, now: number): void {
  const list = new ValueList(value, 'received frames');
  acknowledgement.received = list.count();
  acknowledgement.restore([list.count(acknowledgement.received), list.count()]);
  acknowledgement.due = now + list.amount();
}

// --- names

function namesOf(aliases: AliasReader | undefined): unknown {
  const names = [...(aliases?.names ?? [])];
  return names.length === 0 ? undefined : names;
}

/** Each name is checked as an announcement is. */
function restoreNames(aliases: AliasReader | undefined, value: unknown): void {
  listsOf(value, 'the names of the peer', (list) => {
    if (aliases === undefined) throw list.bad('of a session with addressing');
    const alias = list.count(MAX_ALIASES - 1);
    aliases.handleAlias(alias, encodeUtf8(list.text(MAX_NAME)));
  });
}

function aliasesOf(aliases: AliasWriter | undefined): unknown {
  const [numbers, next] = aliases?.snapshot() ?? NO_ALIASES;
  return numbers.size === 0 ? undefined : [next, ...numbers.keys()];
}

function restoreAliases(aliases: AliasWriter | undefined, value: unknown): void {
  if (value === undefined) return;
  const list = new ValueList(value, 'the names of this end');
  const next = list.count(MAX_ALIASES - 1);
  const names = list.rest((one) => one.text(MAX_NAME));
  const isValid =
    names.every(isReachable) && new Set(names).size === names.length && names.length <= MAX_ALIASES;
  if (aliases === undefined || !isValid) throw list.bad('of a session with addressing, each once');
  // Oldest first; the numbers follow each other.
  const first = next + MAX_ALIASES - names.length;
  aliases.restore([new Map(names.map((name, i) => [name, (first + i) % MAX_ALIASES])), next]);
}

const NO_ALIASES = [new Map<string, number>(), 0] as const;

// --- context

function contextFields(context: LinkContext | undefined): Fields | undefined {
  const { encoder, decoder } = context ?? {};
  if (encoder === undefined && decoder === undefined) return undefined;
  return { sent: encoder && encoderFields(encoder), received: decoder && decoderFields(decoder) };
}

function restoreContext(context: LinkContext | undefined, value: unknown, { maxMessageSize }: Limits): void {
  if (value === undefined) return;
  const list = new ValueList([value], 'the context');
  if (context === undefined || !isFields(value)) throw list.bad('of a session with context');
  assertLoaded();
  const { parameters } = context;
  const { ContextEncoder, ContextDecoder } = codecs.context.get();
  const [sent, received] = [get(value, 'sent'), get(value, 'received')];
  if (sent !== undefined) {
    context.encoder = new ContextEncoder(parameters);
    restoreEncoder(context.encoder, objectField(value, 'sent'), parameters);
  }
  if (received === undefined) return;
  context.decoder = new ContextDecoder(parameters, maxMessageSize);
  restoreDecoder(context.decoder, objectField(value, 'received'), parameters);
}
