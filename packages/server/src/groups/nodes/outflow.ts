import type { Link } from '../../cluster/link/link.js';
import type { Links } from '../../cluster/link/links.js';
import { countField, type LinkMessage, malformed } from '../../cluster/link/message.js';
import { GROUPS, type GroupMessageType } from './messages.js';

/** Bytes that may be on their way to a node before it has said that it has them. */
export const WINDOW = 1024 * 1024;
/** Bytes of messages to groups that may wait for a node. */
export const MAX_WAITING = 16 * 1024 * 1024;
/** Memory that a message takes beside its content. */
const OVERHEAD = 512;

interface Numbered {
  readonly number: number;
  readonly type: GroupMessageType;
  readonly fields: readonly unknown[];
  readonly bytes: Uint8Array;
  readonly size: number;
}

/**
 * Messages of this node to another one about groups, in order and each once for as long as both live. Messages that the
 * other node has not confirmed are sent again on the next link.
 */
export class Outflow {
  readonly #node: string;
  readonly #links: Links;
  /** Tells this from one that was there before, when the other node was taken for dead. */
  readonly #stream: number;
  /** From the oldest one that is not confirmed. */
  #waiting: Numbered[] = [];
  #last = 0;
  /** Of those that wait: how many were sent on the present link. */
  #sent = 0;
  #sentBytes = 0;
  #bytes = 0;
  #link: Link | undefined;
  /** The last link has broken since the last tick. */
  #isBroken = false;

  constructor(node: string, links: Links, stream: number) {
    this.#node = node;
    this.#links = links;
    this.#stream = stream;
  }

  /** Bytes that wait. */
  get bytes(): number {
    return this.#bytes;
  }

  hasRoom(size: number): boolean {
    return this.#bytes + size <= MAX_WAITING;
  }

  send(type: GroupMessageType, fields: readonly unknown[], bytes: Uint8Array): void {
    const size = bytes.length + OVERHEAD;
    this.#waiting.push({ number: ++this.#last, type, fields, bytes, size });
    this.#bytes += size;
    this.#pump();
  }

  handleTick(): void {
    this.#isBroken = false;
    this.#pump();
  }

  #pump(): void {
    if (this.#sent >= this.#waiting.length || this.#isBroken) return;
    const link = this.#link ?? this.#open();
    while (this.#sent < this.#waiting.length && this.#sentBytes < WINDOW && this.#link !== undefined) {
      const { number, type, fields, bytes, size } = this.#waiting[this.#sent] as Numbered;
      this.#sent++;
      this.#sentBytes += size;
      link.send(GROUPS, type, [number, ...fields], bytes);
    }
  }

  #open(): Link {
    const link = this.#links.to(this.#node);
    this.#link = link;
    link.attach(GROUPS, {
      handle: (message) => this.#handle(message),
      handleOver: () => {
        this.#link = undefined;
        this.#isBroken = true;
        this.#sent = 0;
        this.#sentBytes = 0;
      },
    });
    link.send(GROUPS, 'begin', [this.#stream, this.#waiting[0]?.number ?? this.#last + 1]);
    return link;
  }

  /** @throws {ProtocolError} `bad_message`. */
  #handle({ type, fields }: LinkMessage): void {
    if (type !== 'got') throw malformed();
    const number = countField(fields[0]);
    let count = 0;
    while (count < this.#sent && (this.#waiting[count] as Numbered).number <= number) {
      const { size } = this.#waiting[count] as Numbered;
      this.#bytes -= size;
      this.#sentBytes -= size;
      count++;
    }
    this.#waiting.splice(0, count);
    this.#sent -= count;
    this.#pump();
  }
}
