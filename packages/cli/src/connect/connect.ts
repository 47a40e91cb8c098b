import { setTimeout as pause } from 'node:timers/promises';
import {
  type ClientOptions,
  type ClientSession,
  connect as connectSession,
  type TransportName,
  type WebSocketConstructor,
} from '@parlance/client';
import { tap } from '@parlance/client/inspect';
import {
  type Algorithm,
  CloseCode,
  decodeHttpResponse,
  type EncodingName,
  isProtocolError,
  loadCodecs,
  loadEncoding,
  type ReplyStream,
  type SessionState,
  type Subprotocol,
} from '@parlance/protocol';
import { withResolvers } from '@parlance/protocol/internal';
import { WebSocket as LibraryWebSocket } from 'ws';
import { type ChatMessage, chatRequest, wordsOf } from '../base/chat-request.js';
import { CommandFailure, describeFailure, ExitCode } from '../base/failure.js';
import type { ConnectPage } from './connect-page.js';
import { type ConnectView, describeReset, textOf } from './connect-view.js';
import { createLines, type Lines } from './lines.js';

export interface ConnectOptions {
  readonly token: string | undefined;
  /** Codec for everything sent. @default the smallest result */
  readonly algorithm: Algorithm | undefined;
  /** The only vocabulary to offer. @default all that the client supports */
  readonly encoding: EncodingName | undefined;
  readonly agentId: string | undefined;
  readonly subprotocol: Subprotocol;
  readonly transport: TransportName;
  /** Send lines as the messages of a chat with this model. */
  readonly model: string | undefined;
  /** Send lines as one-way messages instead of requests. */
  readonly send: boolean;
  /** Milliseconds that a reply may take. */
  readonly timeoutMs: number;
  /** Port of an inspector on loopback, 0 for any free one. @default no inspector */
  readonly uiPort?: number | undefined;
  /** A person types the lines. */
  readonly isInteractive: boolean;
}

/** Time between attempts to send while there is no session, in milliseconds. */
const RETRY_MS = 100;
/** How long to wait for answers to one-way messages before closing, in milliseconds. */
const LINGER_MS = 1000;

/** `parlance connect`: talks to a session server and shows the frames. */
export async function connect(url: string, options: ConnectOptions, view: ConnectView): Promise<ExitCode> {
  // Load these before the first frame, so that every frame is explained in full.
  await Promise.all([loadCodecs(['M2M', 'BROTLI', 'AVP']), loadEncoding(options.encoding ?? 'CL100K_BASE')]);
  view.connecting(url);
  const page = options.uiPort === undefined ? undefined : await openPage(options.uiPort, view);
  try {
    return await converse(url, options, view, page);
  } finally {
    await page?.close();
  }
}

async function openPage(port: number, view: ConnectView): Promise<ConnectPage> {
  const { openConnectPage } = await import('./connect-page.js');
  const page = await openConnectPage({ port });
  view.inspector(page.url);
  return page;
}

async function converse(
  url: string,
  options: ConnectOptions,
  view: ConnectView,
  page: ConnectPage | undefined,
): Promise<ExitCode> {
  const { promise: closed, resolve: hasClosed } = withResolvers<void>();
  let session: ClientSession | undefined;
  const tapped = tap(
    PlainSocket,
    (event) => {
      view.event(event);
      page?.add(event);
      if (event.event === 'connection' && event.what === 'closed') hasClosed();
    },
    { subprotocol: options.subprotocol, selection: () => session?.stats().lastSelection },
  );
  session = await connectSession(url, clientOptions(options, tapped)).catch((error: unknown) => {
    throw withHint(error, options.token);
  });
  view.agreed(session);
  const exitCode = await new Conversation(session, options, view).run();
  // Only for the order of the output: the close should be printed before the summary.
  const waited = new AbortController();
  await Promise.race([closed, pause(CLOSE_WAIT_MS, undefined, { signal: waited.signal })]);
  waited.abort();
  view.closed(session);
  if (page !== undefined) await untilInterrupted(page, view);
  return exitCode;
}

/** The inspector stays when the session has ended: only now is there time to look. */
async function untilInterrupted({ url }: ConnectPage, view: ConnectView): Promise<void> {
  const interrupted = new Promise<void>((resolve) => {
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => resolve());
  });
  view.inspectorStays(url);
  await interrupted;
}

/** How long the connection may take to close after the session, in milliseconds. */
const CLOSE_WAIT_MS = 500;

/** Adds how to present credentials if the server required some and none were given. */
export function withHint(error: unknown, token: string | undefined): unknown {
  if (!isProtocolError(error) || error.closeCode !== CloseCode.UNAUTHENTICATED || token !== undefined)
    return error;
  return new CommandFailure(`${describeFailure(error)}; set PARLANCE_TOKEN or use --token`);
}

function clientOptions(
  { token, agentId, encoding, subprotocol, transport }: ConnectOptions,
  WebSocket: WebSocketConstructor,
): ClientOptions {
  return {
    token,
    agentId,
    encodings: encoding && [encoding],
    subprotocol,
    transports: [transport],
    // It follows nothing, so the server need not tell it the IDs of replies.
    extensions: { replies: false },
    WebSocket,
  };
}

/** Compresses nothing beneath the codecs, and leaves the sizes of frames as they are. */
class PlainSocket extends LibraryWebSocket {
  constructor(url: string, protocols: string[]) {
    super(url, protocols, { perMessageDeflate: false });
  }
}

/** Sends lines to one session, and to the sessions that replace it. */
class Conversation {
  readonly #session: ClientSession;
  readonly #options: ConnectOptions;
  readonly #view: ConnectView;
  readonly #lines: Lines;
  /** The chat so far, if lines are a chat. */
  readonly #chat: ChatMessage[] = [];
  #reply: ReplyStream | undefined;
  /** The user has cancelled the last reply. */
  #wasCancelled = false;
  #exitCode: ExitCode = ExitCode.OK;
  /** One-way messages without an answer yet. */
  #unanswered = 0;
  #onMessage: (() => void) | undefined;
  /** The client is starting a new session in place of the last one. */
  #isReplacing = false;
  /** No more lines are sent. */
  #isLeaving = false;

  constructor(session: ClientSession, options: ConnectOptions, view: ConnectView) {
    this.#session = session;
    this.#options = options;
    this.#view = view;
    this.#lines = createLines(view.screen, {
      isInteractive: options.isInteractive,
      onInterrupt: () => this.#interrupt(),
    });
    session.on('state', (state) => this.#handleState(state));
    session.on('error', (error) => {
      // Giving up a reconnection attempt at the end is not a failure.
      if (!this.#isLeaving) this.#fail(error);
    });
    session.on('reset', (reset) => view.notice(describeReset(reset)));
  }

  async run(): Promise<ExitCode> {
    const { isInteractive } = this.#options;
    if (isInteractive)
      this.#view.notice(
        `Each line is ${this.#usesRequests ? 'a request' : 'a one-way message'}. Type /help for commands, Ctrl-D to quit.`,
      );
    const reading = this.#read();
    for await (const line of this.#lines) {
      if (isInteractive && line.startsWith('/')) {
        if (!(await this.#command(line))) break;
      } else if (line.trim() !== '') await this.#submit(line);
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
    // The client starts a new session if the server sent it away or the last session is lost.
    if (state === 'connecting') this.#isReplacing = true;
    if (state === 'established' && this.#isReplacing) {
      this.#isReplacing = false;
      this.#view.agreed(this.#session);
    }
    if (state !== 'closed') return;
    setImmediate(() => {
      if (this.#session.state === 'closed') this.#lines.stop();
    });
  }

  /** Requests need the link extension. */
  get #usesRequests(): boolean {
    return !this.#options.send && this.#session.negotiated.extensions['link'] !== undefined;
  }

  async #submit(line: string): Promise<void> {
    const deadline = performance.now() + this.#options.timeoutMs;
    for (;;) {
      try {
        return this.#usesRequests ? await this.#request(line) : await this.#send(line);
      } catch (error) {
        if (!this.#isBetweenSessions(error) || performance.now() > deadline) return this.#fail(error);
        await pause(RETRY_MS);
      }
    }
  }

  /** Nothing was sent, and a new session is about to replace the last one. */
  #isBetweenSessions(error: unknown): boolean {
    if (!isProtocolError(error) || this.#session.state === 'closed') return false;
    return error.code === 'draining' || (error.code === 'session_closed' && error.side === 'local');
  }

  async #request(line: string): Promise<void> {
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
    this.#wasCancelled = false;
    let text = '';
    let parts = 0;
    try {
      for await (const part of reply) {
        // A gateway answers as HTTP does, with events of the API.
        const isChat = model !== undefined || decodeHttpResponse(reply.metadata) !== undefined;
        const words = isChat ? wordsOf(textOf(part)) : textOf(part);
        parts++;
        text += words;
        this.#view.part(words);
      }
    } finally {
      this.#reply = undefined;
    }
    if (model !== undefined)
      this.#chat.push({ role: 'user', content: line }, { role: 'assistant', content: text });
    this.#view.reply(text, parts, Math.round(performance.now() - start));
    if (this.#wasCancelled) this.#view.notice('reply cancelled');
  }

  async #send(line: string): Promise<void> {
    await this.#session.send(line, { algorithm: this.#options.algorithm });
    this.#unanswered++;
  }

  /** Shows messages from the server, in this session and those that replace it. */
  async #read(): Promise<void> {
    do {
      try {
        for await (const message of this.#session) {
          this.#view.message(message);
          this.#unanswered = Math.max(0, this.#unanswered - 1);
          this.#onMessage?.();
        }
      } catch {
        // The `error` event has already reported why the session ended.
      }
    } while (this.#session.state !== 'closed');
  }

  /** Waits for one answer to each one-way message, until they stop arriving. */
  async #awaitAnswers(): Promise<void> {
    while (this.#unanswered > 0 && this.#session.state !== 'closed') {
      const hasAnswer = await new Promise<boolean>((resolve) => {
        const timer = setTimeout(() => resolve(false), LINGER_MS);
        this.#onMessage = () => {
          clearTimeout(timer);
          resolve(true);
        };
      });
      if (!hasAnswer) return;
    }
  }

  /** @returns whether to continue. */
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

  /** Ctrl-C: cancels the present reply, or else quits. */
  #interrupt(): void {
    if (this.#reply === undefined) this.#lines.stop();
    else {
      this.#wasCancelled = true;
      this.#reply.cancel();
    }
  }

  #fail(error: unknown): void {
    this.#exitCode = ExitCode.FAILURE;
    this.#view.failure(error);
  }
}

const HELP = [
  '/send TEXT   send a one-way message',
  '/stats       show totals so far',
  '/quit        close the session, like Ctrl-D',
  'Ctrl-C       cancel the present reply, or else close the session',
];
