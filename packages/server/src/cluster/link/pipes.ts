import { Duplex } from 'node:stream';
import type { NodePipes } from '../../server/features/own-feature.js';
import type { ClusterService } from '../service.js';
import type { Link, LinkEnd } from './link.js';
import { countField, type LinkMessage, malformed, textField } from './message.js';

/** The service of all pipes. */
export const PIPES = 'pipes';
/** Bytes of one message, of which one is under way in each direction of a pipe. */
const PIECE_SIZE = 64 * 1024;
/** Bytes that a pipe takes besides those that are not read or sent. */
export const PIPE_CHARGE = 4_096;

type Done = (error?: Error | null) => void;
type OnPipe = Parameters<NodePipes['serve']>[1];

/** One end of a stream of bytes between two nodes. */
class Pipe extends Duplex {
  /** `undefined` until it is known that the other node lives. */
  #link: Link | undefined;
  #number = 0;
  #held = 0;
  /** Bytes that have come and were not read. */
  #unread = 0;
  /** The other end may send a piece, and this one may. */
  #hasAsked = true;
  #isAsked = true;
  #unsent: Buffer | undefined;
  #done: Done | undefined;

  constructor() {
    // One byte: the next piece is asked for when the last one was read.
    super({ readableHighWaterMark: 1 });
    // The event of a close follows.
    this.on('error', () => {});
  }

  /** Sends the bytes that were written until now over the link. */
  begin(link: Link, number: number): void {
    [this.#link, this.#number] = [link, number];
    this.#hold(PIPE_CHARGE + (this.#unsent?.length ?? 0));
    this.#pump();
  }

  #say(type: 'data' | 'more' | 'end' | 'cut', ...bytes: readonly Uint8Array[]): void {
    this.#link?.send(PIPES, type, [this.#number], ...bytes);
  }

  /** Ends the pipe if there is no room for so many bytes more. */
  #hold(bytes: number): void {
    const quota = this.#link?.quota;
    if (quota === undefined) return;
    if (bytes > 0 && !quota.hasRoom(bytes)) return void this.destroy();
    this.#held += bytes;
    quota.add(bytes);
  }

  #pump(): void {
    const [bytes, done] = [this.#unsent, this.#done];
    if (this.#link === undefined || done === undefined || this.destroyed) return;
    if (bytes !== undefined) {
      if (!this.#isAsked) return;
      this.#isAsked = false;
      const piece = bytes.subarray(0, PIECE_SIZE);
      this.#say('data', piece);
      this.#hold(-piece.length);
      this.#unsent = piece.length < bytes.length ? bytes.subarray(piece.length) : undefined;
      if (this.#unsent !== undefined) return;
    } else this.#say('end');
    this.#done = undefined;
    done();
  }

  override _write(bytes: Buffer, _encoding: BufferEncoding, done: Done): void {
    this.#unsent = bytes;
    this.#hold(bytes.length);
    this._final(done);
  }

  override _final(done: Done): void {
    this.#done = done;
    this.#pump();
  }

  override _read(): void {
    if (this.#hasAsked) return;
    this.#hasAsked = true;
    this.#hold(-this.#unread);
    this.#unread = 0;
    this.#say('more');
  }

  override _destroy(error: Error | null, done: Done): void {
    if (!(this.readableEnded && this.writableFinished)) this.#say('cut');
    this.#hold(-this.#held);
    done(error);
  }

  /** The other node says something. @throws {ProtocolError} `bad_message`. */
  handle(type: string, bytes: Uint8Array): void {
    if (this.destroyed) return;
    if (type === 'end') this.push(null);
    else if (type === 'cut') this.destroy();
    else if (type === 'more') {
      this.#isAsked = true;
      this.#pump();
    } else if (type === 'data' && this.#hasAsked) {
      this.#hasAsked = false;
      this.#unread = bytes.length;
      this.#hold(bytes.length);
      this.push(bytes);
    } else throw malformed();
  }
}

/** The pipes of one link. */
class PipesOfLink implements LinkEnd {
  readonly #link: Link;
  /** By service; empty if this node has opened the link, and begins them. */
  readonly #served: ReadonlyMap<string, OnPipe>;
  readonly #pipes = new Map<number, Pipe>();
  #last = 0;

  constructor(link: Link, served: ReadonlyMap<string, OnPipe> = new Map()) {
    this.#link = link;
    this.#served = served;
  }

  open(pipe: Pipe, service: string, about: string): void {
    this.#link.send(PIPES, 'open', [++this.#last, service], Buffer.from(about));
    this.#add(this.#last, pipe);
  }

  #add(number: number, pipe: Pipe): void {
    this.#pipes.set(
      number,
      pipe.once('close', () => this.#pipes.delete(number)),
    );
    pipe.begin(this.#link, number);
  }

  handle({ type, fields, bytes }: LinkMessage): void {
    const number = countField(fields[0]);
    const known = this.#pipes.get(number);
    // It may have ended here meanwhile.
    if (type !== 'open') return known?.handle(type, bytes);
    if (known !== undefined) throw malformed();
    const onPipe = this.#served.get(textField(fields[1]));
    const pipe = new Pipe();
    this.#add(number, pipe);
    if (onPipe === undefined) pipe.destroy();
    else if (!pipe.destroyed) onPipe(pipe, Buffer.from(bytes).toString());
  }

  handleOver(): void {
    for (const pipe of this.#pipes.values()) pipe.destroy();
  }
}

/** Streams of bytes between features of this node and of others, each on the link of the node that has begun it. */
export class Pipes implements NodePipes {
  readonly #node: Pick<ClusterService, 'links' | 'isAlive' | 'lives'>;
  readonly #served = new Map<string, OnPipe>();

  constructor(node: Pick<ClusterService, 'links' | 'isAlive' | 'lives'>) {
    this.#node = node;
    node.links.serve(PIPES, (link) => new PipesOfLink(link, this.#served));
  }

  knows(node: string): boolean {
    return this.#node.isAlive(node);
  }

  serve(service: string, onPipe: OnPipe): void {
    this.#served.set(service, onPipe);
  }

  open(node: string, service: string, about: string): Duplex {
    const pipe = new Pipe();
    const begin = (lives: boolean) => {
      const link = lives && !pipe.destroyed ? this.#node.links.to(node) : undefined;
      if (link?.isOver !== false) return void pipe.destroy();
      const pipes = link.endOf(PIPES) ?? link.attach(PIPES, new PipesOfLink(link));
      (pipes as PipesOfLink).open(pipe, service, about);
    };
    if (this.knows(node)) begin(true);
    else this.#node.lives(node).then(begin, () => pipe.destroy());
    return pipe;
  }
}
