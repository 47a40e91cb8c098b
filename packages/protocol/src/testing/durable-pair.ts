import { Extension, Subprotocol } from '../base/constants.js';
import { encodeUtf8 } from '../base/text.js';
import { plainBody } from '../codec/body.js';
import { decodeControl } from '../control/envelope.js';
import type { HelloPayload, ResumeOffer } from '../control/messages.js';
import { createSession } from '../session/create.js';
import { createServerSession } from '../session/create-server.js';
import * as durable from '../session/durable/client-module.js';
import type { DurableRecord, StreamRecord } from '../session/durable/record.js';
import { restoreDurableSession } from '../session/durable/restore.js';
import type { Commit } from '../session/durable-session.js';
import type { Ticket } from '../session/resume-ticket.js';
import type { ServerSessionCore, SessionCore, SessionEvent, SessionOptions } from '../session/types.js';
import { MOVE_OPTIONS } from './move-options.js';

const capabilities = {
  ...MOVE_OPTIONS.capabilities,
  extensions: { ...MOVE_OPTIONS.capabilities.extensions, [Extension.DURABLE]: '1' },
};
export const DURABLE_OPTIONS = { ...MOVE_OPTIONS, capabilities, subprotocol: Subprotocol.BINARY };
export const body = (text: string) => plainBody(encodeUtf8(text));

/** A client and a server that are connected, without delays; commits are recorded when a test says so. */
export class DurablePair {
  now = 0;
  client: SessionCore;
  server: ServerSessionCore;
  readonly commits: Commit[] = [];
  readonly heard: SessionEvent[] = [];
  readonly told: SessionEvent[] = [];
  /** Frames of the client that have not arrived. */
  #hello: Uint8Array | undefined;
  readonly #more: Partial<SessionOptions>;

  constructor(isOffered = true, isDurable = true, more: Partial<SessionOptions> = {}) {
    this.#more = more;
    const clientOptions = isOffered
      ? DURABLE_OPTIONS
      : { ...DURABLE_OPTIONS, capabilities: MOVE_OPTIONS.capabilities };
    this.client = createSession({ ...clientOptions, role: 'client' });
    this.server = createServerSession({ ...DURABLE_OPTIONS, ...more, role: 'server' });
    this.client.handleConnected(0);
    this.server.handleConnected(0);
    this.server.handleMessage(this.client.pollTransmit() as Uint8Array, 0);
    for (let event = this.server.pollEvent(); event !== undefined; event = this.server.pollEvent())
      if (event.type === 'hello') this.server.accept('sess_one', 0, { isDurable });
  }

  /** Passes everything on that is written, in both directions. */
  run(): this {
    for (let isBusy = true; isBusy; ) {
      isBusy = false;
      for (const [from, to] of [
        [this.client, this.server],
        [this.server, this.client],
      ] as const) {
        for (let frame = from.pollTransmit(); frame !== undefined; frame = from.pollTransmit()) {
          isBusy = true;
          to.handleMessage(typeof frame === 'string' ? frame : frame.slice(), this.now);
          this.client.openChannel(durable);
        }
      }
      for (let event = this.client.pollEvent(); event !== undefined; event = this.client.pollEvent())
        this.heard.push(event);
      for (let event = this.server.pollEvent(); event !== undefined; event = this.server.pollEvent())
        this.told.push(event);
    }
    return this;
  }

  /** Records everything that waits, and passes on what has waited for it. */
  record(): this {
    for (
      let commit = this.server.record?.pollCommit();
      commit !== undefined;
      commit = this.server.record?.pollCommit()
    ) {
      this.commits.push(commit);
      this.server.record?.handleCommitted(this.now);
      this.run();
    }
    return this;
  }

  later(ms: number): this {
    this.now += ms;
    this.client.handleTimeout(this.now);
    this.server.handleTimeout(this.now);
    return this.run();
  }

  /** The server's process dies; the client says HELLO to the next one. */
  kill(): HelloPayload {
    this.client.handleDisconnected(1006, '', this.now);
    this.client.handleConnected(this.now);
    this.#hello = this.client.pollTransmit() as Uint8Array;
    const message = decodeControl(this.#hello, DURABLE_OPTIONS.limits);
    if (message.type !== 'HELLO') throw new Error('expected a HELLO');
    return message.payload;
  }

  /**
   * The page of the client is loaded again, and its next document says HELLO, which no server has answered.
   *
   * @param ticket what is different of what it has kept.
   */
  reload(ticket: Partial<Ticket> = {}): HelloPayload {
    const kept = { ...(this.client.ticket as Ticket), ...ticket };
    this.client = createSession({ ...DURABLE_OPTIONS, role: 'client', ticket: kept });
    this.heard.length = 0;
    this.client.handleConnected(this.now);
    this.#hello = this.client.pollTransmit() as Uint8Array;
    const message = decodeControl(this.#hello, DURABLE_OPTIONS.limits);
    if (message.type !== 'HELLO') throw new Error('expected a HELLO');
    return message.payload;
  }

  /** The server answers the HELLO of {@link kill} or {@link reload}. Returns why it does not, if it refuses. */
  answer(hello: HelloPayload): string | undefined {
    const refused = this.server.checkResume(hello, DURABLE_OPTIONS.subprotocol);
    if (refused !== undefined) return refused;
    if (this.server.state === 'established') this.server.handleDisconnected(1006, '', this.now);
    this.server.resume(hello.resume as ResumeOffer, this.now);
    this.run().record();
    return undefined;
  }

  takeOver(record: Partial<DurableRecord> = {}): ServerSessionCore {
    const core = restoreDurableSession(
      { ...DURABLE_OPTIONS, ...this.#more, role: 'server' },
      { ...this.#durableRecord, ...record },
      this.now,
    );
    this.server = core;
    return core;
  }

  get #durableRecord(): DurableRecord {
    const last = <Value>(of: (commit: Commit) => Value | undefined): Value | undefined =>
      this.commits
        .map(of)
        .filter((value) => value !== undefined)
        .at(-1);
    const messages = this.commits.flatMap((commit) => commit.messages);
    const open = new Set<number>();
    for (const { opened, settled } of this.commits) {
      for (const number of opened) open.add(number);
      for (const number of settled) open.delete(number);
    }
    return {
      saved: new Map(this.commits.flatMap(({ saved }) => [...saved])),
      begin: last(({ begin }) => begin) as Uint8Array,
      accept: last(({ accept }) => accept) as DurableRecord['accept'],
      handled: last(({ handled }) => handled) ?? 0,
      open: [...open],
      heard: new Map(),
      state: last(({ state }) => state),
      said: messages.at(-1)?.number ?? 0,
      messages,
      streams: new Map<number, StreamRecord>(),
      ofFormerPages: last(({ ofFormerPages }) => ofFormerPages),
    };
  }
}

export const textsOf = (events: readonly SessionEvent[], type: SessionEvent['type']): string[] =>
  events.flatMap((event) =>
    event.type === type && 'body' in event ? [Buffer.from(event.body.bytes).toString()] : [],
  );
