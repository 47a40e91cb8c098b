import { count, duration } from '../shared/format.js';
import type { Turn } from './conversation.js';

/** Marks in an answer where the connection was lost or silent, with what arrived at once when it was back. */
export interface Interruptions {
  /**
   * The connection is lost, while this answer was being written.
   *
   * @param silentMs how long nothing had been heard; 0 unless that was noticed.
   * @param isMove the session has left the connection for another one.
   */
  lose(turn: Turn | undefined, silentMs: number, isMove: boolean): void;
  /** The connection is back. Returns what has happened if no answer was being written. */
  resume(): string | undefined;
  /** Time has passed. Returns whether a break of an answer is not over. */
  tick(): boolean;
  /** The user has frozen the connection. */
  freeze(): void;
  /** Something is heard again, after so long a silence while this answer was being written. */
  hear(turn: Turn, silentMs: number): void;
  /** The page was loaded again, while this answer was being written. */
  reload(turn: Turn, awayMs: number): void;
  /** A piece of this answer has arrived and is to be shown. */
  receive(turn: Turn): void;
  /** The answer has ended, or cannot continue. @param isWhole all of it has arrived. */
  end(turn: Turn, isWhole: boolean): void;
}

/** Pieces that arrive this soon have waited at the server, in milliseconds. */
const AT_ONCE_MS = 250;
/** Pieces that come later than this after a freeze did wait for it. */
const SILENCE_MS = 1_500;
const LOST = 'connection lost';
const ENDED = 'session lost';
const RELOADED = 'page loaded again';
const MOVED = 'moved to another connection';
/** The word between one of these and its duration. @default for */
const TOOK: Readonly<Partial<Record<string, string>>> = {
  [ENDED]: 'after',
  [RELOADED]: 'after',
  [MOVED]: 'in',
};

const describe = (what: string, ms: number) => `${what} ${TOOK[what] ?? 'for'} ${duration(ms)}`;

/**
 * @param mark adds a mark at the end of the answer so far.
 * @param onCaught called with how many pieces have come at once since a break.
 */
export function createInterruptions(
  mark: (turn: Turn) => HTMLElement,
  onCaught: (caught: number) => void,
): Interruptions {
  /** The marks of an answer whose end has not come. */
  const marks = new Map<Turn, HTMLElement[]>();
  let lost:
    | {
        readonly since: number;
        readonly what: string;
        readonly turn: Turn | undefined;
        readonly element: HTMLElement | undefined;
      }
    | undefined;
  let frozen: { readonly since: number; lastAt: number } | undefined;
  /** The mark whose pieces are being counted. */
  let counting:
    | {
        readonly turn: Turn;
        readonly element: HTMLElement;
        readonly what: string;
        until: number;
        caught: number;
      }
    | undefined;

  /** In place of the break that is not over, if there is one. */
  function note(turn: Turn, what: string, ms: number, isOpen: boolean): void {
    const to = Date.now() - turn.asked;
    const before = turn.reading.breaks.filter((each) => each.isOpen !== true);
    const breaks = [...before, { what, from: Math.max(0, to - ms), to, caught: 0, isOpen }];
    turn.reading = { ...turn.reading, breaks };
  }

  function tick(): boolean {
    if (lost?.turn === undefined) return false;
    note(lost.turn, lost.what, performance.now() - lost.since, true);
    return true;
  }

  /** @param ms how long that took, up to now. */
  function begin(turn: Turn, element: HTMLElement, what: string, ms: number): void {
    marks.set(turn, [...(marks.get(turn) ?? []), element]);
    note(turn, what, ms, false);
    counting = { turn, element, what: describe(what, ms), until: performance.now() + AT_ONCE_MS, caught: 0 };
    show();
  }

  function show(): void {
    if (counting === undefined) return;
    const { element, what, caught } = counting;
    const caughtUp = caught === 0 ? '' : ` · ${count(caught, 'piece')} caught up`;
    element.textContent = `${what}${caughtUp}`;
  }

  return {
    lose(turn, silentMs, isMove) {
      frozen = counting = undefined;
      const what = isMove ? MOVED : LOST;
      const element = turn && mark(turn);
      if (element !== undefined) {
        element.textContent = what;
        element.classList.add('open');
      }
      lost = { since: performance.now() - silentMs, what, turn, element };
      tick();
    },

    tick,

    resume() {
      if (lost === undefined) return undefined;
      const { since, what, turn, element } = lost;
      lost = undefined;
      const ms = performance.now() - since;
      if (turn === undefined || element === undefined) return describe(what, ms);
      element.classList.remove('open');
      begin(turn, element, what, ms);
      return undefined;
    },

    freeze() {
      frozen = { since: performance.now(), lastAt: performance.now() };
    },

    hear(turn, silentMs) {
      frozen = undefined;
      begin(turn, mark(turn), 'nothing heard', silentMs);
    },

    reload(turn, awayMs) {
      begin(turn, mark(turn), RELOADED, awayMs);
    },

    receive(turn) {
      const now = performance.now();
      if (frozen !== undefined) {
        const { lastAt } = frozen;
        if (now - lastAt < SILENCE_MS) frozen.lastAt = now;
        else {
          frozen = undefined;
          begin(turn, mark(turn), 'connection frozen', now - lastAt);
        }
      }
      if (counting === undefined || counting.turn !== turn) return;
      if (now > counting.until) counting = undefined;
      else {
        counting.caught++;
        onCaught(counting.caught);
        const { breaks } = turn.reading;
        const last = breaks.at(-1);
        if (last !== undefined)
          turn.reading = {
            ...turn.reading,
            breaks: [...breaks.slice(0, -1), { ...last, caught: counting.caught }],
          };
        show();
      }
    },

    end(turn, isWhole) {
      // It could not continue, so nothing was resumed.
      if (lost?.element !== undefined && lost.turn === turn) {
        const { element, since } = lost;
        element.classList.remove('open');
        begin(turn, element, turn.state === 'interrupted' ? ENDED : LOST, performance.now() - since);
        lost = { ...lost, turn: undefined };
      }
      if (counting?.turn === turn) counting = undefined;
      if (isWhole) for (const element of marks.get(turn) ?? []) element.append(' · nothing missing');
      // An answer that continues in the next session may still become whole.
      if (isWhole || turn.reply === undefined) marks.delete(turn);
    },
  };
}
