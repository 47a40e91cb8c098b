import { atOnce } from '../../base/callbacks.js';
import type { Subprotocol } from '../../base/constants.js';
import type { Limits } from '../../base/limits.js';
import { withoutSecrets } from '../map-fields.js';
import { type Direction, type FollowedFrame, followSession, type SessionStep } from '../session.js';
import {
  type ConnectionEvent,
  type InspectionEvent,
  type RecordedSelection,
  type ReplayEvent,
  SCHEMA_VERSION,
  type StateEvent,
} from './event.js';
import { maskedHex, recordedFields } from './recorded.js';

export interface RecorderOptions {
  /** Content to record of a frame, in UTF-16 units. @default 4096 */
  readonly preview?: number | undefined;
  /** Bytes to record of a frame, in hexadecimal. @default 4096 */
  readonly hexBytes?: number | undefined;
  /** @default detected from the frames */
  readonly subprotocol?: Subprotocol | undefined;
  /** Limits for decoding and decompression. @default DEFAULT_LIMITS */
  readonly limits?: Partial<Limits> | undefined;
  /** Returns how the session coded its last message: `session.stats().lastSelection`. @default not recorded */
  readonly selection?: (() => CodedSelection | undefined) | undefined;
}

/** A selection with the body that it led to. */
export interface CodedSelection extends RecordedSelection {
  readonly body: Uint8Array;
}

/**
 * Makes events of what happens on the connections of one session, and of those that replace it. Connections count
 * from 1; times are Unix milliseconds.
 */
export interface Recorder {
  opening(time: number, connection: number, url: string): InspectionEvent[];
  open(time: number, connection: number): InspectionEvent[];
  /** The caller must not change the bytes of the frame afterwards. */
  frame(
    time: number,
    connection: number,
    direction: Direction,
    frame: Uint8Array | string,
  ): InspectionEvent[];
  closed(time: number, connection: number, code: number, reason: string): InspectionEvent[];
}

const PREVIEW = 4096;
const HEX_BYTES = 4096;

/** @throws {ProtocolError} `invalid_option` if a limit is invalid. */
export function createRecorder(options: RecorderOptions = {}): Recorder {
  const { preview = PREVIEW, hexBytes = HEX_BYTES, subprotocol, limits, selection } = options;
  const session = followSession({ preview, subprotocol, limits });
  /** The session that is established or suspended. */
  let present: { readonly id: string; readonly windowMs: number; readonly connection: number } | undefined;
  let suspendedSince: number | undefined;
  /** The newest connection that is to carry a session. */
  let offered = 0;
  /** Connections that are open. */
  const opened = new Set<number>();
  /** Connections on which the session has ended. */
  const ending = new Set<number>();
  let lastSelection: CodedSelection | undefined;

  const head = (time: number) => ({ v: SCHEMA_VERSION, time: new Date(time).toISOString() }) as const;
  const state = (time: number, more: Omit<StateEvent, 'v' | 'time' | 'event'>): StateEvent => ({
    ...head(time),
    event: 'state',
    ...more,
  });
  const connectionEvent = (
    time: number,
    more: Omit<ConnectionEvent, 'v' | 'time' | 'event'>,
  ): ConnectionEvent => ({ ...head(time), event: 'connection', ...more });

  /** The selection that led to the body of a frame. */
  const selectionOf = (direction: Direction, { explanation }: FollowedFrame) => {
    if (selection === undefined || direction !== 'sent' || explanation.codec === undefined) return undefined;
    const found = atOnce(selection(), 'selection');
    if (found === undefined || found === lastSelection) return undefined;
    // The last message that was coded need not be the one that is written now.
    if (found.body.length !== explanation.sizes.body) return undefined;
    lastSelection = found;
    const { algorithm, reason } = found;
    return { algorithm, reason: { rule: reason.rule, tried: reason.tried.map((trial) => ({ ...trial })) } };
  };

  const take = (time: number, connection: number, step: SessionStep): InspectionEvent[] => {
    if (step.kind === 'offered') offered = connection;
    if (step.kind === 'ending') ending.add(connection);
    if (step.kind === 'offered' || step.kind === 'ending') return [];
    present = { id: step.sessionId, windowMs: step.windowMs, connection };
    const isResumed = step.kind === 'resumed' || undefined;
    const established = state(time, { state: 'established', session: step.sessionId, isResumed });
    const gapMs = suspendedSince === undefined ? undefined : Math.max(0, time - suspendedSince);
    suspendedSince = undefined;
    if (step.kind === 'established') return [established];
    const { sessionId, received, acknowledged, again, isRebuilt } = step;
    const replay: ReplayEvent = {
      ...head(time),
      event: 'replay',
      session: sessionId,
      gapMs,
      received,
      acknowledged,
      again,
      isRebuilt,
    };
    return [replay, established];
  };

  return {
    opening: (time, connection, url) => [
      connectionEvent(time, { connection, what: 'opening', url: withoutSecrets(url) }),
    ],
    open(time, connection) {
      opened.add(connection);
      return [connectionEvent(time, { connection, what: 'open' })];
    },

    frame(time, connection, direction, frame) {
      const followed = session.explain(direction, frame);
      const { bytes: _, fields, ...explained } = followed.explanation;
      return [
        {
          ...head(time),
          event: 'frame',
          connection,
          direction,
          ...explained,
          fields: recordedFields(fields),
          hex: hexBytes > 0 ? maskedHex(followed.explanation, hexBytes) : undefined,
          selection: selectionOf(direction, followed),
        },
        ...(followed.step === undefined ? [] : take(time, connection, followed.step)),
      ];
    },

    closed(time, connection, code, reason) {
      const what = opened.delete(connection) ? 'closed' : 'failed';
      const events: InspectionEvent[] = [
        connectionEvent(time, { connection, what, code, reason: reason || undefined }),
      ];
      const hasEnded = ending.delete(connection);
      // The session may have continued over another connection before this one was closed.
      if (present === undefined || present.connection !== connection) return events;
      const { id, windowMs } = present;
      // A session that moves may be left by the old connection before the answer comes on the new one.
      if (!hasEnded && opened.has(offered)) present = { id, windowMs, connection: offered };
      else if (hasEnded || windowMs === 0) {
        present = undefined;
        events.push(state(time, { state: 'closed', session: id }));
      } else {
        suspendedSince = time;
        events.push(state(time, { state: 'suspended', session: id, windowMs }));
      }
      return events;
    },
  };
}
