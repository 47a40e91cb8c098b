import { CloseReason, Endpoint, type Wire } from '@parlance/protocol/client';
/** The endpoint of a client: one session, which may have a successor. */
export class ClientEndpoint extends Endpoint {
  protected override get closeReason(): CloseReason {
    return CloseReason.CLIENT_SHUTDOWN;
  }
  override get reachesAgents(): boolean {
    return true;
  }
  override get ends(): { readonly source: string; readonly target: string } {
    return { source: this.agentId ?? '', target: '' };
  }

  /** HELLO for the upgrade request of the next connection. */
  hello(token: string | undefined): Uint8Array | string | undefined {
    return this.core.hello(this.options.clock.now(), token);
  }

  /**
   * The server has begun this session on `wire` with `accept`, its answer to the HELLO of the session before.
   */
  handleAccepted(wire: Wire, accept: Uint8Array | string): void {
    this.command((core, now) => {
      this.replaceWire(wire);
      core.handleConnected(now);
      // Its own HELLO is not sent.
      core.pollTransmit();
      core.handleMessage(accept, now);
    });
  }

  /** Releases the connection to the next session. */
  releaseWire(): void {
    this.replaceWire(undefined);
  }

  /** Ends this end of the session without an error. Its connection stays as it is, and brings nothing any more. */
  detach(): void {
    this.releaseWire();
    this.command((core, now) => core.detach(now));
  }

  /** The connection may be gone: asks the server whether it is there, and gives it up if nothing comes. */
  probe(): void {
    this.command((core, now) => core.probe(now));
  }

  /** Gives the connection up, if another one can resume the session. */
  leaveConnection(reason: string): void {
    this.command((core, now) => void core.leaveConnection(reason, now));
  }

  /** Sends new credentials before the old ones end. */
  authenticate(token: string): void {
    this.command((core, now) => core.authenticate(token, now));
  }
}
