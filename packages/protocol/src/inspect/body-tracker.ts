import { decodeBodyHead, isBodyKind, isCounted, LinkFlag, type LinkFrame } from '../link/frame.js';
import type { Continuation } from './explanation.js';
import { attempt } from './report.js';

/**
 * Which bodies of one direction of a session are under way. Frames are numbered as both ends number
 * them, so that those that are written again on another connection are known for what they are.
 */
export interface BodyTracker {
  /** The next frame was written before. */
  readonly isRepeating: boolean;
  /** The next frame's number; those that are not counted have none of their own. */
  readonly number: number;
  /** What the next frame goes on with, where it begins no body. */
  continuation(frame: LinkFrame): Continuation | undefined;
  /** The next frame has passed. */
  add(frame: LinkFrame, continues: Continuation | undefined): void;
  /** So many frames have arrived and are not written again. */
  confirm(count: number): void;
  /** The next frame is the one of this number. */
  rewind(count: number): void;
}

/** More bodies than any limit allows to be under way are not followed. */
const MAX_BODIES = 4096;

export function createBodyTracker(maxMetadataSize: number): BodyTracker {
  /** Unfinished bodies by stream, as of the newest frame. */
  const open = new Map<number, Continuation>();
  /** Frames that are not confirmed and go on with a body, by number. */
  const written = new Map<number, Continuation>();
  let next = 0;
  let newest = 0;

  const follow = (frame: LinkFrame, continues: Continuation | undefined): void => {
    const { streamId, rest } = frame;
    if (!isBodyKind(frame.kind) || (frame.flags & LinkFlag.MORE) === 0) {
      // A reply that ends, fails or is not wanted any more leaves nothing under way.
      open.delete(streamId);
      return;
    }
    if (continues !== undefined) {
      open.set(streamId, { total: continues.total, received: continues.received + rest.length });
    } else if (open.size < MAX_BODIES) {
      // A head that is damaged ends the session, and there is nothing to follow any more.
      attempt(() => {
        const { totalLength, bytes } = decodeBodyHead(frame, maxMetadataSize);
        open.set(streamId, { total: totalLength, received: bytes.length });
      });
    }
  };

  return {
    get isRepeating() {
      return next < newest;
    },
    get number() {
      return next;
    },
    continuation(frame) {
      if (!isBodyKind(frame.kind)) return undefined;
      return next < newest ? written.get(next) : open.get(frame.streamId);
    },
    add(frame, continues) {
      if (!isCounted(frame.kind)) return;
      if (next === newest) {
        if (continues !== undefined && written.size < MAX_BODIES) written.set(next, continues);
        follow(frame, continues);
        newest++;
      }
      next++;
    },
    confirm(count) {
      for (const number of written.keys()) {
        if (number >= count) break;
        written.delete(number);
      }
    },
    rewind(count) {
      next = Math.min(count, newest);
    },
  };
}
