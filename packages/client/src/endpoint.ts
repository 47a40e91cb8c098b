import { Endpoint, type Wire } from '@parlance/protocol/internal';

/** The endpoint of a client: one session, which may have a successor. */
export class ClientEndpoint extends Endpoint {
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

  /** Sends new credentials before the old ones end. */
  authenticate(token: string): void {
    this.command((core, now) => core.authenticate(token, now));
  }
}
