import type { Logger } from '@parlance/protocol';
import { loggable, type MemoryBudget } from '@parlance/protocol/internal';
import { limitedLog } from '../../base/limited-log.js';
import type { Transport } from '../../transport/transport.js';
import { LEFT, Link, type LinkEnd, type NodeWire, Traffic } from './link.js';
import { createLoopback } from './loopback.js';
import { openNodesMemory } from './quota.js';

export interface LinksOptions {
  /** This node. */
  readonly incarnation: string;
  readonly memory: MemoryBudget;
  readonly logger: Logger;
  readonly isMember: (node: string) => boolean;
  /** Opens a connection to a node. Calls nothing before it returns. */
  readonly dial: (node: string, onOpen: (wire: Transport) => void, onFailed: (why: unknown) => void) => void;
}

/** The links of one node to others and to itself, which its services share. */
export class Links {
  readonly traffic = new Traffic();
  readonly #options: LinksOptions;
  readonly #logger: Logger;
  readonly #services = new Map<string, (link: Link) => LinkEnd>();
  /** Those that this node has opened, by node. */
  readonly #opened = new Map<string, Link>();
  readonly #accepted = new Set<Link>();
  /** Nodes whose links are over since the last tick. */
  readonly #lost = new Set<string>();
  #isClosed = false;

  constructor(options: LinksOptions) {
    this.#options = options;
    this.#logger = limitedLog(options.logger);
  }

  /** Links to and from other nodes. */
  get size(): number {
    const own = this.#opened.has(this.#options.incarnation) ? 2 : 0;
    return this.#opened.size + this.#accepted.size - own;
  }

  /**
   * Lets other nodes use a service on the links that they open.
   *
   * @param accept gives the end of a link on which one begins to.
   */
  serve(service: string, accept: (link: Link) => LinkEnd): void {
    this.#services.set(service, accept);
  }

  /** The link to a node, which may be opened by this. */
  to(node: string): Link {
    const known = this.#opened.get(node);
    if (known !== undefined) return known;
    const link: Link = new Link({
      ...this.#shared(node),
      onOver: (why) => {
        this.#opened.delete(node);
        this.#lost.add(node);
        this.#report(node, why);
      },
    });
    this.#opened.set(node, link);
    if (this.#isClosed) link.end();
    else if (node === this.#options.incarnation) this.#openToSelf(link);
    else this.#open(link);
    return link;
  }

  /** The link to a node if it is open. Else it is opened, or again with the next tick if it has just broken. */
  ready(node: string): Link | undefined {
    if (!this.#opened.has(node) && this.#lost.has(node)) return undefined;
    const link = this.to(node);
    return link.isOpen && !link.isOver ? link : undefined;
  }

  /** Another node has connected. */
  accept(wire: Transport, node: string): void {
    if (this.#isClosed) return wire.terminate();
    wire.listen(this.#accept(wire, node));
  }

  /** A fault of this node: nothing is known any more of what is under way between it and another one. */
  drop(node: string): void {
    this.#opened.get(node)?.end();
    for (const link of [...this.#accepted]) if (link.node === node) link.end();
  }

  handleTick(): void {
    const { isMember, incarnation } = this.#options;
    this.#lost.clear();
    for (const link of [...this.#accepted]) link.handleTick(true);
    // A connection to a node that is gone may never break by itself.
    for (const [node, link] of [...this.#opened]) link.handleTick(node === incarnation || isMember(node));
  }

  /** Ends all of them. Resolves when the other nodes have read all messages, after a second at most. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all([...this.#opened.values(), ...this.#accepted].map((link) => link.leave()));
  }

  #shared(node: string) {
    const { incarnation, memory } = this.#options;
    const { traffic } = this;
    return { node, traffic, memory: node === incarnation ? undefined : openNodesMemory(memory) };
  }

  #open(link: Link): void {
    const handleOpen = (wire: Transport) => {
      wire.listen(link);
      link.open(wire);
    };
    this.#options.dial(link.node, handleOpen, (why) => link.end(why));
  }

  #openToSelf(link: Link): void {
    const [near, far] = createLoopback();
    far.listen(this.#accept(far, link.node));
    near.listen(link);
    link.open(near);
  }

  #accept(wire: NodeWire, node: string): Link {
    const link: Link = new Link({
      ...this.#shared(node),
      accept: (service, own) => this.#services.get(service)?.(own),
      onOver: (why) => {
        this.#accepted.delete(link);
        this.#report(node, why);
      },
    });
    this.#accepted.add(link);
    link.open(wire);
    return link;
  }

  #report(node: string, why: unknown): void {
    if (why === undefined || why === LEFT || this.#isClosed) return;
    const fields = { event: 'peer.lost', node, err: loggable(why) };
    this.#logger.warn(fields, 'the connection between two nodes is lost');
  }
}
