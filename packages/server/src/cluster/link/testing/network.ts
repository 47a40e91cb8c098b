import type { Transport, TransportEvents } from '../../../transport/transport.js';
import type { Links } from '../links.js';

/** Connections between nodes without sockets: what is sent arrives when the test says so. */

/** One end of a connection between two nodes. */
class End implements Pick<Transport, 'send' | 'terminate' | 'listen'> {
  other!: End;
  events: TransportEvents | undefined;
  readonly queue: (Uint8Array | string)[] = [];
  isOver = false;

  listen(events: TransportEvents): void {
    this.events = events;
  }
  send(data: Uint8Array | string): void {
    if (!this.isOver) this.queue.push(data);
  }
  terminate(): void {
    if (this.isOver) return;
    this.isOver = true;
    this.other.break();
  }
  break(): void {
    if (this.isOver) return;
    this.isOver = true;
    this.queue.length = 0;
    this.events?.onClose(1006, '');
  }
  deliver(): void {
    const data = this.queue.shift();
    if (data !== undefined && !this.other.isOver) this.other.events?.onMessage(data, data.length);
  }
}

/** A process that may have died. */
export interface NetworkNode {
  readonly name: string;
  readonly isAlive: boolean;
  readonly links: Links;
}

export class Network<Node extends NetworkNode> {
  readonly nodes: Node[] = [];
  readonly ends: { readonly from: Node; readonly to: Node; readonly pair: readonly [End, End] }[] = [];
  readonly dialing: (() => void)[] = [];

  dial(from: Node, name: string, onOpen: (wire: Transport) => void, onFailed: (why: unknown) => void): void {
    this.dialing.push(() => {
      const to = this.nodes.find((node) => node.name === name);
      if (to?.isAlive !== true || !from.isAlive) return onFailed(new Error('refused'));
      const pair = [new End(), new End()] as const;
      pair[0].other = pair[1];
      pair[1].other = pair[0];
      this.ends.push({ from, to, pair });
      to.links.accept(pair[1] as never as Transport, from.name);
      onOpen(pair[0] as never as Transport);
    });
  }

  cut(index: number): void {
    const [connection] = this.ends.splice(index, 1);
    for (const end of connection?.pair ?? []) end.break();
  }

  cutAll(node: Node): void {
    for (let i = this.ends.length - 1; i >= 0; i--) {
      const { from, to } = this.ends[i] as Network<Node>['ends'][number];
      if (from === node || to === node) this.cut(i);
    }
  }
}
