import type { ClientSession } from '@parlance/client';
import { createPainter } from '../shared/paint.js';
import { isNews, type Piece, type Turn, type TurnReply, take, wordsOf } from './conversation.js';
import { CuttableSocket } from './cuttable-socket.js';
import { isWhole } from './endings.js';
import type { Interruptions } from './interruptions.js';
import { loadModel } from './load-model.js';
import type { PlainHttpSize } from './plain-http.js';
import type { Silence } from './silence.js';
import { hold, isHeld } from './tab.js';
import type { Traffic } from './traffic.js';

/** Receives answers, one at a time. */
export interface Answering {
  /** The turn whose answer is being received. */
  readonly turn: Turn | undefined;
  /** Whether another answer can be begun: none is received, or the last one is being stopped. */
  readonly isFree: boolean;
  /**
   * Receives the answer to `turn`.
   *
   * @param ask sends the question; without it, an answer is followed that was asked for already.
   */
  answer(turn: Turn, session: ClientSession, ask?: Ask): Promise<void>;
  stop(): void;
}

export type Ask = (
  signal: AbortSignal,
  session: ClientSession,
  size: PlainHttpSize,
) => Promise<AsyncIterable<Piece>>;

export interface AnsweringOptions {
  readonly traffic: Traffic;
  readonly silence: Silence;
  readonly interruptions: Interruptions;
  /** Whether this turn came with a copy of another tab, which receives the answer too. */
  readonly isCopied: (turn: Turn) => boolean;
  onBegin(turn: Turn): void;
  /** Something new has arrived. */
  onPiece(turn: Turn): void;
  /** Shows what has arrived. */
  onPaint(turn: Turn): void;
  /** The answer is complete, or nothing follows for now. @param sessionId of the session in which it was received. */
  onEnd(turn: Turn, sessionId: string): Promise<void>;
  /** The server does not have the answer. Resolves with whether another tab has stored its end, which this turn has now. */
  takeEnd(turn: Turn): Promise<boolean>;
  /** Its figures have become complete after its end. */
  onFigures(turn: Turn): void;
  /** The server has not stopped an answer. */
  onNotStopped(why: string): void;
}

/** Asks the server what it has written of an answer that has ended. It may have said so already, or not know it any more. */
export async function askWritten(turn: Turn, session: ClientSession): Promise<void> {
  const { end, written } = turn.reading;
  if (end === undefined || written !== undefined) return;
  const model = await loadModel();
  turn.reading = { ...turn.reading, written: await model.askWritten(session, end.name, end.chunks) };
}

export function createAnswering(options: AnsweringOptions): Answering {
  const { traffic, silence, interruptions } = options;
  let running:
    | {
        readonly turn: Turn;
        readonly controller: AbortController;
        readonly session: ClientSession;
        readonly isFollowed: boolean;
      }
    | undefined;

  async function answer(turn: Turn, session: ClientSession, ask?: Ask): Promise<void> {
    const controller = new AbortController();
    const isFollowed = ask === undefined;
    const { id } = session;
    const release = isFollowed ? undefined : hold(lockOf(turn));
    running = { turn, controller, session, isFollowed };
    silence.begin();
    options.onBegin(turn);
    const meter = traffic.begin(turn);
    const painter = createPainter(() => {
      meter.read();
      options.onPaint(turn);
    });
    let thinkingSince: number | undefined;
    let written: Promise<void> | undefined;
    try {
      const { followModel, gather } = await loadModel();
      CuttableSocket.onEvent = gather;
      const { signal } = controller;
      const pieces =
        ask !== undefined
          ? await ask(signal, session, meter.http)
          : followModel(turn.reply as TurnReply, signal, session.fetch, meter.http);
      for await (const piece of pieces) {
        const to = Date.now() - turn.asked;
        turn.reading = { ...turn.reading, from: turn.reading.from ?? to, to };
        meter.received();
        silence.receive();
        const isNew = isNews(piece);
        // A mark comes before the words that it announces.
        if (isNew) interruptions.receive(turn);
        if (piece.thinking !== '' && wordsOf(turn) === '')
          thinkingSince ??= performance.now() - turn.thoughtMs;
        take(turn, piece);
        if (thinkingSince !== undefined) turn.thoughtMs = performance.now() - thinkingSince;
        // Its time ends with the first word.
        if (thinkingSince !== undefined && wordsOf(turn) !== '') thinkingSince = undefined;
        if (!isNew) continue;
        if (!isStopped(turn)) turn.state = 'streaming';
        options.onPiece(turn);
        painter.soon();
      }
      // Only `stop` ends the loop early without an error.
      if (!isStopped(turn)) {
        turn.state = 'done';
        written = ended(turn, session);
      }
      turn.reply = undefined;
    } catch (error) {
      await handleFailure(error, turn, isFollowed, session);
    } finally {
      running = undefined;
      silence.end();
      interruptions.end(turn, isWhole(turn));
      const settled = meter.settle();
      painter.now();
      // Other tabs look for its end as soon as the lock is free.
      void options.onEnd(turn, id).finally(release);
      for (const figures of [settled, written]) void figures?.finally(() => options.onFigures(turn));
    }
  }

  /** All of the answer was handed to this page. Resolves when the server has said what it has written. */
  async function ended(turn: Turn, session: ClientSession): Promise<void> {
    if (turn.reply === undefined) return;
    const { name, position: chunks, sum: sha256 } = turn.reply;
    turn.reading = { ...turn.reading, end: { name, chunks, sha256 }, isAsked: true };
    try {
      await askWritten(turn, session);
    } finally {
      turn.reading = { ...turn.reading, isAsked: false };
    }
  }

  async function handleFailure(
    error: unknown,
    turn: Turn,
    isFollowed: boolean,
    session: ClientSession,
  ): Promise<void> {
    const model = await loadModel().catch(() => undefined);
    if (model === undefined) {
      const title = 'A part of this page could not be loaded. Check your connection, then ask again.';
      turn.state = 'failed';
      turn.problem = { title, detail: '', code: undefined, retryAt: undefined };
      return;
    }
    const problem = model.problemOf(error);
    if (problem === undefined) throw error;
    const isLost = LOSSES.includes(problem.code) || isOver(session);
    // The next session continues it.
    if (!isLost || isStopped(turn)) turn.reply = undefined;
    if (isStopped(turn)) return;
    if (problem.code === 'cancelled') {
      turn.state = 'stopped';
      turn.problem = { ...problem, title: 'This answer was stopped, in another tab or by the server.' };
      return;
    }
    const isGone = isFollowed && (problem.code === 'unknown_reply' || problem.code === 'unsupported');
    if (isGone && (await options.takeEnd(turn))) return;
    if (isGone && (options.isCopied(turn) || (await isHeld(lockOf(turn))))) turn.state = 'elsewhere';
    else turn.state = isLost || isGone ? 'interrupted' : 'failed';
    if (turn.state === 'failed') turn.problem = problem;
  }

  async function stopAtServer({ name, position }: TurnReply, session: ClientSession): Promise<void> {
    try {
      await session.follow(name, { after: position }).stop();
    } catch (error) {
      const problem = (await loadModel()).problemOf(error);
      if (problem === undefined) throw error;
      // It may have ended in the meantime.
      if (problem.code !== 'unknown_reply') options.onNotStopped(problem.title);
    }
  }

  return {
    get turn() {
      return running?.turn;
    },
    get isFree() {
      return running === undefined || isStopped(running.turn);
    },
    answer,
    stop() {
      if (running === undefined) return;
      const { turn, controller, session, isFollowed } = running;
      turn.state = 'stopped';
      controller.abort();
      // The abort of a request stops the model, the abort of following does not.
      if (isFollowed && turn.reply !== undefined) void stopAtServer(turn.reply, session);
    },
  };
}

/** Held by the tab that has asked, as long as it receives the answer. */
function lockOf({ id }: Turn): string {
  return `parlance-answer ${id}`;
}

/** Codes of a session that has ended. */
const LOSSES: readonly (string | undefined)[] = ['session_lost', 'session_closed', 'draining'];

function isStopped(turn: Turn): boolean {
  return turn.state === 'stopped';
}

function isOver({ state }: ClientSession): boolean {
  return state === 'closing' || state === 'closed';
}
