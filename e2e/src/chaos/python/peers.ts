import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { TransportName } from '@parlance/client';
import { ProtocolError, type Undelivered } from '@parlance/protocol';
import { pythonProgram } from '../../../../scripts/python.js';
import type { ChaosReply, ChaosSession } from '../session.js';

/** Sessions of the client in Python, all in one process, which is steered by lines of JSON. */

const PROGRAM = fileURLToPath(new URL('../../../../python/tests/programs/chaos_peer.py', import.meta.url));

/** What a session in Python needs to know. */
export interface PythonOptions {
  readonly token: string;
  readonly agent?: string;
  /** The name under which the next session of the process finds what this one leaves. */
  readonly store?: string;
}

interface Line {
  readonly id?: number;
  readonly result?: unknown;
  readonly error?: string;
  readonly message?: string;
  readonly retryable?: boolean;
  readonly part?: string;
  readonly kept?: string | null;
  readonly position?: number;
  readonly page?: string;
}

/** What happens to a session. */
type PageEvent =
  | { readonly event: 'state'; readonly session: string; readonly state: string }
  | { readonly event: 'reset'; readonly code: string; readonly reason: string }
  | {
      readonly event: 'undelivered';
      readonly report: Omit<Undelivered, 'code'> & { readonly reason: string };
    }
  | {
      readonly event: 'message';
      readonly text: string;
      readonly sender: string | null;
      readonly redelivered: boolean;
    }
  | { readonly event: 'closed'; readonly error: string | null; readonly message: string | null };

interface Call {
  onPart?(line: Line): void;
  resolve(result: unknown): void;
  reject(error: Error): void;
}

export class PythonPeers implements Disposable {
  readonly #process: ChildProcess;
  readonly #calls = new Map<number, Call>();
  readonly #pages = new Map<string, PythonSession>();
  readonly #transport: TransportName;
  #last = 0;

  /** @throws {Error} if the client cannot run here. */
  constructor(transport: TransportName) {
    this.#transport = transport;
    const { python, missing } = pythonProgram();
    if (python === undefined) throw new Error(missing);
    this.#process = spawn(python, ['-B', PROGRAM], { stdio: ['pipe', 'pipe', 'inherit'] });
    createInterface({ input: this.#process.stdout as NodeJS.ReadableStream }).on('line', (text) =>
      this.#take(JSON.parse(text)),
    );
    this.#process.on('exit', (code) => {
      for (const call of this.#calls.values())
        call.reject(new Error(`the process in Python has ended (${code})`));
    });
  }

  /** @throws {ProtocolError} */
  async connect(url: string, options: PythonOptions): Promise<ChaosSession> {
    const page = `page-${++this.#last}`;
    const session = new PythonSession(this, page);
    this.#pages.set(page, session);
    await this.call('connect', { page, url, transport: this.#transport, ...options }).done;
    return session;
  }

  /** @returns what comes of it, and its number, by which it can be left. */
  call(name: string, given: object, onPart?: Call['onPart']): { done: Promise<unknown>; id: number } {
    const id = ++this.#last;
    const done = new Promise((resolve, reject) => {
      this.#calls.set(id, { resolve, reject, ...(onPart && { onPart }) });
    });
    this.#write({ id, do: name, given });
    return { done, id };
  }

  leave(of: number): void {
    this.#calls.delete(of);
    this.#write({ id: ++this.#last, do: 'leave', of });
  }

  [Symbol.dispose](): void {
    this.#process.kill();
  }

  #write(command: object): void {
    this.#process.stdin?.write(`${JSON.stringify(command)}\n`);
  }

  #take(line: Line): void {
    if (line.page !== undefined) return this.#pages.get(line.page)?.take(line as unknown as PageEvent);
    const id = line.id as number;
    const call = this.#calls.get(id);
    if (line.part !== undefined) return call?.onPart?.(line);
    this.#calls.delete(id);
    const { error, message = '', retryable } = line;
    if (error === undefined) call?.resolve(line.result);
    else call?.reject(new ProtocolError(error as 'timeout', message, { retryable }));
  }
}

type Heard = { readonly text: string; readonly from: string | undefined; readonly redelivered: boolean };
type Listener = (value: never) => void;

class PythonSession implements ChaosSession {
  id = '';
  state = 'connecting';
  readonly #peers: PythonPeers;
  readonly #page: string;
  readonly #listeners = new Map<string, Listener[]>();
  readonly #messages = new Items<Heard>();

  constructor(peers: PythonPeers, page: string) {
    this.#peers = peers;
    this.#page = page;
  }

  on(event: string, listener: Listener): void {
    this.#listeners.set(event, [...(this.#listeners.get(event) ?? []), listener]);
  }

  take(event: PageEvent): void {
    switch (event.event) {
      case 'state':
        [this.id, this.state] = [event.session, event.state];
        return this.#tell('state', event.state);
      case 'reset':
        return this.#tell('reset', event);
      case 'undelivered':
        return this.#tell('undelivered', { ...event.report, code: event.report.reason });
      case 'message':
        return this.#messages.put({ ...event, from: event.sender ?? undefined });
      case 'closed':
        if (event.error !== null) this.#tell('error', { code: event.error, message: event.message });
        this.#messages.end();
    }
  }

  send = (text: string, options = {}) => this.#call('send', { text, ...options });
  flush = () => this.#call('flush');
  close = () => this.#call('close');
  detach = () => this.#call('detach');
  stream = (body: object, options = {}) => this.#reply('stream', { body, ...options });
  follow = (reply: string, options: { readonly after: number }) =>
    this.#reply('follow', { reply, ...options });

  async agents() {
    const names = (await this.#call('agents')) as readonly string[];
    return { get: (name: string) => (names.includes(name) ? name : undefined) };
  }

  [Symbol.asyncIterator]() {
    return this.#messages[Symbol.asyncIterator]();
  }

  #call(name: string, given: object = {}): Promise<unknown> {
    return this.#peers.call(name, { page: this.#page, ...given }).done;
  }

  #reply(name: string, given: object): ChaosReply {
    const peers = this.#peers;
    const parts = new Items<Line>();
    const { done, id } = peers.call(name, { page: this.#page, ...given }, (line) => parts.put(line));
    let isOver = false;
    const over = done.finally(() => {
      isOver = true;
      parts.end();
    });
    over.catch(() => {});
    const reply = {
      keptId: undefined as string | undefined,
      position: 0,
      async *[Symbol.asyncIterator]() {
        try {
          for await (const { part = '', kept, position = 0 } of parts) {
            reply.keptId = kept ?? undefined;
            reply.position = position;
            yield { text: part };
          }
          await over;
        } finally {
          if (!isOver) peers.leave(id);
        }
      },
    };
    return reply;
  }

  #tell(event: string, value: unknown): void {
    for (const listener of this.#listeners.get(event) ?? []) listener(value as never);
  }
}

/** A queue with an end. */
class Items<Item> {
  readonly #items: Item[] = [];
  #wake = (): void => {};
  #isOver = false;

  put(item: Item): void {
    this.#items.push(item);
    this.#wake();
  }

  end(): void {
    this.#isOver = true;
    this.#wake();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Item> {
    for (;;) {
      for (let item = this.#items.shift(); item !== undefined; item = this.#items.shift()) yield item;
      if (this.#isOver) return;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }
}
