import { setTimeout as pause } from 'node:timers/promises';
import { type ClientOptions, connect as connectSession } from '@parlance/client';
import {
  type Algorithm,
  CLOSE_CODES,
  CloseCode,
  type EncodingName,
  isProtocolError,
  loadCodecs,
  loadEncoding,
  type ReplyStream,
  type Session,
  type SessionState,
  type Subprotocol,
} from '@parlance/protocol';
import { createSessionExplainer } from '@parlance/protocol/inspect';
import { type ChatMessage, chatRequest, wordsOf } from './chat-request.js';
import { type ConnectView, describeReset, textOf } from './connect-view.js';
import { CommandFailure, describeFailure, ExitCode } from './failure.js';
import { createLines, type Lines } from './lines.js';
import { type Tap, tappedWebSocket } from './tap.js';

/** `parlance connect`: talks to a session server and shows what travels. */

export interface ConnectOptions {
  readonly token: string | undefined;
  /** Codec of everything that is sent. @default chosen by size */
  readonly algorithm: Algorithm | undefined;
  /** The only vocabulary that is offered. @default what the client offers */
  readonly encoding: EncodingName | undefined;
  readonly agentId: string | undefined;
  readonly subprotocol: Subprotocol;
  /** Lines become the messages of a chat with this model. */
  readonly model: string | undefined;
  /** Lines are one-way messages instead of requests. */
  readonly send: boolean;
  /** Milliseconds that a reply may take. */
  readonly timeoutMs: number;
  /** Somebody types. */
  readonly isInteractive: boolean;
}

/** UTF-16 units of content that are shown of a frame. */
const PREVIEW = 120;
/** Between two attempts to say something while there is no session, in milliseconds. */
const RETRY_MS = 100;
/** How long one-way messages may go unanswered before the end, in milliseconds. */
const LINGER_MS = 1000;

export async function connect(url: string, options: ConnectOptions, view: ConnectView): Promise<ExitCode> {
  const explainer = createSessionExplainer({ preview: PREVIEW, subprotocol: options.subprotocol });
  // Before anything travels, so that no frame is explained without.
  await Promise.all([loadCodecs(['M2M', 'BROTLI', 'AVP']), loadEncoding(options.encoding ?? 'CL100K_BASE')]);
  view.connecting(url);
  let hasClosed: () => void = () => {};
  const closed = new Promise<void>((resolve) => {
    hasClosed = resolve;
  });
  const tap: Tap = {
    onFrame: (direction, frame) => view.frame(direction, explainer.explain(direction, frame)),
    onClose(code, reason) {
      view.state(`the connection closes with ${describeClose(code)}`, reason || undefined);
      hasClosed();
    },
  };
  const session = await connectSession(url, clientOptions(options, tap)).catch((error: unknown) => {
    throw withHint(error, options);
  });
  view.agreed(session);
  const exitCode = await new Conversation(session, options, view).run();
  // Only so that its line comes before the last ones; nobody depends on it.
  const waited = new AbortController();
  await Promise.race([closed, pause(CLOSE_WAIT_MS, undefined, { signal: waited.signal })]);
  waited.abort();
  view.closed(session);
  return exitCode;
}

/** How long the connection may take to close behind the session, in milliseconds. */
const CLOSE_WAIT_MS = 500;

/** Whoever was not let in without credentials learns how to present some. */
function withHint(error: unknown, { token }: ConnectOptions): unknown {
  if (!isProtocolError(error) || error.closeCode !== CloseCode.UNAUTHENTICATED || token !== undefined)
    return error;
  return new CommandFailure(`${describeFailure(error)}; PARLANCE_TOKEN or --token presents one`);
}

function clientOptions({ token, agentId, encoding, subprotocol }: ConnectOptions, tap: Tap): ClientOptions {
  return {
    token,
    agentId,
    encodings: encoding && [encoding],
    subprotocol,
    WebSocket: tappedWebSocket(tap),
  };
}

function describeClose(code: number): string {
  const known = CLOSE_CODES.find((entry) => entry.code === code);
  // What is in brackets there is for whoever writes frames.
  return known === undefined ? String(code) : `${code}: ${known.meaning.replace(/ \(.*\)$/, '')}`;
}

/** One session and the lines that are said in it. */
class Conversation {
  readonly #session: Session;
  readonly #options: ConnectOptions;
  readonly #view: ConnectView;
  readonly #lines: Lines;
  /** Said and answered so far, where lines are a chat. */
  readonly #chat: ChatMessage[] = [];
  #reply: ReplyStream | undefined;
  /** The last reply was cancelled before its end. */
  #hasGivenUp = false;
  #exitCode: ExitCode = ExitCode.OK;
  /** One-way messages that were sent and not answered. */
  #unanswered = 0;
  #onMessage: (() => void) | undefined;
  /** A session is under way that takes the place of another one. */
  #isAnother = false;
  /** Nothing more is said. */
  #isLeaving = false;

  constructor(session: Session, options: ConnectOptions, view: ConnectView) {
    this.#session = session;
    this.#options = options;
    this.#view = view;
    this.#lines = createLines(view.screen, {
      isInteractive: options.isInteractive,
      onInterrupt: () => this.#interrupt(),
    });
    session.on('state', (state) => this.#handleState(state));
    session.on('error', (error) => {
      // Giving up an attempt to come back is no failure.
      if (!this.#isLeaving) this.#fail(error);
    });
    session.on('reset', (reset) => view.notice(describeReset(reset)));
  }

  async run(): Promise<ExitCode> {
    const { isInteractive } = this.#options;
    if (isInteractive)
      this.#view.notice(
        `${this.#asks ? 'Each line is a request' : 'Each line is a message'}. /help says what else there is, Ctrl-D ends.`,
      );
    const reading = this.#read();
    for await (const line of this.#lines) {
      if (isInteractive && line.startsWith('/')) {
        if (!(await this.#command(line))) break;
      } else if (line.trim() !== '') await this.#say(line);
    }
    this.#lines.stop();
    await this.#awaitAnswers();
    this.#isLeaving = true;
    await this.#session.close();
    await reading;
    return this.#exitCode;
  }

  #handleState(state: SessionState): void {
    if (state !== 'closing') this.#view.state(state);
    // In place of a session that a server sent away, or lost, the client begins another one.
    if (state === 'connecting') this.#isAnother = true;
    if (state === 'established' && this.#isAnother) {
      this.#isAnother = false;
      this.#view.agreed(this.#session);
    }
    if (state !== 'closed') return;
    setImmediate(() => {
      if (this.#session.state === 'closed') this.#lines.stop();
    });
  }

  /** Without the link there are no requests. */
  get #asks(): boolean {
    return !this.#options.send && this.#session.negotiated.extensions['link'] !== undefined;
  }

  async #say(line: string): Promise<void> {
    const deadline = performance.now() + this.#options.timeoutMs;
    for (;;) {
      try {
        return this.#asks ? await this.#ask(line) : await this.#send(line);
      } catch (error) {
        if (!this.#isBetweenSessions(error) || performance.now() > deadline) return this.#fail(error);
        await pause(RETRY_MS);
      }
    }
  }

  /** Nothing was sent, and another session is about to take the place of the last one. */
  #isBetweenSessions(error: unknown): boolean {
    if (!isProtocolError(error) || this.#session.state === 'closed') return false;
    return error.code === 'draining' || (error.code === 'session_closed' && error.side === 'local');
  }

  async #ask(line: string): Promise<void> {
    const { algorithm, timeoutMs, model } = this.#options;
    const start = performance.now();
    const body =
      model === undefined
        ? line
        : JSON.stringify({
            ...chatRequest(model, [...this.#chat, { role: 'user', content: line }]),
            stream: true,
          });
    const reply = this.#session.stream(body, { algorithm, timeoutMs });
    this.#reply = reply;
    this.#hasGivenUp = false;
    let text = '';
    let parts = 0;
    try {
      for await (const part of reply) {
        const said = model === undefined ? textOf(part) : wordsOf(textOf(part));
        parts++;
        text += said;
        this.#view.part(said);
      }
    } finally {
      this.#reply = undefined;
    }
    if (model !== undefined)
      this.#chat.push({ role: 'user', content: line }, { role: 'assistant', content: text });
    this.#view.reply(text, parts, Math.round(performance.now() - start));
    if (this.#hasGivenUp) this.#view.notice('the reply was given up here');
  }

  async #send(line: string): Promise<void> {
    await this.#session.send(line, { algorithm: this.#options.algorithm });
    this.#unanswered++;
  }

  /** Messages of the server's own, in this session and those that take its place. */
  async #read(): Promise<void> {
    do {
      try {
        for await (const message of this.#session) {
          this.#view.message(message);
          this.#unanswered = Math.max(0, this.#unanswered - 1);
          this.#onMessage?.();
        }
      } catch {
        // What ended the session is told by its own event.
      }
    } while (this.#session.state !== 'closed');
  }

  /** Waits for as many messages as were sent, as long as they keep coming. */
  async #awaitAnswers(): Promise<void> {
    while (this.#unanswered > 0 && this.#session.state !== 'closed') {
      const came = await new Promise<boolean>((resolve) => {
        const timer = setTimeout(() => resolve(false), LINGER_MS);
        this.#onMessage = () => {
          clearTimeout(timer);
          resolve(true);
        };
      });
      if (!came) return;
    }
  }

  /** @returns whether the conversation goes on. */
  async #command(line: string): Promise<boolean> {
    const [name, ...rest] = line.slice(1).split(' ');
    const text = rest.join(' ');
    switch (name) {
      case 'send':
        await this.#send(text).catch((error: unknown) => this.#fail(error));
        return true;
      case 'stats':
        this.#view.closed(this.#session);
        return true;
      case 'quit':
        return false;
      default:
        for (const help of HELP) this.#view.notice(help);
        return true;
    }
  }

  /** Ctrl-C: gives up the reply that is coming, else the conversation. */
  #interrupt(): void {
    if (this.#reply === undefined) this.#lines.stop();
    else {
      this.#hasGivenUp = true;
      this.#reply.cancel();
    }
  }

  #fail(error: unknown): void {
    this.#exitCode = ExitCode.FAILURE;
    this.#view.failure(error);
  }
}

const HELP = [
  '/send TEXT   a one-way message, which wants no reply',
  '/stats       what has travelled so far',
  '/quit        ends the session, as Ctrl-D does',
  'Ctrl-C       gives up the reply that is coming, else ends the session',
];
