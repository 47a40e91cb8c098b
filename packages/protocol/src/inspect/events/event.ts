import type { ExplainedField, Explanation } from '../explanation.js';
import type { Direction } from '../session.js';

/**
 * Schema version 1 of what is recorded of a session: one JSON object for each event, and one line for each object in
 * a capture. docs/INSPECTOR.md describes it. Members may be added; a change of meaning makes version 2.
 */
export const SCHEMA_VERSION = 1;

/** The members that all events have. */
interface EventHead {
  readonly v: typeof SCHEMA_VERSION;
  /** ISO 8601 in UTC, with milliseconds. */
  readonly time: string;
}

/** One field of a frame. Offsets count in the frame, or in the decoded bytes of the nearest field that has `standsForBytes`. */
export interface RecordedField extends Omit<ExplainedField, 'bytes' | 'children'> {
  /** The field is coded itself; its decoded form has that many bytes. */
  readonly standsForBytes?: number | undefined;
  readonly children?: readonly RecordedField[] | undefined;
}

/** How `auto` chose a codec: the candidates and their sizes. */
export interface RecordedSelection {
  readonly algorithm: string;
  readonly reason: {
    /**
     * `only`: there is no other; `smallest`: it won a comparison; `learned`: it usually wins for such messages;
     * `heuristic`: too short or too long for a comparison; `context`: smaller against an earlier message than all
     * others; `investment`: later messages can be coded against this one.
     */
    readonly rule: string;
    readonly tried: readonly {
      readonly algorithm: string;
      /** Size of the body; absent if the codec cannot carry the content. */
      readonly bytes?: number | undefined;
      readonly estimated: boolean;
    }[];
  };
}

/** A frame, as it was on the wire, with its explanation. */
export interface FrameEvent extends EventHead, Omit<Explanation, 'bytes' | 'fields'> {
  readonly event: 'frame';
  /** Counts the connections of the capture, from 1. */
  readonly connection: number;
  readonly direction: Direction;
  readonly fields: readonly RecordedField[];
  /** The beginning of the frame: two hexadecimal digits for each byte, `xx` for a byte of a credential. */
  readonly hex?: string | undefined;
  readonly selection?: RecordedSelection | undefined;
}

/** A WebSocket begins to open, is open, was closed, or could not be opened. */
export interface ConnectionEvent extends EventHead {
  readonly event: 'connection';
  readonly connection: number;
  readonly what: 'opening' | 'open' | 'closed' | 'failed';
  /** Without user and query values; set if `what` is `opening`. */
  readonly url?: string | undefined;
  /** Close code; set if `what` is `closed` or `failed`. */
  readonly code?: number | undefined;
  readonly reason?: string | undefined;
}

/** The session is established, is suspended because its connection was lost, or has ended. */
export interface StateEvent extends EventHead {
  readonly event: 'state';
  readonly state: 'established' | 'suspended' | 'closed';
  readonly session?: string | undefined;
  /** An established session that was there before, see {@link ReplayEvent}. */
  readonly isResumed?: true | undefined;
  /** How long the session survives without a connection, in milliseconds; set if it is suspended. */
  readonly windowMs?: number | undefined;
}

/** A session was resumed: what both ends had, and what is written again. */
export interface ReplayEvent extends EventHead {
  readonly event: 'replay';
  readonly session: string;
  /** Time without a connection, in milliseconds; absent if the capture has not seen the loss. */
  readonly gapMs?: number | undefined;
  /** Frames that the client had received. */
  readonly received: number;
  /** Frames that the server had received. */
  readonly acknowledged: number;
  /** Frames of this capture that are written again. */
  readonly again: number;
  /** The page was loaded again, and the link has a new beginning. */
  readonly isRebuilt: boolean;
}

/** The events into which a recorder turns a session. */
export type InspectionEvent = FrameEvent | ConnectionEvent | StateEvent | ReplayEvent;
