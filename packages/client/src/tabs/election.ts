import { attempt } from '@parlance/protocol/client';
import type { Hubs } from './hub.js';
import { channelPipe, type HostPipe, type Pipe, portPipe, readyPipe } from './pipe.js';
import { awaitLock, type Locks } from './presence.js';

/**
 * Finds the tab that hosts the session if there is no worker: the tab that holds a Web Lock. When that tab is gone, the
 * browser gives the lock to the tab that has waited longest, which becomes the next host.
 */
export interface ElectionOptions {
  /** Names the lock, and the channel on which tabs look for the host. */
  readonly name: string;
  readonly locks: Locks;
  /** Creates what hosts the session in this tab. @param onIdle no tab uses it any more. */
  readonly createHubs: (onIdle: () => void) => Promise<Hubs>;
}

type Search = { readonly type: 'seek'; readonly id: string } | { readonly type: 'lead' };

export class Election {
  readonly #options: ElectionOptions;
  readonly #channel: BroadcastChannel;
  /** The hosts of the session, while this tab has them. */
  #hubs: Hubs | undefined;
  #stopWaiting: (() => void) | undefined;
  /** The channel to the host that this tab looks for, or has found. */
  #remote: Pipe | undefined;
  /** Looks for the host; called again when there is a new one. */
  #seek: (() => void) | undefined;
  /** Searches that this host has answered. */
  readonly #served = new Set<string>();
  #isStopped = false;
  #release = (): void => {};

  constructor(options: ElectionOptions) {
    this.#options = options;
    this.#channel = new BroadcastChannel(options.name);
    this.#channel.addEventListener('message', ({ data }) => this.#handle(data));
  }

  /** Resolves with a pipe to the host, which may be this tab. */
  attach(): Promise<HostPipe> {
    this.#stopWaiting ??= awaitLock(this.#options.locks, this.#options.name, () => this.#lead());
    return new Promise((resolve, reject) => {
      const id = crypto.randomUUID();
      const remote = channelPipe(this.#nameOf(id));
      this.#remote = remote;
      const find = async (pipe: Pipe): Promise<void> => {
        const found = await readyPipe(pipe);
        this.#seek = undefined;
        resolve(found);
      };
      find(remote).catch(reject);
      this.#seek = () => {
        if (this.#hubs === undefined) return this.#tell({ type: 'seek', id });
        this.#seek = undefined;
        remote.close();
        const { port1, port2 } = new MessageChannel();
        find(portPipe(port2)).catch(reject);
        this.#hubs.serve(portPipe(port1));
      };
      this.#seek();
    });
  }

  /** The page goes away, and with it the session. */
  abandon(): void {
    this.#hubs?.abandon();
    this.stop();
  }

  /** The session of this tab is over. It still hosts the session of the others. */
  stop(): void {
    this.#isStopped = true;
    this.#seek = undefined;
    this.#remote?.close();
    if (this.#hubs === undefined) this.#close();
    else if (this.#hubs.isIdle) this.#release();
  }

  #close(): void {
    this.#stopWaiting?.();
    this.#channel.close();
  }

  /** Resolves when this tab is not the host any more, which frees the lock. */
  async #lead(): Promise<void> {
    if (this.#isStopped) return;
    const idle = new Promise<void>((resolve) => {
      this.#release = resolve;
    });
    this.#hubs = await this.#options.createHubs(this.#release);
    if (this.#isStopped) this.#release();
    this.#tell({ type: 'lead' });
    this.#seek?.();
    await idle;
    // Tabs that have found this host and not joined yet look for another one.
    this.#hubs.abandon();
    this.#hubs = undefined;
    this.#served.clear();
    this.#stopWaiting = undefined;
    if (this.#isStopped) this.#close();
  }

  #handle(message: unknown): void {
    const { type, id } = (message ?? {}) as { readonly type?: unknown; readonly id?: unknown };
    if (type === 'lead') this.#seek?.();
    if (type !== 'seek' || typeof id !== 'string' || this.#hubs === undefined) return;
    // A tab asks twice if the answer to its first question crosses the news of this host.
    if (this.#served.has(id)) return;
    this.#served.add(id);
    this.#hubs.serve(channelPipe(this.#nameOf(id)));
  }

  #nameOf(id: string): string {
    return `${this.#options.name}:${id}`;
  }

  #tell(message: Search): void {
    // The channel may be closed already.
    attempt(() => this.#channel.postMessage(message));
  }
}
