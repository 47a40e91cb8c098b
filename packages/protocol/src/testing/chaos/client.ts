import { CloseReason } from '../../control/messages.js';
import { createSession } from '../../session/create.js';
import type { SessionCore, SessionEvent } from '../../session/types.js';
import { Application } from './application.js';
import type { Connection, Frame, Party } from './network.js';
import { SESSION, type World } from './world.js';

/**
 * A client in virtual time: it reconnects after every loss, abandons some connections, and begins a new
 * session if the old one is lost or closed.
 */

const MAX_RETRY_MS = 400;

export class Client {
  readonly #world: World;
  core: SessionCore;
  application: Application | undefined;
  /** No new session follows this one. */
  isLast = false;
  #wire: Connection | undefined;
  #isAnswered = false;
  #retryAt = 0;
  /** The ACCEPT of a session that the server began instead of the lost one. */
  #superseding: Frame | undefined;

  constructor(world: World) {
    this.#world = world;
    this.core = createCore();
  }

  get wire(): Connection | undefined {
    return this.#wire;
  }

  get hasEnded(): boolean {
    return this.isLast && this.core.state === 'closed';
  }

  /** HELLO was sent and is not answered. */
  get isShakingHands(): boolean {
    return this.#wire !== undefined && this.core.lifecycle !== 'established' && !this.#isAnswered;
  }

  get session(): string | undefined {
    return this.core.id;
  }

  handleTime(): void {
    const { network } = this.#world;
    this.core.handleTimeout(network.now);
    this.pump();
    if (this.#wire !== undefined || network.now < this.#retryAt || this.hasEnded) return;
    if (network.isDown) this.#retryLater();
    else this.#dial();
  }

  close(): void {
    if (this.core.state !== 'established' && this.core.state !== 'suspended') return;
    const { tally, network } = this.#world;
    if (this.#wire === undefined) tally.count('closed without a connection');
    tally.count('closed by the client');
    if (this.core.id !== undefined) this.#world.ledger.closed(this.core.id, 'client');
    this.core.close(CloseReason.CLIENT_SHUTDOWN, '', network.now);
    this.#retryAt = Math.min(this.#retryAt, network.now);
  }

  /** Gives up the connection, which may still work: frames already sent may arrive later. */
  abandon(): void {
    const wire = this.#wire;
    if (wire === undefined) return;
    wire.abandon('client');
    this.#handleClose(wire, 1006);
  }

  pump(): boolean {
    let isBusy = false;
    let closeCode: number | undefined;
    this.#transmit();
    while (this.core.hasEvents) {
      isBusy = true;
      for (let event = this.core.pollEvent(); event !== undefined; event = this.core.pollEvent()) {
        if (event.type === 'disconnect') closeCode ??= event.closeCode;
        else this.#handleEvent(event);
      }
      if (closeCode !== undefined) {
        this.#wire?.close('client', closeCode);
        this.#lose();
        closeCode = undefined;
      }
      this.#transmit();
    }
    return isBusy;
  }

  #dial(): void {
    const { network } = this.#world;
    const party: Party = {
      handleFrame: (frame) => {
        if (this.#wire !== wire) return;
        this.core.handleMessage(frame, network.now);
        this.#isAnswered = true;
      },
      handleClose: (code) => this.#handleClose(wire, code),
    };
    const wire: Connection = network.connect(party);
    this.#wire = wire;
    this.#isAnswered = false;
    this.core.handleConnected(network.now);
  }

  #handleClose(wire: Connection, code: number): void {
    if (this.#wire !== wire) return;
    this.#lose();
    this.core.handleDisconnected(code, '', this.#world.network.now);
  }

  #lose(): void {
    this.#wire = undefined;
    this.application?.lose();
    this.#retryLater();
  }

  #retryLater(): void {
    this.#retryAt = this.#world.network.now + this.#world.random.below(MAX_RETRY_MS);
  }

  #transmit(): void {
    while (this.#wire !== undefined && !this.#wire.isFull('client')) {
      const frame = this.core.pollTransmit();
      if (frame === undefined) return;
      this.#wire.send('client', frame);
    }
  }

  #handleEvent(event: SessionEvent): void {
    const { core } = this;
    if (event.type === 'superseded') {
      this.#superseding = event.accept;
      return;
    }
    if (event.type === 'state' && event.state === 'established') {
      this.application ??= new Application({
        ...this.#world,
        core,
        side: 'client',
        session: core.id as string,
      });
      this.application.regain();
    }
    this.application?.handle(event);
    if (event.type !== 'ended') return;
    const { tally } = this.#world;
    if (event.error === undefined && core.id !== undefined) tally.count('closed in order');
    if (event.error?.code === 'session_lost' && core.id !== undefined) tally.count('not recovered');
    if (!this.isLast) this.#renew();
  }

  /** Starts a new session, on the present connection if the server has already accepted one there. */
  #renew(): void {
    const { now } = this.#world.network;
    this.core = createCore();
    this.application = undefined;
    const accept = this.#superseding;
    this.#superseding = undefined;
    if (accept === undefined || this.#wire === undefined) return;
    this.core.handleConnected(now);
    // The server answered the HELLO of the lost session, so the new one is not sent.
    this.core.pollTransmit();
    this.core.handleMessage(accept, now);
  }
}

function createCore(): SessionCore {
  return createSession({ ...SESSION, role: 'client' });
}
