import type { Have, HeldStream } from '../../control/messages.js';
import type { OutgoingBody } from '../../link/frame.js';
import { type OpenStream, openStream } from '../../link/streams.js';

/** One request of the client and its reply, as a server has recorded them, or will. */
export interface DurableStream {
  /** How often its handler was started. */
  attempt: number;
  isRepeatable: boolean;
  /** The ID under which the reply is kept. */
  kept: string | undefined;
  /** Parts so far, recorded or not. */
  parts: number;
  /** Parts of former processes, until the reply continues. */
  former: readonly OutgoingBody[];
  /** How many of them the client has. */
  told: number;
  end: Uint8Array | undefined;
  /** Its last frame is among the first so many frames, as far as that is known. */
  endFrame: number | undefined;
  /** Bytes of parts that are not recorded yet. */
  pending: number;
  /** Bytes of all parts, recorded or not. */
  size: number;
}

export const newStream = (): DurableStream => ({
  ...{ attempt: 0, isRepeatable: false, kept: undefined, parts: 0, former: [], told: 0 },
  ...{ end: undefined, endFrame: undefined, pending: 0, size: 0 },
});

/** How the requests of a client continue, by what it has. */
export interface Continuation {
  readonly adopted: readonly OpenStream[];
  /** The client has everything of these. */
  readonly forgotten: readonly number[];
  /** The client has cancelled these. */
  readonly cancelled: readonly number[];
  /** Over, but the client still gets the rest; those without an entry were forgotten by the engine. */
  readonly over: readonly number[];
  /** The handlers of these have died, and are not called again. */
  readonly interrupted: readonly number[];
  /** The client writes these again. */
  readonly again: readonly number[];
  /** The client has received a start, a part or an end that is not recorded. */
  readonly isBehind: boolean;
}

/** @param tellsBeside the client may have parts that are not recorded, although nothing was forgotten. */
export function continuationOf(
  streams: ReadonlyMap<number, DurableStream>,
  have: Have,
  tellsBeside: boolean,
): Continuation {
  const held = new Map(have.streams.map((stream) => [stream.id, stream]));
  const forgotten = [...streams.keys()].filter((id) => !held.has(id));
  const lists: Record<Fate, number[]> = { cancelled: [], over: [], interrupted: [], again: [] };
  for (const stream of have.streams) lists[fateOf(stream, streams.get(stream.id))].push(stream.id);
  const { cancelled, over, interrupted } = lists;
  const adopted = [...cancelled, ...over, ...interrupted].map((id) => openStream(id, false));
  const isBehind =
    forgotten.some((id) => streams.get(id)?.end === undefined) ||
    have.streams.some((stream) => hasMore(stream, streams.get(stream.id), tellsBeside));
  return { adopted, forgotten, ...lists, isBehind };
}

/** Whether the client has received more of a reply than is recorded. */
function hasMore(
  { isCancelled, isAcknowledged, parts }: HeldStream,
  known: DurableStream | undefined,
  tellsBeside: boolean,
): boolean {
  if (isCancelled) return false;
  if (known === undefined) return isAcknowledged || parts > 0;
  return known.end === undefined && parts > known.parts && (known.isRepeatable || !tellsBeside);
}

type Fate = 'cancelled' | 'over' | 'interrupted' | 'again';

function fateOf({ isCancelled, isAcknowledged, parts }: HeldStream, known: DurableStream | undefined): Fate {
  if (isCancelled) return 'cancelled';
  // The engine has forgotten a request whose handler was started.
  if (known === undefined) return isAcknowledged || parts > 0 ? 'interrupted' : 'again';
  if (known.end !== undefined) return 'over';
  // A handler that is called again does not know the parts that the engine has forgotten, and cannot continue behind them.
  return known.isRepeatable && parts <= known.parts ? 'again' : 'interrupted';
}
