import { ByteReader, varintLength, writeVarint } from '../base/bytes.js';
import { bad, type Fields, get } from '../base/fields.js';
import { listsOf, ValueList } from '../base/value-list.js';
import { BodyCodec, BodyCounts } from '../codec/body.js';
import { type BodyBounds, bodyValues, readBody } from './body-snapshot.js';
import { decodeLinkFrame, isCounted, LinkKind } from './frame.js';
import type { Outbox } from './outbox.js';
import { isStreamed, type QueueItem, type SendQueue } from './send-queue.js';

/** The frames that wait to be written or acknowledged, as plain values. */

const STARTED = 1;
const BLOCKED = 2;

export function outboxFields(outbox: Outbox): Fields {
  const { queues, ready, control, written } = outbox.parts;
  const frames = [...written.unconfirmed()];
  const turns = [...ready, ...queues.filter(({ blocked }) => blocked)];
  const { sentBodies } = outbox;
  return {
    written: written.count,
    frames: frames.length === 0 ? undefined : packed(frames),
    replay: written.replayAt,
    kept: filled(
      [...(written.messages?.snapshot() ?? [])].map(({ body, frame }) => [frame, bodyValues(body)]),
    ),
    control: filled((control.frames ?? []).map(({ frame, counted }) => [frame, counted])),
    lanes: filled(turns.map(laneOf)),
    sent:
      sentBodies &&
      filled(sentBodies.byCodec.flatMap((count, codec) => (count ? [sentOf(codec, count)] : []))),
  };
}

export interface OutboxBounds extends Omit<BodyBounds, 'streamId'> {
  /** Counted frames that the peer has acknowledged. */
  readonly confirmed: number;
  /** Whether `streamId` was ever opened. */
  readonly wasOpened: (streamId: number) => boolean;
}

/**
 * @param outbox one that nothing was queued in; paused if the session is suspended.
 * @throws {ProtocolError} `bad_message`, `codec_not_loaded`, and the codes of frames.
 */
export function restoreOutbox(outbox: Outbox, fields: Fields, bounds: OutboxBounds): void {
  const { control, written } = outbox.parts;
  restoreWritten(outbox, fields, bounds);
  for (const [frame, body] of listsOf(
    get(fields, 'kept'),
    'kept messages',
    (list) => [list.count(), list.value()] as const,
  )) {
    if (written.messages === undefined || frame <= bounds.confirmed || frame > written.count)
      throw bad('kept messages', 'written, not acknowledged, and of a session whose link can be rebuilt');
    written.messages.add(readBody(body, { ...bounds, streamId: 0 }), frame);
  }
  for (const [frame, counted] of listsOf(
    get(fields, 'control'),
    'control frames',
    (list) => [list.bytes(), list.flag()] as const,
  )) {
    if (counted) assertCounted(frame);
    control.push(frame, counted);
  }
  restoreLanes(outbox, get(fields, 'lanes'), bounds);
  const sent = listsOf(get(fields, 'sent'), 'sent bodies', (list) => ({
    codec: list.count(BodyCodec.DICTIONARY),
    count: { bodies: list.count(), codedBytes: list.count(), contentBytes: list.count() },
  }));
  if (sent.length === 0) return;
  outbox.sentBodies = new BodyCounts();
  for (const { codec, count } of sent) outbox.sentBodies.byCodec[codec] = count;
}

/** A queue of an outbox that holds the beginning of a tensor, which does not move. */
export function hasTensor({ streamed }: SendQueue): boolean {
  return streamed !== undefined;
}

// --- written frames

function restoreWritten(
  { retain, parts: { written } }: Outbox,
  fields: Fields,
  { confirmed }: OutboxBounds,
): void {
  const list = new ValueList(
    [get(fields, 'written'), get(fields, 'frames'), get(fields, 'replay')],
    'written frames',
  );
  const count = list.count();
  const frames = unpacked(list.optional((one) => one.bytes()));
  if (confirmed > count || frames.length !== (retain ? count - confirmed : 0))
    throw list.bad('as many as were not acknowledged');
  frames.forEach(assertCounted);
  const replayAt = list.optional((one) => one.count(frames.length));
  // As if all frames had just been written, and those before the next one had been written again.
  written.count = count - frames.length;
  written.confirm(written.count);
  for (const frame of frames) written.appendCopy(frame);
  if (replayAt === undefined) return;
  written.replayFrom(confirmed);
  for (let i = 0; i < replayAt; i++) written.nextReplayed();
}

/** @throws {ProtocolError} `bad_message`, and as `decodeLinkFrame`. */
function assertCounted(frame: Uint8Array): void {
  if (
    frame.length === 0 ||
    frame[0] === undefined ||
    frame[0] >> 4 !== 1 ||
    !isCounted(decodeLinkFrame(frame).kind)
  )
    throw bad('a written frame', 'a counted link frame');
}

/** Frames one after the other, each after its length: a list of them would take twice the bytes of a token's. */
function packed(frames: readonly Uint8Array[]): Uint8Array {
  const bytes = new Uint8Array(frames.reduce((sum, { length }) => sum + varintLength(length) + length, 0));
  let at = 0;
  for (const frame of frames) {
    at = writeVarint(bytes, at, frame.length);
    bytes.set(frame, at);
    at += frame.length;
  }
  return bytes;
}

function unpacked(bytes: Uint8Array | undefined): Uint8Array[] {
  const frames: Uint8Array[] = [];
  if (bytes === undefined) return frames;
  const reader = new ByteReader(bytes);
  while (reader.remaining > 0) frames.push(reader.take(reader.varint('the length of a frame'), 'a frame'));
  return frames;
}

// --- queues

/** An end or an error is its frame, a body a list. */
function laneOf({ streamId, offset, started, blocked, items }: SendQueue): readonly unknown[] {
  const flags = (started ? STARTED : 0) + (blocked ? BLOCKED : 0);
  return [streamId, offset, flags, ...[...items].map(itemValue)];
}

function itemValue(item: QueueItem): unknown {
  if ('frame' in item) return item.frame;
  return 'bare' in item || isStreamed(item) ? null : bodyValues(item);
}

/** Queues in the order of their turns, then those that wait for credit. */
function restoreLanes(outbox: Outbox, lanes: unknown, bounds: OutboxBounds): void {
  const states = new Map<number, { readonly offset: number; readonly flags: number }>();
  listsOf(lanes, 'queues', (list) => {
    const streamId = list.count();
    if (states.has(streamId) || (streamId !== 0 && !bounds.wasOpened(streamId)))
      throw list.bad('one for each stream that was opened');
    states.set(streamId, { offset: list.count(), flags: list.count(STARTED + BLOCKED) });
    if (list.isAtEnd) throw list.bad('not empty');
    list.rest((one) => pushItem(outbox, one.value(), { ...bounds, streamId }));
  });
  const { queues, ready } = outbox.parts;
  ready.clear();
  const byStream = new Map(queues.map((queue) => [queue.streamId, queue]));
  for (const [streamId, { offset, flags }] of states) {
    const queue = byStream.get(streamId) as SendQueue;
    const { first } = queue;
    if (offset > 0 && !('bytes' in first && offset < first.bytes.length))
      throw bad('queues', 'begun within their first body');
    queue.offset = offset;
    queue.resize(-offset);
    queue.started = (flags & STARTED) !== 0;
    queue.blocked = (flags & BLOCKED) !== 0;
    if (queue.blocked) outbox.blockedStreams++;
    else ready.push(queue);
  }
}

function pushItem(outbox: Outbox, value: unknown, bounds: BodyBounds): void {
  if (!(value instanceof Uint8Array)) return outbox.pushBody(readBody(value, bounds));
  const frame = new Uint8Array(value);
  assertCounted(frame);
  const { kind, streamId } = decodeLinkFrame(frame);
  if (streamId !== bounds.streamId || (kind !== LinkKind.END && kind !== LinkKind.ERROR))
    throw bad('queues', 'ended by an end or an error of their stream');
  outbox.pushAfter(streamId, frame);
}

// --- counters

function sentOf(codec: number, count: NonNullable<BodyCounts['byCodec'][number]>): readonly number[] {
  return [codec, count.bodies, count.codedBytes, count.contentBytes];
}

const filled = <Value>(values: readonly Value[]): readonly Value[] | undefined =>
  values.length === 0 ? undefined : values;
