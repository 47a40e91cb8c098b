import type { Limits } from '../../base/limits.js';
import type { BodyCoder } from '../../codec/coder.js';
import type { Negotiated } from '../../control/agreement.js';
import type { Clock } from '../../platform/clock.js';
import type { SessionCore } from '../../session/types.js';
import { type Crashable, guard } from '../guard.js';
import { pulls } from '../http/pulls.js';
import type { BlobBody } from '../messages/blob.js';
import type { Logger } from '../ports.js';
import type { Session } from '../session.js';
import { isTickOver } from '../tick.js';
import type { ResolvedBatchOptions } from './batch-options.js';
import { canFollow } from './follow.js';
import type { ReplyKeeper } from './keeping.js';
import { Responder } from './responder.js';

/** The endpoint that gets the requests. */
interface Host extends Crashable {
  readonly core: SessionCore;
  readonly session: Session;
  readonly logger: Logger;
  readonly negotiated: Negotiated;
  readonly options: {
    readonly clock: Clock;
    readonly limits: Limits;
    readonly batch?: ResolvedBatchOptions | undefined;
    readonly keeper?: ReplyKeeper | undefined;
    readonly yield?: (() => Promise<void>) | undefined;
  };
  transmit(): void;
  handleAnswered?(): void;
  repeat?(streamId: number): void;
  markKept?(streamId: number, id: string): Promise<void> | undefined;
}

/** The means of sending answers. */
interface Sender {
  readonly coder: BodyCoder;
  readonly clock: Clock;
  read(blob: BlobBody): Promise<Uint8Array>;
  room(streamId: number): Promise<void>;
  hasRoom(streamId: number): boolean;
}

/** Creates the responder, which answers the requests that an endpoint receives. */
export function createResponder(host: Host, sender: Sender): Responder {
  const { clock, limits, batch, yield: letOthersRun = clock.yield } = host.options;
  return new Responder({
    core: host.core,
    coder: sender.coder,
    session: host.session,
    logger: host.logger,
    clock: sender.clock,
    read: (blob) => sender.read(blob),
    // All sessions share a tick of the event loop, so this is the clock of the process.
    rest: (size) => (isTickOver(clock, size) ? letOthersRun() : undefined),
    maxMetadataSize: limits.maxMetadataSize,
    batch,
    transmit: () => guard(host, () => host.transmit()),
    ready: (streamId) => sender.room(streamId),
    hasRoom: (streamId) => sender.hasRoom(streamId),
    keeper: host.options.keeper,
    pulls,
    hasReplies: canFollow(host.negotiated),
    onAnswered: () => host.handleAnswered?.(),
    repeat: (streamId) => host.repeat?.(streamId),
    markKept: (streamId, id) => host.markKept?.(streamId, id),
  });
}
