import { type ClientSession, connect as connectSession, type FollowedReply } from '@parlance/client';
import { decodeHttpResponse, isProtocolError, type Message } from '@parlance/protocol';
import { WebSocket } from 'ws';
import { wordsOf } from '../base/chat-request.js';
import { CommandFailure, describeFailure, ExitCode } from '../base/failure.js';
import { withHint } from '../connect/connect.js';
import { textOf } from '../connect/connect-view.js';
import type { FollowView } from './follow-view.js';

export interface FollowOptions {
  /** The ID or the name of a reply. @default lists the replies */
  readonly reply: string | undefined;
  /** The number of the part after which to begin. */
  readonly after: number;
  /** Stop the handler instead of reading. */
  readonly stop: boolean;
  readonly token: string | undefined;
}

/** Silence after which the command says that it waits for the reply, in milliseconds. */
const SILENCE_MS = 2_000;

/** `parlance follow`: prints a reply that a server keeps, stops it, or lists the replies. */
export async function follow(url: string, options: FollowOptions, view: FollowView): Promise<ExitCode> {
  const { reply, after, stop, token } = options;
  if (reply === undefined && (stop || after > 0)) {
    throw new CommandFailure('--stop and --after need the ID or the name of a reply', ExitCode.USAGE);
  }
  view.connecting(url);
  const connecting = connectSession(url, { token, WebSocket });
  const session = await connecting.catch((error: unknown) => {
    throw withHint(error, token);
  });
  try {
    if (reply === undefined) view.list(await session.replies());
    else if (stop) {
      await session.follow(reply, { after: Number.MAX_SAFE_INTEGER }).stop();
      view.stopped(reply);
    } else await new Following(session, view, { url, reply, after }).run();
    return ExitCode.OK;
  } catch (error) {
    throw withAdvice(error, url);
  } finally {
    await session.close();
  }
}

/** Adds what to do about an error. */
function withAdvice(error: unknown, url: string): unknown {
  if (!isProtocolError(error)) return error;
  const advice = ADVICE.get(error.code)?.replace('URL', url);
  return advice === undefined ? error : new CommandFailure(`${describeFailure(error)}; ${advice}`);
}

const ADVICE = new Map([
  ['unknown_reply', 'list the replies that are yours with: parlance follow URL'],
  ['unsupported', 'use a server that keeps replies, such as parlance serve'],
  ['cancelled', 'nothing more will follow; ask again'],
]);

/** Codes of a session that has ended before the reply. */
const SESSION_OVER: ReadonlySet<string> = new Set(['session_lost', 'session_closed', 'draining']);

interface Followed {
  readonly url: string;
  readonly reply: string;
  readonly after: number;
}

/** Reads one reply to its end, or until Ctrl-C. */
class Following {
  readonly #session: ClientSession;
  readonly #view: FollowView;
  readonly #followed: Followed;
  readonly #left = new AbortController();
  #silence: ReturnType<typeof setTimeout> | undefined;

  constructor(session: ClientSession, view: FollowView, followed: Followed) {
    this.#session = session;
    this.#view = view;
    this.#followed = followed;
  }

  async run(): Promise<void> {
    const { reply, after } = this.#followed;
    const { signal } = this.#left;
    const onInterrupt = () => this.#left.abort();
    process.once('SIGINT', onInterrupt);
    this.#session.on('state', (state) => {
      if (state === 'suspended' || state === 'established') this.#view.state(state);
    });
    this.#view.following(reply, after);
    const followed = this.#session.follow(reply, { after, signal });
    try {
      this.#listen(followed);
      for await (const part of followed) {
        this.#view.part(wordsIn(part, followed));
        this.#listen(followed);
      }
      this.#view.complete(followed.position);
    } catch (error) {
      if (!signal.aborted) throw this.#describe(error, followed);
      this.#view.left(this.#rest(followed));
    } finally {
      clearTimeout(this.#silence);
      process.off('SIGINT', onInterrupt);
      this.#view.end();
    }
  }

  /** Says after a while that it waits for the next part. */
  #listen(followed: FollowedReply): void {
    clearTimeout(this.#silence);
    this.#silence = setTimeout(() => this.#view.waiting(followed.position + 1), SILENCE_MS);
  }

  /** An end of the session, after which the reply can be followed again. */
  #describe(error: unknown, followed: FollowedReply): unknown {
    if (!isProtocolError(error) || !SESSION_OVER.has(error.code)) return error;
    return new CommandFailure(`${describeFailure(error)}; continue with: ${this.#rest(followed)}`);
  }

  /** The command line for the rest of the reply. */
  #rest({ position, keptId }: FollowedReply): string {
    const { url, reply } = this.#followed;
    return `parlance follow ${url} ${keptId ?? reply} --after ${position}`;
  }
}

/** The text of a part: of a chat completion that is streamed in events, its words; of other events, a line each. */
function wordsIn(part: Message, { metadata }: FollowedReply): string {
  const text = textOf(part);
  const type = decodeHttpResponse(metadata)?.headers.get('content-type') ?? '';
  if (!type.startsWith('text/event-stream') || text === '') return text;
  const words = wordsOf(text);
  return words === text ? `${text}\n` : words;
}
