import type { ProtocolError } from '../base/errors.js';
import type { BodyToSend } from '../link/link.js';
import { LinkChannel } from './channel.js';
import type { Rebuilding } from './rebuilding.js';

/** Server: the channel of a session whose link may have taken the place of others. Pages do not load it. */
export class ServerChannel extends LinkChannel {
  /** @default its link is not rebuilt */
  protected readonly rebuilding: Rebuilding | undefined;

  override get unreadBytes(): number {
    return super.unreadBytes + (this.rebuilding?.unread ?? 0);
  }

  override runToCompletion(streamId: number): void {
    const stream = this.rebuilding && this.link.parts.streams.answerable(streamId);
    if (stream !== undefined) stream.runsToCompletion = true;
  }

  override consume(streamId: number, charge: number): boolean {
    const due = streamId === 0 ? this.rebuilding?.consume(charge) : undefined;
    return super.consume(streamId, due ?? charge);
  }

  override holdCredit(isHeld: boolean): void {
    if (this.rebuilding !== undefined) this.rebuilding.isCreditHeld = isHeld;
    super.holdCredit(isHeld);
  }

  // A request is answered; its stream may belong to a former link.

  override respond(streamId: number, body: BodyToSend): void {
    this.rebuilding?.handleAnswered(streamId);
    super.respond(streamId, body);
  }

  override end(streamId: number): void {
    this.rebuilding?.handleAnswered(streamId);
    super.end(streamId);
  }

  override fail(streamId: number, error: unknown): void {
    this.rebuilding?.handleAnswered(streamId);
    super.fail(streamId, error);
  }

  override refuse(streamId: number, error: ProtocolError): void {
    this.rebuilding?.handleAnswered(streamId);
    super.refuse(streamId, error);
  }
}
