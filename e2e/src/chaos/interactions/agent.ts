import { setTimeout as sleep } from 'node:timers/promises';
import { type ClientOptions, connect, type Message, type TransportName } from '@parlance/client';
import { isProtocolError, type RequestContext } from '@parlance/protocol';
import WebSocket from 'ws';
import { MemoryStore } from '../../kit/memory-store.js';
import { RESUME_WINDOW_MS } from '../durable/settings.js';
import type { PythonPeers } from '../python/peers.js';
import type { ChaosSession } from '../session.js';
import type { InteractionLedger } from './ledger.js';
import { partOf, type Question } from './settings.js';
import type { Following } from './steps.js';
import type { Page } from './told.js';

/** A user with one page after another, which asks, says, tells and follows, and tells the ledger what comes of it. */

const OPTIONS = {
  WebSocket,
  /** All agents belong to one principal, so that they see each other. */
  token: 'acme',
  limits: { messagesPerMinute: Infinity, bytesPerSecond: Infinity },
  timers: {
    acceptTimeoutMs: 4_000,
    pingIntervalMs: 10_000,
    pongTimeoutMs: 5_000,
    resumeWindowMs: RESUME_WINDOW_MS,
  },
  reconnect: { minDelayMs: 5, maxDelayMs: 300 },
};
/** How often a follower comes back without having read anything, and how much longer it waits each time. */
const TRIES = 6;
const RETRY_MS = 600;
/** Ends of a follower's own session, which say nothing about the reply. */
const ENDS: readonly string[] = ['session_lost', 'taken_over'];
/** Errors after which a follower comes back with its position. */
const COMES_BACK: ReadonlySet<string> = new Set([
  ...ENDS,
  'interrupted',
  'peer_gone',
  'session_closed',
  'draining',
  'timeout',
]);

export class Agent {
  readonly name: string;
  readonly #url: string;
  readonly #ledger: InteractionLedger;
  readonly #transport: TransportName;
  readonly #python: PythonPeers | undefined;
  readonly #store = new MemoryStore();
  #opening: Promise<OpenPage>;
  #pages = 0;

  /** @param python where its client is, if that is one in Python. */
  constructor(
    name: string,
    url: string,
    ledger: InteractionLedger,
    transport: TransportName,
    python?: PythonPeers,
  ) {
    this.name = name;
    this.#url = url;
    this.#ledger = ledger;
    this.#transport = transport;
    this.#python = python;
    this.#opening = this.#open();
  }

  /** Begins something in the present page, or in the next one while that is loaded. */
  async #in<Result>(act: (page: OpenPage) => Result): Promise<Awaited<Result>> {
    for (;;) {
      const page = await this.page();
      // Another one that has waited for the page may have left it just now.
      if (!page.isLeft) return await act(page);
    }
  }

  /** Waits for the next page while one is loaded. */
  async page(): Promise<OpenPage> {
    let opening: Promise<OpenPage>;
    let page: OpenPage;
    do {
      opening = this.#opening;
      page = await opening;
      await page.settle();
    } while (opening !== this.#opening);
    return page;
  }

  async ask(question: Question, to: string | undefined): Promise<void> {
    await this.#in((page) => page.ask(question, to));
  }

  async say(workMs: number): Promise<void> {
    await this.#in((page) => {
      const { place } = page;
      const number = this.#ledger.say(place.name);
      return page.send(`a number to the server`, `${place.name} ${number} ${workMs}`, undefined, place);
    });
  }

  async tell(to: string, count: number): Promise<void> {
    for (let i = 0; i < count; i++) {
      const isSent = await this.#in((page) => this.#tellOne(page, to));
      if (!isSent) return;
    }
  }

  async #tellOne(page: OpenPage, to: string): Promise<boolean> {
    const { place } = page;
    const number = this.#ledger.told.tell(place, to);
    const text = `${place.session} ${this.name} ${number}`;
    const isSent = await page.send(`number ${number} to ${to}`, text, to, place);
    if (isSent) this.#ledger.told.accepted(place, to, number);
    return isSent;
  }

  async follow(following: Following): Promise<void> {
    await followReply(this.name, () => this.page(), following, this.#ledger);
  }

  /** Leaves the page, as by its reload button, and continues with the replies that are kept. */
  async reload(): Promise<void> {
    await this.#in((page) => this.#reload(page));
  }

  async #reload(former: OpenPage): Promise<void> {
    const happening = this.#ledger.happened('reloaded', this.name);
    const unread = former.leave();
    const { place } = former;
    this.#opening = former.session
      .detach()
      // Nothing is left to the next page, and this one is gone all the same.
      .catch(() => former.session.close())
      .then(() => this.#open());
    const next = await this.page();
    happening.to = Date.now();
    if (next.place.session !== place.session)
      this.#ledger.sessionEnded(place, 'reloaded', 'another page began another one');
    await Promise.all(unread.map((question) => this.follow({ question, by: 'name', from: 'here' })));
  }

  /** Waits until the node that it is at knows of all others of these agents. */
  async meets(names: readonly string[]): Promise<void> {
    const { session } = await this.page();
    for (;;) {
      const known = await session.agents();
      if (names.every((name) => name === this.name || known.get(name) !== undefined)) return;
      await sleep(20);
    }
  }

  async close(): Promise<void> {
    const page = await this.page();
    page.leave();
    await page.session.close();
  }

  async #open(): Promise<OpenPage> {
    const holder: { page?: OpenPage } = {};
    const { name } = this;
    const python = this.#python;
    const session = await untilOpen(
      python === undefined
        ? () =>
            dial(this.#url, {
              agent: { id: name },
              transports: [this.#transport],
              store: this.#store,
              onRequest: (request, context) =>
                answer(request, context, this.#ledger, () => holder.page?.place),
            })
        : // It answers by itself, and is not told why its handlers are stopped.
          () => python.connect(this.#url, { token: OPTIONS.token, agent: name, store: name }),
    );
    const page = new OpenPage(this.name, session, this.#ledger, () => this.#pages++);
    holder.page = page;
    page.onOver = () => {
      // As a user does who reads that the session is over.
      this.#opening = this.#open();
    };
    return page;
  }
}

/** A client and the sessions that it has had. */
export class OpenPage {
  readonly session: ChaosSession;
  /** The page is closed, or another one takes its place. */
  isLeft = false;
  /** The session has ended, and the page begins no other one. */
  onOver = (): void => {};
  readonly #agent: string;
  readonly #ledger: InteractionLedger;
  readonly #nextNumber: () => number;
  /** Questions whose replies are kept, or not, and under way. */
  readonly #asking = new Map<string, Question>();
  #place: Page;

  constructor(agent: string, session: ChaosSession, ledger: InteractionLedger, nextNumber: () => number) {
    this.#agent = agent;
    this.session = session;
    this.#ledger = ledger;
    this.#nextNumber = nextNumber;
    this.#place = this.#join();
    session.on('reset', ({ code, reason }) => {
      // The engine loses nothing that it has confirmed here.
      if (code === 'record_behind') ledger.fault(agent, `the record of ${session.id} was behind`);
      else if (code !== 'reloaded') this.#lose('session_lost', reason);
    });
    // The event `reset` follows if the session is lost, and another one follows it.
    session.on('error', ({ code, message }) => {
      // The session that has ended may be a later one than the one that this page knew.
      if (code !== 'session_lost') this.#lose(code, message, this.place);
    });
    session.on('state', (state) => {
      if (state === 'closed' && !this.isLeft) this.onOver();
    });
    session.on('undelivered', (report) => ledger.reported(this.place, report));
    void this.#read();
  }

  /** Each session that the client gets is another place. */
  get place(): Page {
    const { id } = this.session;
    // It has none while it connects.
    if (id !== '' && id !== this.#place.session) this.#place = this.#join(this.#place);
    return this.#place;
  }

  /** Waits until it is known whose session takes what is said now. */
  async settle(): Promise<void> {
    while (this.session.id === '') await sleep(10);
  }

  /** @returns the kept replies that it was reading. */
  leave(): readonly string[] {
    this.isLeft = true;
    this.#ledger.pageLeft(this.#place);
    for (const id of this.#asking.keys()) this.#ledger.left(id);
    return [...this.#asking.values()].filter(({ keep }) => keep !== 'no').map(({ id }) => id);
  }

  async ask(question: Question, to: string | undefined): Promise<void> {
    const ledger = this.#ledger;
    const { id } = question;
    ledger.asks(this.place, question, to);
    this.#asking.set(id, question);
    try {
      const reply = this.session.stream({ ...question }, to === undefined ? {} : { to });
      for await (const { text } of reply) {
        // Leaving the loop would stop the handler.
        if (this.isLeft) continue;
        ledger.part(id, text);
        if (reply.keptId !== undefined) ledger.kept(id, reply.keptId);
      }
      ledger.ended(id);
    } catch (error) {
      ledger.failed(id, codeOf(error));
    } finally {
      this.#asking.delete(id);
    }
  }

  /** @returns whether the session has taken it. */
  async send(what: string, text: string, to: string | undefined, place: Page): Promise<boolean> {
    const at = Date.now();
    try {
      await this.session.send(text, to === undefined ? {} : { to });
      return true;
    } catch (error) {
      // The page does not know what has become of it.
      if (!this.isLeft) this.#ledger.sendFailed(place, `sending ${what} failed`, codeOf(error), at);
      return false;
    }
  }

  async #read(): Promise<void> {
    while (this.session.state !== 'closed') {
      try {
        for await (const message of this.session) this.#hear(message);
      } catch {
        // The event `error` says why.
      }
      await sleep(1);
    }
  }

  #hear({ from, text, isRedelivered = false }: Pick<Message, 'from' | 'text' | 'isRedelivered'>): void {
    if (from === undefined) this.#ledger.echo(text);
    else this.#ledger.told.read(this.place, text, isRedelivered);
  }

  /** @param former the place of the session before. */
  #join(former?: Page): Page {
    const place = {
      name: `${this.#agent}.${this.#nextNumber()}`,
      agent: this.#agent,
      session: this.session.id,
    };
    this.#ledger.join(place, former);
    return place;
  }

  #lose(code: string, why: string, place = this.#place): void {
    if (!this.isLeft) this.#ledger.sessionEnded(place, code, why);
  }
}

/** Another device: a session of its own for one reply. */
export async function followElsewhere(
  name: string,
  url: string,
  following: Following,
  ledger: InteractionLedger,
  transport: TransportName,
): Promise<void> {
  const session = await untilOpen(() => dial(url, { transports: [transport] }));
  let isClosing = false;
  session.on('error', ({ code, message }) => {
    // A server that is away does not confirm the end.
    if (!isClosing) ledger.fault(name, `its session ended with ${code}: ${message}`);
  });
  await followReply(name, async () => ({ session, isLeft: false }), following, ledger);
  isClosing = true;
  await session.close();
}

type Reader = Pick<OpenPage, 'session' | 'isLeft'>;

async function followReply(
  who: string,
  getReader: () => Promise<Reader>,
  { question, by, from }: Following,
  ledger: InteractionLedger,
): Promise<void> {
  while (ledger.keptReply(question) === undefined) {
    if (ledger.isOver(question)) return;
    await sleep(20);
  }
  const { keptId, got } = ledger.keptReply(question) as { keptId: string; got: number };
  const start = from === 'here' ? got : 0;
  const follower = ledger.follows(who, question, start);
  for (let failures = 0; ; ) {
    const reader = await getReader();
    const { session } = reader;
    const { id } = session;
    const before = follower.texts.length;
    try {
      const reply = session.follow(by === 'id' ? keptId : question, { after: start + before });
      for await (const { text } of reply) {
        if (reader.isLeft) break;
        ledger.followed(follower, text, reply.position);
      }
      // The next page continues where this one has stopped.
      if (reader.isLeft) continue;
      return ledger.followEnded(follower);
    } catch (error) {
      if (reader.isLeft) continue;
      const code = codeOf(error);
      if (!ENDS.includes(code)) failures = follower.texts.length > before ? 1 : failures + 1;
      const isFinal = failures >= TRIES || !COMES_BACK.has(code);
      ledger.followFailed(follower, id, code, isFinal);
      if (isFinal) return;
      await sleep(failures * RETRY_MS);
    }
  }
}

/** Answers questions of other agents. */
async function* answer(
  request: Message,
  { signal }: RequestContext,
  ledger: InteractionLedger,
  place: () => Page | undefined,
): AsyncGenerator<string> {
  const { id, parts, paceMs } = request.json<Question>();
  const at = Date.now();
  signal.addEventListener('abort', () => {
    const page = place();
    if (page !== undefined) ledger.handlerStopped(page, id, codeOf(signal.reason), at);
  });
  for (let part = 0; part < parts && !signal.aborted; part++) {
    yield partOf(id, part, 1);
    await sleep(Math.random() * 2 * paceMs);
  }
}

const dial = (url: string, options: ClientOptions): Promise<ChaosSession> =>
  connect(url, { ...OPTIONS, ...options });

/** A first attempt may fail like any other connection. */
async function untilOpen(open: () => Promise<ChaosSession>): Promise<ChaosSession> {
  for (;;) {
    try {
      return await open();
    } catch (error) {
      if (!isProtocolError(error) || !error.retryable) throw error;
      await sleep(100);
    }
  }
}

function codeOf(error: unknown): string {
  return isProtocolError(error) ? error.code : String(error);
}
