import { LINK_FIRST_BYTE } from '../base/frame-kind.js';
import { toHex } from '../base/testing/bytes.js';
import { RIDE_EVERY_MS } from '../link/acknowledgement.js';
import type { ServerSessionCore } from '../session/types.js';
import type { End, Simulation } from './simulation.js';

/** A session that rests forgets how long ago an acknowledgement went along; servers wait longer than that matters. */
export const QUIET_MS = RIDE_EVERY_MS;

/** The rests of a server's end, and the link frames that show whether they made a difference. */
export class Rests {
  /** The link frames of both ends, in their order. */
  readonly frames: string[] = [];
  count = 0;

  readonly note = (frame: Uint8Array, from: End): Uint8Array => {
    const isLink = (frame[0] ?? 0) >> 4 === LINK_FIRST_BYTE >> 4;
    if (isLink) this.frames.push(`${'canSnapshot' in from.core ? 'server' : 'page'} ${toHex(frame)}`);
    return frame;
  };

  /** Lets the session rest, if it can. Returns what is wrong then. */
  step(simulation: Simulation): string | undefined {
    const core = simulation.server.core as ServerSessionCore;
    if (core.idleMs(simulation.now) < QUIET_MS) return undefined;
    const { canSnapshot } = core;
    // The next frame wakes the session, and in half of the cases a snapshot.
    const before = canSnapshot && this.count % 2 === 0 ? simulation.snapshot() : undefined;
    if (!simulation.rest()) return undefined;
    this.count++;
    if (before === undefined || Buffer.compare(before, simulation.snapshot()) === 0) return undefined;
    return 'a session that has rested is another';
  }
}
