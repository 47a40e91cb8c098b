import { decodeLinkFrame, LinkFlag, LinkKind, type OutgoingBody } from '../link/frame.js';
import type { Outbox } from '../link/outbox.js';
import type { UnwrittenBody } from '../link/send-queue.js';
import type { Undelivered, UndeliveredBody } from './types.js';

/** What of an outbox never left, and what left without being confirmed. */
export function undelivered(outbox: Outbox): Undelivered {
  const notSent = outbox.unwritten().map(unsent);
  const unknown: UndeliveredBody[] = [];
  for (const bytes of outbox.unconfirmed()) {
    const frame = decodeLinkFrame(bytes);
    // A body counts once, by its last frame; signals are no bodies.
    if (frame.kind <= LinkKind.CHUNK && !(frame.flags & LinkFlag.MORE))
      unknown.push(describe(frame.kind, frame.streamId));
  }
  return { notSent, unknown };
}

/** A body that was not written to its end; without a link all are messages. */
export function unsent(body: UnwrittenBody): UndeliveredBody {
  return 'bare' in body ? describe(LinkKind.MESSAGE, 0) : describe(body.kind, body.streamId);
}

function describe(kind: OutgoingBody['kind'] | LinkKind, streamId: number): UndeliveredBody {
  if (kind === LinkKind.MESSAGE) return { kind: 'message', streamId };
  return { kind: kind === LinkKind.REQUEST ? 'request' : 'reply', streamId };
}
